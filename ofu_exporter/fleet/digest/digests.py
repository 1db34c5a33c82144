"""Makes the digest of every user or account from a report over the fleet, with the same numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from ofu_exporter.fleet.actions.kinds import sure_regressions, why
from ofu_exporter.fleet.digest import advice
from ofu_exporter.fleet.digest.config_file import DigestConfig, Exemptions
from ofu_exporter.fleet.digest.result import Digest, DigestBy, DigestJob, Rank
from ofu_exporter.fleet.digest.signs import FleetSigns, JobSigns, PartitionKey
from ofu_exporter.fleet.history.fleet_history import ClusterJob
from ofu_exporter.fleet.pages import tables
from ofu_exporter.fleet.reports.reachable import is_memory_bound
from ofu_exporter.fleet.reports.result import FleetReport, GroupRow, JobRow
from ofu_exporter.support.durations import lasting
from ofu_exporter.support.percent import percent, ratio
from ofu_exporter.values.losses import known_sum


def exemption(row: JobRow, signs: JobSigns, wanted: Exemptions) -> str | None:
    """Why a job is exempt; None if it is not. An unknown value exempts no job."""
    for what, name, patterns in (
        ("partition", row.partition, wanted.partitions),
        ("name", row.job_name, wanted.job_names),
        ("user", row.user, wanted.users),
    ):
        if name and any(fnmatchcase(name, pattern) for pattern in patterns):
            return f"its {what} is exempt"
    if is_memory_bound(row):
        return f"it serves, bound by memory: that was busy {percent(row.memory_ratio)} of the time"
    lasted = 3600 * row.held_gpu_hours / row.gpus if row.gpus else None
    if lasted is not None and lasted < wanted.shorter_than:
        return f"shorter than {lasting(wanted.shorter_than)}"
    busy = signs.dram_busy
    is_known = lasted is not None and 3600 * signs.dram_hours >= lasted / 2
    if wanted.dram_busy is not None and is_known and busy is not None and busy >= wanted.dram_busy:
        return f"memory-bound: memory was busy {percent(busy)} of the time"
    return None


FEWEST_RANKED = 3
"""With fewer, a rank would reveal another user's numbers."""


class DigestSource(NamedTuple):
    report: FleetReport
    """By user or account."""
    signs: FleetSigns
    mark: str
    """The mark before text about simulated values."""


def digests(source: DigestSource, by: DigestBy, config: DigestConfig) -> list[Digest]:
    """One digest per name, in the order of the report. Jobs without a known user or account are in no digest."""
    jobs: dict[str, list[DigestJob]] = defaultdict(list)
    slower = {
        ClusterJob(row.cluster, row.job_id, row.user): why(change)
        for change, rows in reversed([*sure_regressions(source.report)])  # the largest is the last
        for row in rows
    }
    for row in source.report.jobs:
        if name := getattr(row, by):
            its = slower.get(ClusterJob(row.cluster, row.job_id, row.user), "")
            jobs[name].append(_job(row, source, config, its))
    totals = {row.name: row for row in source.report.groups if row.is_named}
    ranked = _ranked(jobs) if config.ranks else _Ranked({}, {})
    return [
        _digest(total, jobs[name], ranked, source, by, config) for name, total in totals.items()
    ]


class _Ranked(NamedTuple):
    """What names are ranked by, of their measured jobs that are not exempt; None where it is not known."""

    waste: Mapping[str, float | None]
    ofu: Mapping[str, float | None]


def _digest(
    total: GroupRow,
    jobs: Sequence[DigestJob],
    ranked: _Ranked,
    source: DigestSource,
    by: DigestBy,
    config: DigestConfig,
) -> Digest:
    report = source.report
    exempt = [job.row for job in jobs if job.exempt]
    return Digest(
        name=total.name,
        by=by,
        mark=source.mark,
        server=report.server,
        time=report.time,
        currency=report.currency,
        target=report.target,
        total=total,
        exempt_gpu_hours=sum(row.held_gpu_hours for row in exempt),
        exempt_wasted_gpu_hours=known_sum(row.wasted_gpu_hours for row in exempt),
        rank_by_waste=_rank(ranked.waste, total.name),
        rank_by_ofu=_rank(ranked.ofu, total.name),
        jobs=sorted(jobs, key=_by_waste),
        advice=list(advice.of_all(jobs)),
        limits=advice.limits(config.low_clock),
        remarks=tables.remarks(
            report.missing, [*report.contradictions, *advice.remarks(total, jobs)]
        ),
        contact=config.contact,
    )


def _by_waste(job: DigestJob) -> tuple[bool, float, float, str]:
    waste = job.row.wasted_gpu_hours
    return (job.exempt is not None, -(waste or 0.0), -job.row.held_gpu_hours, job.row.job_id)


def _job(row: JobRow, source: DigestSource, config: DigestConfig, slower: str) -> DigestJob:
    key, signs_of = ClusterJob(row.cluster, row.job_id), source.signs.jobs
    signs = signs_of.get(key._replace(user=row.user)) or signs_of.get(key) or JobSigns()
    target = _target(row, source, config)
    exempt = exemption(row, signs, config.exempt)
    advice_rows = advice.of_job(row, signs, target, config.low_clock, source.report, slower)
    return DigestJob(
        row=row,
        target=target,
        exempt=exempt,
        clock=signs.clock,
        dram_busy=signs.dram_busy,
        slow_gpus=signs.has_slow_gpus,
        advice=[] if exempt else list(advice_rows),
    )


def _target(row: JobRow, source: DigestSource, config: DigestConfig) -> float | None:
    """The target of a job's partition by the configuration, else by the site's rules, else that of the fleet."""
    targets = source.signs.targets
    wanted = (
        config.target(row.cluster, row.partition),
        targets.get(PartitionKey(row.cluster, row.partition)),
        targets.get(PartitionKey("", row.partition)),
    )
    return next((target for target in wanted if target is not None), source.report.target)


def _ranked(jobs: Mapping[str, Iterable[DigestJob]]) -> _Ranked:
    counted = {
        name: [job.row for job in each if not job.exempt and job.row.observed_gpu_hours > 0]
        for name, each in jobs.items()
    }
    waste = {
        name: known_sum(row.wasted_gpu_hours for row in rows) for name, rows in counted.items()
    }
    ofu = {
        name: ratio(
            sum(row.effective_gpu_hours for row in rows),
            sum(row.observed_gpu_hours for row in rows),
        )
        for name, rows in counted.items()
    }
    return _Ranked(waste, ofu)


def _rank(values: Mapping[str, float | None], name: str) -> Rank | None:
    """The rank, with the largest first; equal values share one. None if it is not known, or too few are."""
    value, numbers = values.get(name), [each for each in values.values() if each is not None]
    if value is None or len(numbers) < FEWEST_RANKED:
        return None
    return Rank(place=1 + sum(each > value for each in numbers), of=len(numbers))
