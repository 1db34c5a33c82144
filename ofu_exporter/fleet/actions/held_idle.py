"""Jobs that held GPUs and let them rest for most of their time."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.fleet.actions import Action, by_name, ids, jobs_named, price_of
from ofu_exporter.fleet.reports.reachable import unused
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport
from ofu_exporter.fleet.reports.sweeps import anchor_of
from ofu_exporter.fleet.reports.tables import hours

MOSTLY = 0.5
"""Share of the measured GPU-hours."""


def find(report: FleetReport) -> Iterator[Action]:
    idle = [
        row
        for row in report.jobs
        if row.observed_gpu_hours and unused(row) >= MOSTLY * row.observed_gpu_hours
    ]
    for rows in by_name(idle):
        lost = sum(map(unused, rows))
        is_told = all(row.lost_idle_gpu_hours is not None for row in rows)
        what = "No kernel ran" if is_told else "No tensor work"
        observed = sum(row.observed_gpu_hours for row in rows)
        row = ActionRow(
            kind="held_idle",
            who=jobs_named(rows),
            gpu_hours=lost,
            cost=price_of(rows, lost),
            why=f"{what} in {hours(lost)} of {hours(observed)} measured GPU-hours.",
            next="End it if it hangs or waits for somebody; ask for fewer GPUs, or give such jobs a time limit.",
            link="docs/runbooks.md",
            at=anchor_of(report, rows[0]),
        )
        yield Action(row, ids(rows))
