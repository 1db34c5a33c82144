"""Lays the parts of a report out as titled tables of text, the same for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ofu_exporter.fleet.reports.agreement import Agreement
from ofu_exporter.fleet.reports.job_rows import is_flagged
from ofu_exporter.fleet.reports.result import FleetReport, GroupRow, JobRow, SumsRow
from ofu_exporter.fleet.reports.waterfall import lost_hours
from ofu_exporter.support.percent import percent
from ofu_exporter.support.tables import LEFT, RIGHT, TextTable
from ofu_exporter.values.losses import Loss
from ofu_exporter.values.reported import Verdict

NONE = "-"
Writer = Callable[[float | None], str]
"""Writes a value for people."""


class ReportSection(NamedTuple):
    """A table, what stands above it, and below it what to know of it."""

    title: str
    table: TextTable
    remark: str = ""


def sections(report: FleetReport, most_rows: int) -> Iterator[ReportSection]:
    """Every part of a report, the most important first."""
    yield ReportSection("Where the GPU-hours went", _funnel(report))
    if lost_hours(report.total):
        yield ReportSection("Where the peak went", _waterfall(report))
        yield ReportSection(f"Where the peak went, by {report.by}", _parts(report, most_rows))
    flagged = [row for row in report.jobs if is_flagged(row)]
    if flagged:
        title = f"Jobs that report more than their GPUs did ({len(flagged)})"
        yield ReportSection(title, _flagged(sorted(flagged, key=_excess)[:most_rows]))
    if report.by != "job":
        yield ReportSection(f"By {report.by}", _groups(report, report.groups[:most_rows]))
    if report.agreement.jobs:
        yield ReportSection("Reported MFU against OFU", _agreement(report))
        yield ReportSection("By size of job", _sizes(report))
    title = f"Jobs ({len(report.jobs)}), by GPU-hours"
    yield ReportSection(title, _jobs(report.jobs[:most_rows]))


def _excess(row: JobRow) -> float:
    return -(row.error or 0.0)


def number(value: float | None, digits: int = 0) -> str:
    """A number without a sign where it is shown as 0."""
    return NONE if value is None else f"{round(value, digits) + 0.0:,.{digits}f}"


def hours(value: float | None) -> str:
    """GPU-hours, with a decimal if they are few."""
    return number(value, 0 if value is None or abs(value) >= 10 else 1)


def gpus(value: float | None) -> str:
    """A number of GPUs; a part of one with two decimals, as of MIG instances."""
    return number(
        value, 0 if value is None or abs(value - round(value)) < 0.005 or value > 10 else 2
    )


def counted(count: int, what: str) -> str:
    """A count with its noun, as in 1 hour and 2 hours."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


_VERDICTS = {
    Verdict.MFU_ABOVE_OFU: "MFU above OFU",
    Verdict.MFU_BELOW_OFU: "MFU below OFU",
    Verdict.AGREE: "agrees",
    Verdict.INSUFFICIENT_DATA: "too little data",
}


def verdict(row: JobRow) -> str:
    """What the agents say of the job's reports, with the likeliest cause."""
    if row.verdict is None:
        return NONE
    words = _VERDICTS.get(row.verdict, row.verdict)  # type: ignore[call-overload]
    return f"{words}: {row.cause}" if row.cause else str(words)


def points(value: float | None) -> str:
    """A difference of ratios in percentage points."""
    return NONE if value is None else f"{100 * value:.1f}"


def share(value: float | None) -> str:
    return percent(value, NONE)


def money(value: float | None, currency: str) -> str:
    return NONE if value is None else f"{value:,.0f} {currency}"


def _funnel(report: FleetReport) -> TextTable:
    rows = [
        (
            step.name,
            hours(step.gpu_hours),
            share(step.share),
            money(step.cost, report.currency),
            step.meaning,
        )
        for step in report.funnel
    ]
    heads = ("", "GPU-hours", "share", "cost", "")
    return TextTable(heads, (LEFT, RIGHT, RIGHT, RIGHT, LEFT), rows)


def _waterfall(report: FleetReport) -> TextTable:
    rows = [
        (
            _words().get(step.name, step.name),
            number(step.gpu_hours),
            share(step.share),
            money(step.cost, report.currency),
            step.advice or step.meaning,
        )
        for step in report.waterfall
        if step.gpu_hours or step.name in ("installed", "delivered")
    ]
    heads = ("", "GPU-hours", "share", "cost", "")
    return TextTable(heads, (LEFT, RIGHT, RIGHT, RIGHT, LEFT), rows)


def _words() -> dict[str, str]:
    return {loss.value: loss.words for loss in Loss}


def _parts(report: FleetReport, most_rows: int) -> TextTable:
    """The shares of the measured GPU-hours of each group or job, with only the parts that somebody has."""
    of_jobs = [(job_name(row), row) for row in report.jobs[:most_rows]]
    of_groups = [(row.shown_name, row) for row in report.groups[:most_rows]]
    named: list[tuple[str, SumsRow]] = [*(of_jobs if report.by == "job" else of_groups)]
    named.append((report.total.shown_name, report.total))
    losses = list(lost_hours(report.total))
    cells = [
        (
            name,
            number(row.observed_gpu_hours),
            share(row.ofu),
            *(_share_of(lost_hours(row).get(loss), row.observed_gpu_hours) for loss in losses),
            number(row.energy_kwh),
        )
        for name, row in named
    ]
    heads = (report.by, "measured", "used", *(loss.words for loss in losses), "kWh")
    return TextTable(heads, (LEFT, *[RIGHT] * (len(heads) - 1)), cells)


def _share_of(hours: float | None, whole: float) -> str:
    return NONE if hours is None or not whole else percent(hours / whole)


def _sums(row: SumsRow) -> tuple[str, ...]:
    return (
        hours(row.held_gpu_hours),
        share(row.ofu),
        share(row.mfu),
        hours(row.idle_gpu_hours),
        hours(row.wasted_gpu_hours),
    )


_SUM_HEADS = ("GPU-hours", "OFU", "MFU", "idle", "wasted")


def _groups(report: FleetReport, rows: Sequence[GroupRow]) -> TextTable:
    cells = [
        (
            row.shown_name,
            str(row.jobs),
            *_sums(row),
            money(row.wasted_cost, report.currency),
            str(row.flagged_jobs or ""),
        )
        for row in (*rows, *([report.no_job] if report.no_job else []), report.total)
    ]
    heads = (report.by, "jobs", *_SUM_HEADS, "wasted cost", "flagged")
    return TextTable(heads, (LEFT, *[RIGHT] * 8), cells)


def job_name(row: JobRow) -> str:
    return f"{row.cluster}/{row.job_id}" if row.cluster else row.job_id


def _flagged(rows: Sequence[JobRow]) -> TextTable:
    cells = [
        (
            job_name(row),
            row.job_name,
            row.user,
            gpus(row.gpus),
            share(row.mfu),
            share(row.ofu_compared),
            points(row.error),
            share(row.relative_error),
            row.cause or NONE,
        )
        for row in rows
    ]
    heads = ("job", "name", "user", "GPUs", "MFU", "OFU", "points", "relative", "likeliest cause")
    return TextTable(heads, (*[LEFT] * 3, *[RIGHT] * 5, LEFT), cells)


def _jobs(rows: Sequence[JobRow]) -> TextTable:
    cells = [
        (job_name(row), row.job_name, row.user, gpus(row.gpus), *_sums(row), verdict(row))
        for row in rows
    ]
    heads = ("job", "name", "user", "GPUs", *_SUM_HEADS, "verdict and cause")
    return TextTable(heads, (*[LEFT] * 3, *[RIGHT] * 6, LEFT), cells)


def _agreement(report: FleetReport) -> TextTable:
    rows = [
        _agreement_row("all that report", report.agreement),
        _agreement_row("without the flagged", report.agreement_without_flagged),
    ]
    heads = ("jobs", "", "MFU", "OFU", "correlation", "mean error", *_LIMITS)
    return TextTable(heads, (LEFT, *[RIGHT] * 9), rows)


_LIMITS = ("within 2 points", "5", "10", "beyond 20")


def _agreement_row(name: str, agreement: Agreement) -> tuple[str, ...]:
    return (
        name,
        str(agreement.jobs),
        share(agreement.mean_mfu),
        share(agreement.mean_ofu),
        number(agreement.pearson, 3),
        points(agreement.mean_absolute_error),
        share(agreement.within_2_points),
        share(agreement.within_5_points),
        share(agreement.within_10_points),
        share(agreement.beyond_20_points),
    )


def _sizes(report: FleetReport) -> TextTable:
    rows = [
        (
            row.gpus,
            str(row.jobs),
            _with_deviation(row.mfu, row.mfu_deviation),
            share(row.ofu),
            _with_deviation(row.absolute_error, row.absolute_error_deviation),
        )
        for row in report.sizes
    ]
    heads = ("GPUs", "jobs", "MFU, %", "OFU", "|MFU - OFU|, points")
    return TextTable(heads, (RIGHT,) * 5, rows)


def _with_deviation(value: float | None, deviation: float | None) -> str:
    return points(value) if deviation is None else f"{points(value)} ± {points(deviation)}"
