"""Jobs that report an MFU above what their GPUs did."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.fleet.actions import Action, by_name, jobs_named
from ofu_exporter.fleet.reports.job_rows import is_flagged
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport
from ofu_exporter.fleet.reports.sweeps import anchor_of
from ofu_exporter.fleet.reports.tables import points, share


def find(report: FleetReport) -> Iterator[Action]:
    for rows in by_name(row for row in report.jobs if is_flagged(row)):
        first = rows[0]
        cause = f"; likeliest cause: {first.cause}" if first.cause else ""
        numbers = f"--mfu {share(first.mfu)} --ofu {share(first.ofu_compared)}"
        row = ActionRow(
            kind="wrong_number",
            who=jobs_named(rows),
            gpu_hours=None,
            cost=None,
            why=f"MFU {share(first.mfu)}, {points(first.error)} points above OFU{cause}. "
            "No hours are lost, but plans are made by this number.",
            next=f"Correct the count: `ofu-exporter explain {numbers}` says how.",
            link="docs/explain.md",
            at=anchor_of(report, rows[0]),
        )
        yield Action(row, frozenset())
