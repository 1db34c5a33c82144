"""Writes what each user, account and so on had: sums, how OFU went over the periods, and what can be had back."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.fleet.pages.document import ReportSection
from ofu_exporter.fleet.pages.tables import SUMS, others
from ofu_exporter.fleet.reports.figures import NONE, hours, money, share
from ofu_exporter.fleet.reports.result import ALL_JOBS, FleetReport, GroupRow
from ofu_exporter.support.tables import LEFT, RIGHT, Column, table


def of_groups(report: FleetReport, most_rows: int) -> ReportSection | None:
    """What each user, account and so on had; None where rows are jobs."""
    if report.by == "job":
        return None
    no_job = [report.no_job] if report.no_job else []
    groups = table(_groups(report), [*report.groups[:most_rows], *no_job, report.total])
    return ReportSection(f"By {report.by}", groups, others(report.groups, most_rows))


def _groups(report: FleetReport) -> list[Column[GroupRow]]:
    currency = report.currency
    named: Column[GroupRow] = (report.by, LEFT, lambda row: row.shown_name)
    since: list[Column[GroupRow]] = [
        ("OFU, points more", RIGHT, lambda row: signed_points(row.ofu_change)),
        ("trend", LEFT, lambda row: spark(trend_of(report, row))),
    ][: max(0, len(report.periods) - 1)]  # of two periods the points say all
    return [
        named,
        ("jobs", RIGHT, lambda row: str(row.jobs)),
        *SUMS,
        *since,
        ("can be had back", RIGHT, lambda row: hours(row.recoverable_gpu_hours)),
        ("of all", RIGHT, lambda row: share(row.recoverable_share)),
        ("cost of that", RIGHT, lambda row: money(row.recoverable_cost, currency)),
        ("idle cost", RIGHT, lambda row: money(row.idle_cost, currency)),
        ("flagged", RIGHT, lambda row: str(row.flagged_jobs or "")),
    ]


def trend_of(report: FleetReport, row: GroupRow) -> list[float | None]:
    """The OFU of a group, or of all jobs, in each period."""
    if row.name == ALL_JOBS and not row.is_named:
        return [each.ofu for each in report.periods]
    return [each.groups.get(row.name) if row.is_named else None for each in report.periods]


_BARS = "▁▂▃▄▅▆▇█"


def spark(values: Sequence[float | None]) -> str:
    """A bar for each value, from 0 to the largest; a gap for what is not known."""
    most = max((value for value in values if value is not None), default=0.0) or 1.0
    return "".join(
        " " if value is None else _BARS[round((len(_BARS) - 1) * max(0.0, value) / most)]
        for value in values
    ).strip()


def signed_points(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:+.1f}".replace("-0.0", "+0.0")
