"""Tells what each restart of a job cost: until it computed again, and for steps that it had reached before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ofu_exporter.fleet.hours import ServerClock
from ofu_exporter.fleet.reports.chain import JobProgress
from ofu_exporter.fleet.reports.chain_rows import RestartRow
from ofu_exporter.fleet.reports.job_rows import iso


def restart_rows(jobs: Sequence[JobProgress], clock: ServerClock) -> list[RestartRow]:
    """The restarts of all jobs, the most expensive first."""
    rows = (row for job in jobs for row in _rows(job, clock))
    return sorted(rows, key=lambda row: (-row.gpu_hours, row.cluster, row.job_id, row.end))


def _rows(job: JobProgress, clock: ServerClock) -> Iterator[RestartRow]:
    """What a job lost between one hour with restarts and the next is the cost of the former."""
    sums, row = job.sums, job.row
    if row is None:
        return
    recovering = sorted(sums.recovering.items())
    ends = [*sorted(sums.restarted), max(sums.recovering, default=0) + 1]
    for hour, until in pairwise(ends):
        lost = sum(value for at, value in recovering if hour <= at < until)
        count = sums.restarted[hour]
        yield RestartRow(
            cluster=row.cluster,
            job_id=row.job_id,
            job_name=row.job_name,
            user=row.user,
            account=row.account,
            end=iso(clock.end_of(hour)),
            restarts=count,
            gpu_hours=lost,
            cost=None if job.price is None else lost * job.price,
            recovery_hours=lost / row.gpus / count if row.gpus else None,
        )
