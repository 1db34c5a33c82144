"""Jobs whose traces name one thing that costs them much."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.fleet.actions import Action, by_name, command, ids, jobs_named, price_of
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport, JobRow
from ofu_exporter.fleet.reports.sweeps import anchor_of
from ofu_exporter.fleet.reports.tables import share

LEAST_RATIO = 0.1
"""Of the time of the traced ranks."""


def find(report: FleetReport) -> Iterator[Action]:
    traced = [
        row for row in report.jobs if row.finding and (row.finding_ratio or 0.0) >= LEAST_RATIO
    ]
    for rows in by_name(traced):
        worst = max(rows, key=lambda row: row.finding_ratio or 0.0)
        lost = sum(map(_lost, rows))
        row = ActionRow(
            kind="traced",
            who=jobs_named(rows),
            gpu_hours=lost,
            cost=price_of(rows, lost),
            why=f"Its traces prove {worst.finding}, at most {share(worst.finding_ratio)} of their time; the hours "
            "are those if all of its time is like that.",
            next=f"docs/where.md says what helps; {command(report, worst)} shows the job.",
            link="docs/where.md",
            at=anchor_of(report, rows[0]),
        )
        yield Action(row, ids(rows))


def _lost(row: JobRow) -> float:
    return row.observed_gpu_hours * (row.finding_ratio or 0.0)
