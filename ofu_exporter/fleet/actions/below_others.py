"""Jobs whose busy hours stay well below what comparable jobs, or else the target, reach."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.fleet.actions import Action, by_name, command, ids, jobs_named, price_of
from ofu_exporter.fleet.reports.reachable import busy_gap
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport
from ofu_exporter.fleet.reports.sweeps import anchor_of
from ofu_exporter.fleet.reports.tables import share

LEAST_GAP = 0.2
"""Of the busy GPU-hours; three of four jobs are below an upper quartile."""


def find(report: FleetReport) -> Iterator[Action]:
    for rows in by_name(row for row in report.jobs if row.recoverable_gpu_hours is not None):
        gap = sum(busy_gap(row) or 0.0 for row in rows)
        busy = sum(row.observed_gpu_hours - row.idle_gpu_hours for row in rows)
        if busy <= 0 or gap < LEAST_GAP * busy:
            continue
        ofu = sum(row.effective_gpu_hours for row in rows) / busy
        row = ActionRow(
            kind="below_others",
            who=jobs_named(rows),
            gpu_hours=gap,
            cost=price_of(rows, gap),
            why=f"OFU {share(ofu)} while busy; at what comparable jobs or the target reach, the same work takes "
            f"{share(gap / busy)} less GPU time.",
            next=f"{command(report, rows[0])} shows where its time goes.",
            link="docs/jobs.md",
            at=anchor_of(report, rows[0]),
        )
        yield Action(row, ids(rows), is_general=True)
