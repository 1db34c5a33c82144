"""Lays a report out for a terminal and for Markdown, in the order in which people decide."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.fleet.pages import served_tables
from ofu_exporter.fleet.pages.chain_tables import chain_table
from ofu_exporter.fleet.pages.document import Document, ReportSection
from ofu_exporter.fleet.pages.group_table import of_groups
from ofu_exporter.fleet.pages.tables import (
    MOST_ROWS,
    details,
    facts,
    funnel_columns,
    remarks,
    waterfall_columns,
)
from ofu_exporter.fleet.reports.figures import hours, money
from ofu_exporter.fleet.reports.funnel import PAGE, is_shown, lost_hours
from ofu_exporter.fleet.reports.reachable import DEFINITION
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport
from ofu_exporter.support.tables import table


def document(
    report: FleetReport, changes: Document | None = None, most_rows: int = MOST_ROWS
) -> Document:
    """`changes` stand in it where somebody has looked for them."""
    notes_on_changes = [*changes.remarks] if changes else []
    return Document(
        "Where the GPU-hours went",
        report.headline,
        [*facts(report)],
        [*sections(report, changes, most_rows)],
        [*remarks(report.missing, report.notes), *notes_on_changes],
    )


def sections(
    report: FleetReport, changes: Document | None, most_rows: int
) -> Iterator[ReportSection]:
    """All parts, in the order in which people decide."""
    currency = report.currency
    yield do_first(report)
    if len(report.chain) > 3:
        yield ReportSection("What became progress", chain_table(report.chain, currency))
    if lost_hours(report.total):
        steps = table(waterfall_columns(currency), filter(is_shown, report.waterfall))
        yield ReportSection("Where the peak went", steps, f"More of each part: {PAGE}.")
    else:
        yield ReportSection(
            "Where the GPU-hours went", table(funnel_columns(currency), report.funnel)
        )
    if teams := of_groups(report, most_rows):
        yield teams
    if changes:
        words = " ".join([changes.headline, *changes.facts])
        yield ReportSection(changes.title, None, words)
        yield from changes.sections
    yield from details(report, most_rows)
    yield from served_tables.sections(report, most_rows)


NOTHING_TO_DO = "Nothing stands out: no job is mostly idle, far below others, or reports too much."


def do_first(report: FleetReport) -> ReportSection:
    """At most five things to do, and what can be had back means."""
    steps = [
        f"{row.who} {row.what}: {gain(row, report.currency)}. {row.why} {row.next} (More: {row.link})"
        for row in report.actions
    ]
    nothing = "" if report.actions else f"{NOTHING_TO_DO} "
    return ReportSection("Do first", None, nothing + DEFINITION, steps)


def gain(row: ActionRow, currency: str) -> str:
    """What an action gives back, in words."""
    return ", ".join(gains(row, currency))


def gains(row: ActionRow, currency: str) -> list[str]:
    """The same as one or two parts, the money first."""
    if row.kind == "wrong_number":
        return ["wrong number"]
    paid = [] if row.cost is None else [money(row.cost, currency)]
    gained = [] if row.gpu_hours is None else [f"{hours(row.gpu_hours)} GPU-hours"]
    return [*paid, *gained] or ["not counted"]
