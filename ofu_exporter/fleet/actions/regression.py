"""Jobs that are surely slower than they were before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ofu_exporter.fleet.actions import Action, command, ids, price_of
from ofu_exporter.fleet.changes_result import ChangeRow, SeriesKind
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport, JobRow
from ofu_exporter.fleet.reports.sweeps import anchor_of
from ofu_exporter.fleet.reports.tables import share

OF_JOBS: Sequence[SeriesKind] = ("name", "job")
"""Kinds of series; changes of a model or a node are made of those of jobs."""


def find(report: FleetReport) -> Iterator[Action]:
    for change, rows in sure_regressions(report):
        yield Action(_row(change, rows, report), ids(rows))


def sure_regressions(report: FleetReport) -> Iterator[tuple[ChangeRow, list[JobRow]]]:
    """Those of jobs, with the jobs of the report that they are of."""
    for change in report.changes.changes if report.changes else ():
        if change.sure and change.direction == "regression" and change.kind in OF_JOBS:
            rows = [row for row in report.jobs if _is_of(change, row)]
            if rows:
                yield change, rows


def why(change: ChangeRow) -> str:
    """Its numbers in a sentence."""
    before, after = share(change.ofu_before), share(change.ofu_after)
    return f"OFU {before} before {change.at[:10]}, {after} since (sure)."


def _is_of(change: ChangeRow, row: JobRow) -> bool:
    """Whether a job is of the series that changed, by every label that jobs have too."""
    labels = change.labels.keys() & JobRow.model_fields.keys()
    return all(str(getattr(row, name) or "") == change.labels[name] for name in labels)


def _row(change: ChangeRow, rows: list[JobRow], report: FleetReport) -> ActionRow:
    first = rows[0]
    lost = max(0.0, change.lost_gpu_hours)
    return ActionRow(
        kind="regression",
        who=f"{first.job_name or first.shown_name}{f' of {first.user}' if first.user else ''}",
        gpu_hours=lost,
        cost=price_of(rows, lost),
        why=why(change),
        next=f"Compare what changed that day (code, data, image, nodes): {command(report, first)}.",
        link="docs/changes.md",
        at=anchor_of(report, first),
    )
