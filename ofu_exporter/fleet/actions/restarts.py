"""Jobs that restart, and lose GPU-hours until they compute anew what they had computed before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ofu_exporter.fleet.actions import Action, JobId, command, ids, jobs_named
from ofu_exporter.fleet.reports.chain_rows import RestartRow
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport
from ofu_exporter.fleet.reports.sweeps import anchor_of
from ofu_exporter.fleet.reports.tables import counted, hours
from ofu_exporter.values.losses import known_sum


def find(report: FleetReport) -> Iterator[Action]:
    by_job: dict[JobId, list[RestartRow]] = defaultdict(list)
    for each in report.restarts:
        by_job[each.cluster, each.job_id].append(each)
    for job in report.jobs:
        rows = by_job.get((job.cluster, job.job_id))
        if not rows:
            continue
        lost = sum(each.gpu_hours for each in rows)
        count = round(sum(each.restarts for each in rows))
        each_took = "" if not job.gpus else f", {hours(lost / job.gpus / count)} hours each"
        row = ActionRow(
            kind="restarts",
            who=jobs_named([job]),
            gpu_hours=lost,
            cost=known_sum(each.cost for each in rows),
            why=f"{counted(count, 'restart')} took {hours(lost)} GPU-hours until the job was where it had been before"
            f"{each_took}.",
            next=f"Find out why it restarts, and save more often: {command(report, job)}.",
            link="docs/runbooks.md",
            at=anchor_of(report, job),
        )
        yield Action(row, ids([job]))
