"""Makes the report of what changed in a fleet and what is slow, and says how much could be looked at."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ofu_exporter.fleet.changes.alike import ENOUGH
from ofu_exporter.fleet.changes.peer_hours import CLOCK, WORK, NodeHours, PeerReader
from ofu_exporter.fleet.changes.peers import PeerComparison, PeerHours, compare_peers, without_nodes
from ofu_exporter.fleet.changes.point import OfuPoint
from ofu_exporter.fleet.changes.series import job_series, long_jobs, models, rows_of
from ofu_exporter.fleet.changes.survey import (
    FEWEST_POINTS,
    REPORT_LEVEL,
    LevelChange,
    OfuSeries,
    Survey,
    survey,
)
from ofu_exporter.fleet.changes.text import changes_headline
from ofu_exporter.fleet.changes_result import (
    ChangeRow,
    ChangesReport,
    ComparedValue,
    KindRow,
    NeighbourRow,
    SeriesKind,
    ShareRow,
)
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.fleet_history import FleetHistory, JobHistory, JobSums
from ofu_exporter.fleet.history.history import read_history
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.hours import DAY, TimeSpan
from ofu_exporter.fleet.reports.fleet_report import ReportOptions, fleet_report, rated_jobs
from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.result import FleetReport, JobRow

MOST_SHARES = 3
"""Most names of jobs that are listed for one change."""
NEIGHBOURS = 5
"""Points before and after a change that are named with it."""
WANTED = ReportOptions("job", Prices(), target=0.0)
"""Of the report over the fleet: nothing here is about targets or prices."""


@dataclass(slots=True)
class Collected:
    history: FleetHistory
    series: list[OfuSeries]
    left_out: Mapping[str, int]
    peers: list[tuple[PeerComparison, PeerComparison]]
    """Of GPUs and of nodes."""
    peer_span: TimeSpan
    """The time of which single GPUs were compared."""


def compare_all(
    reader: ChunkReader, times: tuple[float, float], kinds: Sequence[SeriesKind]
) -> tuple[Collected, FleetReport]:
    """What is compared, and the report over the same time."""
    history = read_history(reader, *times)
    jobs = rated_jobs(history, WANTED)
    collected = collect(reader, history, [job.row for job in jobs], kinds)
    return collected, fleet_report(history, WANTED, reader, jobs)


def collect(
    reader: ChunkReader,
    history: FleetHistory,
    jobs: Sequence[JobRow],
    kinds: Sequence[SeriesKind],
    most_gpu_hours: float = math.inf,
) -> Collected:
    """What is compared, of a history that was read; of single GPUs only the last `most_gpu_hours`."""
    named, left_out = job_series(jobs)
    series = named if "name" in kinds else []
    series += models(history, jobs) if "model" in kinds else []
    series += long_jobs(history, jobs) if "job" in kinds else []
    last = history.last(most_gpu_hours)
    compared = _read_peers(PeerReader(reader, last), series, last) if "node" in kinds else []
    return Collected(history, series, left_out, compared, last.span)


def _read_peers(
    reader: PeerReader, series: list[OfuSeries], history: FleetHistory
) -> list[tuple[PeerComparison, PeerComparison]]:
    """Both comparisons; the series of nodes are added to the others."""
    nodes = NodeHours()
    read: dict[ComparedValue, PeerHours] = {
        "ofu": reader.read(WORK, nodes),
        "sm_clock": reader.read(CLOCK),
    }
    series += nodes.series(history.clock)
    return [
        (compare_peers(each.gpus, name, "gpu"), compare_peers(each.nodes, name, "node"))
        for name, each in read.items()
    ]


def changes_report(
    collected: Collected, fleet: FleetReport, least_factor: float, kinds: Sequence[SeriesKind]
) -> ChangesReport:
    """What changed; `fleet` is the report over the same time."""
    surveyed = survey(collected.series, least_factor)
    rows = [_change_row(each, collected, fleet) for each in surveyed.changes]
    slow = [
        row
        for gpus, nodes in collected.peers
        for row in (*nodes.slow, *without_nodes(gpus.slow, nodes.slow))
    ]
    return ChangesReport(
        server=fleet.server,
        headline=collected.history.mark + changes_headline(rows, slow, surveyed.tested),
        time=fleet.time,
        clusters=fleet.clusters,
        series=[_kind_row(kind, collected.series, surveyed) for kind in kinds],
        report_level=REPORT_LEVEL,
        expected_false=surveyed.expected_false,
        least_factor=least_factor,
        smaller=surveyed.smaller,
        changes=rows,
        slow=slow,
        peers=[each.row for both in collected.peers for each in both],
        missing=fleet.missing,
        notes=[*_unsure(surveyed), *_notes(collected, kinds), *fleet.notes],
        reading=fleet.reading,
    )


def _change_row(change: LevelChange, collected: Collected, fleet: FleetReport) -> ChangeRow:
    series, break_ = change.series, change.level
    return ChangeRow(
        kind=series.kind,
        labels=dict(series.labels),
        direction="regression" if break_.factor < 1 else "improvement",
        sure=change.sure,
        at=iso(change.after[0].at_unix),
        after_last=iso(change.before[-1].at_unix),
        factor=break_.factor,
        factor_low=break_.factor_low,
        factor_high=break_.factor_high,
        ofu_before=break_.before,
        ofu_after=break_.after,
        chance_of_series=break_.chance,
        chance_in_report=change.chance_in_report,
        lost_gpu_hours=change.lost_gpu_hours,
        before=[_neighbour(each) for each in change.before[-NEIGHBOURS:]],
        after=[_neighbour(each) for each in change.after[:NEIGHBOURS]],
        shares=_shares(change, collected.history, fleet) if series.kind == "model" else [],
    )


def _neighbour(point: OfuPoint) -> NeighbourRow:
    return NeighbourRow(
        job_id=point.job_id or None,
        begin=iso(point.at_unix),
        ofu=point.value,
        gpus=point.gpus if point.job_id else None,
        gpu_hours=point.gpu_hours,
    )


def _shares(change: LevelChange, history: FleetHistory, fleet: FleetReport) -> list[ShareRow]:
    labels = dict(change.series.labels)
    marks = (change.before[0], change.after[0], change.after[-1])
    first, day, last = (int(point.at_unix // DAY) for point in marks)
    jobs = ((history.jobs[key], row) for key, row in sorted(rows_of(history, fleet.jobs).items()))
    days = (range(first, day), range(day + 1, last + 1))
    return share_rows(jobs, labels["cluster"], labels["model"], days)


def _kind_row(kind: SeriesKind, series: Iterable[OfuSeries], surveyed: Survey) -> KindRow:
    counts = [len(each.points) for each in series if each.kind == kind]
    tested = sum(count >= FEWEST_POINTS for count in counts)
    likeness = surveyed.likeness[kind].value if kind in surveyed.likeness else 0.0
    return KindRow(kind=kind, tested=tested, too_short=len(counts) - tested, likeness=likeness)


def _unsure(surveyed: Survey) -> Iterator[str]:
    for kind, likeness in surveyed.likeness.items():
        if not likeness.knows_enough(0):
            yield (
                f"By {kind}, {likeness.points} points in all do not tell how alike neighbours are: no change of a "
                f"series of fewer than {ENOUGH} points is called sure, and the intervals are wide."
            )


def _notes(collected: Collected, kinds: Sequence[SeriesKind]) -> Iterator[str]:
    for why, count in collected.left_out.items():
        if count and "name" in kinds:
            yield f"Jobs that are in no series of jobs, because they {why}: {count}."
    if collected.peers and collected.peer_span != collected.history.span:
        yield (
            f"GPUs and nodes were compared with their peers in the last {collected.peer_span.hours} hours alone; "
            "ofu-exporter fleet changes compares all."
        )
    if collected.peers and not any(gpus.row.count for gpus, _ in collected.peers):
        yield (
            "No GPU could be compared with others of its job: that needs jobs of four GPUs or more for twelve hours, "
            "and the series job_gpu:ofu:ratio_rate5m of the recording rules or those of the agents themselves."
        )


class _Sides(NamedTuple):
    """GPU-hours before and after a change."""

    before: JobSums
    after: JobSums

    @classmethod
    def empty(cls) -> _Sides:
        return cls(JobSums(), JobSums())


def share_rows(
    jobs: Iterable[tuple[JobHistory, JobRow]], cluster: str, model: str, days: tuple[range, range]
) -> list[ShareRow]:
    """The names of jobs that moved the OFU most. Empty where there is no whole day on one side.

    `days` are those since 1970 before and after the change. Its own day is in neither, since it is both.
    """
    by_job: dict[tuple[str, str], _Sides] = defaultdict(_Sides.empty)
    for job, row in jobs:
        if (row.cluster, row.model) == (cluster, model):
            for sums, span in zip(by_job[row.job_name, row.user], days, strict=True):
                for day in span:
                    sums.add(job.days.get(day, JobSums()))
    whole = before, after = _Sides.empty()
    for sides in by_job.values():
        before.add(sides.before)
        after.add(sides.after)
    if not before.observed or not after.observed:
        return []
    middle = (before.utilized / before.observed + after.utilized / after.observed) / 2
    rows = [_row(name, sides, whole, middle) for name, sides in sorted(by_job.items())]
    return sorted(rows, key=lambda row: -abs(row.points))[:MOST_SHARES]


def _row(name: tuple[str, str], sides: _Sides, whole: _Sides, middle: float) -> ShareRow:
    """What one name contributed: its distance from the middle times its share, after minus before. Rows add up."""
    job_name, user = name
    before, after = (
        (sums.utilized - middle * sums.observed) / total.observed
        for sums, total in zip(sides, whole, strict=True)
    )
    return ShareRow(
        job_name=job_name,
        user=user,
        share_before=sides.before.observed / whole.before.observed,
        share_after=sides.after.observed / whole.after.observed,
        ofu_before=sides.before.ofu,
        ofu_after=sides.after.ofu,
        points=100 * (after - before),
    )
