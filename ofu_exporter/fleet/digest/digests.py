"""Makes the digest of every user or account from a report over the fleet, with the same numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from ofu_exporter.fleet.digest import advice
from ofu_exporter.fleet.digest.config_file import DigestConfig, Exemptions
from ofu_exporter.fleet.digest.result import Digest, DigestBy, DigestJob, Rank
from ofu_exporter.fleet.digest.signs import FleetSigns, JobSigns, PartitionKey
from ofu_exporter.fleet.reports import tables
from ofu_exporter.fleet.reports.fleet_history import JobKey, ratio
from ofu_exporter.fleet.reports.job_rows import known_sum
from ofu_exporter.fleet.reports.result import FleetReport, GroupRow, JobRow
from ofu_exporter.support.durations import lasting
from ofu_exporter.support.percent import percent


def exemption(row: JobRow, signs: JobSigns, wanted: Exemptions) -> str | None:
    """Why a job is exempt; None if it is not. An unknown value exempts no job."""
    for what, name, patterns in (
        ("partition", row.partition, wanted.partitions),
        ("name", row.job_name, wanted.job_names),
        ("user", row.user, wanted.users),
    ):
        if name and _fits(name, patterns):
            return f"its {what} is exempt"
    lasted = _seconds(row)
    if lasted is not None and lasted < wanted.shorter_than:
        return f"shorter than {lasting(wanted.shorter_than)}"
    busy = signs.dram_busy
    is_known = lasted is not None and 3600 * signs.dram_hours >= lasted / 2
    if wanted.dram_busy is not None and is_known and busy is not None and busy >= wanted.dram_busy:
        return f"memory-bound: memory was busy {percent(busy)} of the time"
    return None


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _seconds(row: JobRow) -> float | None:
    """How long the job held its GPUs; None if their number is not known."""
    return 3600 * row.held_gpu_hours / row.gpus if row.gpus else None


FEWEST_RANKED = 3
"""With fewer, a rank would reveal another user's numbers."""


class DigestSource(NamedTuple):
    """What digests are made of."""

    report: FleetReport
    """By user or account."""
    signs: FleetSigns
    mark: str
    """The mark before text about simulated values."""

    def target(self, cluster: str, partition: str) -> float | None:
        """That of the partition in this cluster by the site's rules, else in all clusters, else that of the fleet."""
        for place in (PartitionKey(cluster, partition), PartitionKey("", partition)):
            if place in self.signs.targets:
                return self.signs.targets[place]
        return self.report.target


def digests(source: DigestSource, by: DigestBy, config: DigestConfig) -> list[Digest]:
    """One digest per name, in the order of the report. Jobs without a known user or account are in no digest."""
    jobs: dict[str, list[DigestJob]] = defaultdict(list)
    for row in source.report.jobs:
        if name := getattr(row, by):
            jobs[name].append(_job(row, source, config))
    totals = {row.name: row for row in source.report.groups if row.is_named}
    ranks = _Ranks(jobs) if config.ranks else _Ranks({})
    return [
        _digest(totals[name], jobs[name], ranks, _DigestOptions(source, by, config))
        for name in totals
    ]


class _DigestOptions(NamedTuple):
    source: DigestSource
    by: DigestBy
    config: DigestConfig


def _digest(
    total: GroupRow, jobs: Sequence[DigestJob], ranks: _Ranks, wanted: _DigestOptions
) -> Digest:
    report, config = wanted.source.report, wanted.config
    exempt = [job.row for job in jobs if job.exempt]
    return Digest(
        name=total.name,
        by=wanted.by,
        mark=wanted.source.mark,
        server=report.server,
        time=report.time,
        currency=report.currency,
        target=report.target,
        total=total,
        exempt_gpu_hours=sum(row.held_gpu_hours for row in exempt),
        exempt_wasted_gpu_hours=known_sum(row.wasted_gpu_hours for row in exempt),
        rank_by_waste=ranks.by_waste(total.name),
        rank_by_ofu=ranks.by_ofu(total.name),
        jobs=sorted(jobs, key=_by_waste),
        advice=list(advice.of_all(jobs)),
        limits=advice.limits(config.low_clock),
        remarks=tables.remarks(report.missing, [*advice.remarks(total, jobs)]),
        contact=config.contact,
    )


def _by_waste(job: DigestJob) -> tuple[bool, float, float, str]:
    waste = job.row.wasted_gpu_hours
    return (job.exempt is not None, -(waste or 0.0), -job.row.held_gpu_hours, job.row.job_id)


def _job(row: JobRow, source: DigestSource, config: DigestConfig) -> DigestJob:
    signs = source.signs.jobs.get(JobKey(row.cluster, row.job_id)) or JobSigns()
    target = _target(row, source, config)
    exempt = exemption(row, signs, config.exempt)
    advice_rows = () if exempt else advice.of_job(row, signs, target, config.low_clock)
    return DigestJob(
        row=row,
        target=target,
        exempt=exempt,
        clock=signs.clock,
        dram_busy=signs.dram_busy,
        slow_gpus=signs.has_slow_gpus,
        advice=list(advice_rows),
    )


def _target(row: JobRow, source: DigestSource, config: DigestConfig) -> float | None:
    """The target of a job's partition by the configuration, else by the site's rules, else that of the fleet."""
    wanted = config.target(row.cluster, row.partition)
    return source.target(row.cluster, row.partition) if wanted is None else wanted


class _Ranks:
    """The rank of each name among all, by its measured jobs that are not exempt."""

    def __init__(self, jobs: Mapping[str, Iterable[DigestJob]]) -> None:
        counted = {
            name: [job.row for job in each if not job.exempt and job.row.observed_gpu_hours > 0]
            for name, each in jobs.items()
        }
        self._waste = _known(counted, lambda rows: known_sum(_waste(rows)))
        self._ofu = _known(
            counted,
            lambda rows: ratio(
                sum(row.effective_gpu_hours for row in rows),
                sum(row.observed_gpu_hours for row in rows),
            ),
        )

    def by_waste(self, name: str) -> Rank | None:
        return _rank(self._waste, name)

    def by_ofu(self, name: str) -> Rank | None:
        return _rank(self._ofu, name)


def _waste(rows: Iterable[JobRow]) -> Iterator[float | None]:
    return (row.wasted_gpu_hours for row in rows)


def _known(
    counted: Mapping[str, Sequence[JobRow]], value: Callable[[Sequence[JobRow]], float | None]
) -> dict[str, float]:
    values = {name: value(rows) for name, rows in counted.items()}
    return {name: number for name, number in values.items() if number is not None}


def _rank(values: Mapping[str, float], name: str) -> Rank | None:
    """The rank, with the largest first; equal values share one. None if it is not known, or too few are."""
    if name not in values or len(values) < FEWEST_RANKED:
        return None
    return Rank(place=1 + sum(value > values[name] for value in values.values()), of=len(values))
