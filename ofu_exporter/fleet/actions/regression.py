"""Jobs that are surely slower than they were before."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.fleet.actions import Action, ids, price_of
from ofu_exporter.fleet.changes_result import ChangeRow
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport, JobRow
from ofu_exporter.fleet.reports.tables import share

OF_JOBS = ("name", "job")
"""Kinds of series; changes of a model or a node are made of those of jobs."""


def find(report: FleetReport) -> Iterator[Action]:
    for change in report.changes.changes if report.changes else ():
        if change.sure and change.direction == "regression" and change.kind in OF_JOBS:
            rows = [row for row in report.jobs if _is_of(change, row)]
            if rows:
                yield Action(_row(change, rows, report.server), ids(rows))


def _is_of(change: ChangeRow, row: JobRow) -> bool:
    """Whether a job is of the series that changed, by every label that jobs have too."""
    known = change.labels.keys() & JobRow.model_fields.keys()
    return all(str(getattr(row, name) or "") == change.labels[name] for name in known)


def _row(change: ChangeRow, rows: list[JobRow], server: str) -> ActionRow:
    first = rows[0]
    lost = max(0.0, change.lost_gpu_hours)
    return ActionRow(
        kind="regression",
        who=f"{first.job_name or first.shown_name}{f' of {first.user}' if first.user else ''}",
        gpu_hours=lost,
        cost=price_of(rows, lost),
        why=f"OFU {share(change.ofu_before)} before {change.at[:10]}, {share(change.ofu_after)} since (sure).",
        next="Compare what changed that day (code, data, image, nodes): "
        f"ofu-exporter fleet job {first.job_id} --prometheus {server}",
        link="docs/changes.md",
    )
