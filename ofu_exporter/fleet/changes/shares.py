"""Says which jobs moved the OFU of a GPU model: by being faster or slower, or by being there more or less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ofu_exporter.fleet.changes.result import ShareRow
from ofu_exporter.fleet.reports.fleet_history import JobHistory, ratio
from ofu_exporter.fleet.reports.result import JobRow

MOST = 3
"""Most names of jobs that are listed for one change."""


@dataclass(slots=True)
class _Sums:
    observed: float = 0.0
    utilized: float = 0.0


@dataclass(frozen=True, slots=True)
class Days:
    """Days since 1970 before and after a change. The day of the change is in neither, since it is both."""

    before: range
    after: range


def shares(
    jobs: Iterable[tuple[JobHistory, JobRow]], cluster: str, model: str, days: Days
) -> list[ShareRow]:
    """The names of jobs that moved the OFU most. Empty where there is no whole day on one side."""
    by_job: dict[tuple[str, str], tuple[_Sums, _Sums]] = defaultdict(lambda: (_Sums(), _Sums()))
    for job, row in jobs:
        if (row.cluster, row.model) == (cluster, model):
            for side, span in enumerate((days.before, days.after)):
                sums = by_job[row.job_name, row.user][side]
                for day in span:
                    if day in job.days:
                        sums.observed += job.days[day].observed
                        sums.utilized += job.days[day].utilized
    before, after = (_total(pair[side] for pair in by_job.values()) for side in (0, 1))
    if not before.observed or not after.observed:
        return []
    middle = (before.utilized / before.observed + after.utilized / after.observed) / 2
    rows = [
        _row(name, pair, (before.observed, after.observed), middle)
        for name, pair in sorted(by_job.items())
    ]
    return sorted(rows, key=lambda row: -abs(row.points))[:MOST]


def _total(sums: Iterable[_Sums]) -> _Sums:
    whole = _Sums()
    for each in sums:
        whole.observed += each.observed
        whole.utilized += each.utilized
    return whole


def _row(
    name: tuple[str, str], pair: tuple[_Sums, _Sums], totals: tuple[float, float], middle: float
) -> ShareRow:
    """What one name contributed: its distance from the middle times its share, after minus before. Rows add up."""
    before, after = pair
    weighed = [
        (sums.utilized - middle * sums.observed) / total
        for sums, total in zip(pair, totals, strict=True)
    ]
    return ShareRow(
        job_name=name[0],
        user=name[1],
        share_before=before.observed / totals[0],
        share_after=after.observed / totals[1],
        ofu_before=ratio(before.utilized, before.observed),
        ofu_after=ratio(after.utilized, after.observed),
        points=100 * (weighed[1] - weighed[0]),
    )
