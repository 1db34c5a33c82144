"""Says which jobs moved the OFU of a GPU model: by being faster or slower, or by being there more or less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ofu_exporter.fleet.changes.result import ShareRow
from ofu_exporter.fleet.reports.fleet_history import JobHistory, JobSums
from ofu_exporter.fleet.reports.result import JobRow

MOST = 3
"""Most names of jobs that are listed for one change."""


class Days(NamedTuple):
    """Days since 1970 before and after a change. The day of the change is in neither, since it is both."""

    before: range
    after: range


def shares(
    jobs: Iterable[tuple[JobHistory, JobRow]], cluster: str, model: str, days: Days
) -> list[ShareRow]:
    """The names of jobs that moved the OFU most. Empty where there is no whole day on one side."""
    by_job: dict[tuple[str, str], tuple[JobSums, JobSums]] = defaultdict(
        lambda: (JobSums(), JobSums())
    )
    for job, row in jobs:
        if (row.cluster, row.model) == (cluster, model):
            for sums, span in zip(by_job[row.job_name, row.user], days, strict=True):
                for day in span:
                    sums.add(job.days.get(day, JobSums()))
    before, after = JobSums(), JobSums()
    for pair in by_job.values():
        before.add(pair[0])
        after.add(pair[1])
    if not before.observed or not after.observed:
        return []
    middle = (before.utilized / before.observed + after.utilized / after.observed) / 2
    rows = [
        _row(name, pair, (before.observed, after.observed), middle)
        for name, pair in sorted(by_job.items())
    ]
    return sorted(rows, key=lambda row: -abs(row.points))[:MOST]


def _row(
    name: tuple[str, str], pair: tuple[JobSums, JobSums], totals: tuple[float, float], middle: float
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
        ofu_before=before.ofu,
        ofu_after=after.ofu,
        points=100 * (weighed[1] - weighed[0]),
    )
