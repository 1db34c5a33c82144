"""Lays the parts of a report out as titled tables of text, the same for a terminal, for Markdown and for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ofu_exporter.fleet.answer import AskedTime, MissingRow
from ofu_exporter.fleet.pages.chain_tables import chain_words, progress_section, restart_section
from ofu_exporter.fleet.pages.document import ReportSection
from ofu_exporter.fleet.reports.figures import (
    NONE,
    counted,
    gpu_count,
    gpus,
    hours,
    money,
    period,
    points,
    rounded,
    share,
)
from ofu_exporter.fleet.reports.funnel import lost_hours, step_words
from ofu_exporter.fleet.reports.funnel_rows import FunnelStep, WaterfallStep
from ofu_exporter.fleet.reports.job_rows import is_flagged
from ofu_exporter.fleet.reports.result import (
    Agreement,
    FleetReport,
    GroupRow,
    JobRow,
    SizeRow,
    SumsRow,
    SweepRow,
)
from ofu_exporter.fleet.reports.sweeps import anchor, lines
from ofu_exporter.fleet.reports.words import VERDICTS, verdict_words
from ofu_exporter.support.percent import percent
from ofu_exporter.support.tables import LEFT, RIGHT, Column, table
from ofu_exporter.values.losses import Loss

MOST_ROWS = 20
JOBS = "jobs"
"""The id of the table of jobs."""


def facts(report: FleetReport) -> Iterator[str]:
    if words := chain_words(report.chain):
        yield words
    yield f"{covered(report.time)}."
    first = next((at for at, row in enumerate(report.hours) if row.held_gpus is not None), 0)
    if first:
        yield f"The first data is of the hour that ends at {report.hours[first].end}."
    counts = [row.gpus for row in report.clusters if row.gpus is not None]
    named = [row.cluster for row in report.clusters if row.cluster]
    where = f" in {', '.join(named)}" if named else ""
    installed = gpu_count(sum(counts)) if counts else "an unknown number of GPUs"
    most = max((row.held_gpus or 0.0 for row in report.hours), default=0.0)
    is_whole_hour = (report.time.covered_ratio or 0.0) * report.time.hours >= 2
    on = f" held at most {gpus(most)} of" if most and is_whole_hour else " on"
    yield f"{counted(report.total.jobs, 'job')}{on} {installed}{where}."
    if report.total.observed_gpu_hours:
        reporting = share(report.reporting_ratio)
        yield (
            f"The OFU of jobs was {share(report.total.ofu)}; "
            f"in {reporting} of their measured GPU-hours they reported an MFU."
        )
    if report.no_job and report.no_job.observed_gpu_hours:
        yield f"The OFU of all GPUs, with and without a job, was {share(report.ofu)}."


def covered(time: AskedTime) -> str:
    days = period(time.start, time.end)
    share_covered = percent(time.covered_ratio)
    return f"{days} ({counted(time.hours, 'hour')}), {share_covered} of it covered by data"


def remarks(missing: Sequence[MissingRow], notes: Sequence[str]) -> list[str]:
    return [*(f"Not read: {row.words}" for row in missing), *notes]


def details(report: FleetReport, most_rows: int) -> Iterator[ReportSection]:
    """What is behind it."""
    named: Sequence[JobRow | GroupRow] = report.jobs if report.by == "job" else report.groups
    if report.progress:
        yield ReportSection(*progress_section(report.progress, report.by, report.currency))
    if report.restarts:
        yield restart_section(report.restarts, report.currency)
    if lost_hours(report.total):
        title = f"Where the peak went, by {report.by}"
        rows = [*named[:most_rows], report.total]
        yield ReportSection(title, table(_parts(report), rows), others(named, most_rows))
    if flagged := [row for row in report.jobs if is_flagged(row)]:
        title = f"Jobs that report more than their GPUs did ({len(flagged)})"
        worst = sorted(flagged, key=lambda row: -(row.error or 0.0))
        yield ReportSection(title, table(_FLAGGED, worst[:most_rows]))
    if report.agreement.jobs:
        honest = ("without the flagged", report.agreement_without_flagged)
        both = [("all that report", report.agreement), honest]
        yield ReportSection("Reported MFU against OFU", table(_AGREEMENT, both))
        yield ReportSection("By size of job", table(_SIZES, report.sizes))
    title, every = f"Jobs ({len(report.jobs):,}), by GPU-hours", lines(report)
    jobs = table(_jobs(report.currency), every[:most_rows])
    jobs = jobs._replace(ids=[anchor(report, row) for row in every[:most_rows]])
    yield ReportSection(title, jobs, others(every, most_rows), anchor=JOBS)


def others(rows: Sequence[SumsRow], most_rows: int) -> str:
    """What is left out of a table, so that nobody takes its rows for all."""
    if not (others := rows[most_rows:]):
        return ""
    gpu_hours = hours(sum(row.held_gpu_hours for row in others))
    count = sum(row.jobs if isinstance(row, SweepRow) else 1 for row in others)
    return f"{count:,} more held {gpu_hours} GPU-hours; --format csv or json has all."


def _verdict_and_trace(row: JobRow | SweepRow) -> str:
    """The verdict, and what cost most in the job's traces."""
    if isinstance(row, SweepRow):
        return NONE if row.verdict is None else VERDICTS.get(row.verdict, row.verdict)  # type: ignore[call-overload]
    if row.finding is None:
        return verdict_words(row)
    traced = f"trace: {row.finding} {share(row.finding_ratio)}"
    return traced if row.verdict is None else f"{verdict_words(row)}; {traced}"


def _with_deviation(value: float | None, deviation: float | None) -> str:
    return points(value) if deviation is None else f"{points(value)} ± {points(deviation)}"


def funnel_columns(currency: str) -> list[Column[FunnelStep]]:
    return [
        ("", LEFT, lambda step: step.name),
        ("GPU-hours", RIGHT, lambda step: hours(step.gpu_hours)),
        ("share", RIGHT, lambda step: share(step.share)),
        ("cost", RIGHT, lambda step: money(step.cost, currency)),
        ("", LEFT, lambda step: step.meaning),
    ]


def waterfall_columns(currency: str) -> list[Column[WaterfallStep]]:
    return [
        ("", LEFT, step_words),
        ("GPU-hours", RIGHT, lambda step: hours(step.gpu_hours)),
        ("share", RIGHT, lambda step: share(step.share)),
        ("cost", RIGHT, lambda step: money(step.cost, currency)),
        ("", LEFT, lambda step: step.advice or step.meaning),
    ]


def _parts(report: FleetReport) -> list[Column[JobRow | GroupRow]]:
    """The shares of the measured GPU-hours, with only the parts that somebody has."""
    return [
        (report.by, LEFT, lambda row: row.shown_name),
        ("measured", RIGHT, lambda row: rounded(row.observed_gpu_hours)),
        ("used", RIGHT, lambda row: share(row.ofu)),
        *((loss.words, RIGHT, _share_lost(loss)) for loss in lost_hours(report.total)),
        ("kWh", RIGHT, lambda row: rounded(row.energy_kwh)),
        ("kWh idle", RIGHT, lambda row: rounded(row.idle_energy_kwh)),
    ]


def _share_lost(loss: Loss) -> Callable[[SumsRow], str]:
    """Writes which share of its measured GPU-hours a row lost in a part."""

    def write(row: SumsRow) -> str:
        lost, whole = lost_hours(row).get(loss), row.observed_gpu_hours
        if lost is None or not whole:
            return NONE
        is_gain = round(lost / whole, 3) < 0  # of a clock above the tensor clock
        return f"gained {percent(-lost / whole)}" if is_gain else percent(lost / whole)

    return write


SUMS: Sequence[Column[SumsRow]] = (
    ("GPU-hours", RIGHT, lambda row: hours(row.held_gpu_hours)),
    ("OFU", RIGHT, lambda row: share(row.ofu)),
    ("MFU", RIGHT, lambda row: share(row.mfu)),
    ("idle", RIGHT, lambda row: hours(row.idle_gpu_hours)),
)
_JOB: Sequence[Column[JobRow]] = (
    ("job", LEFT, lambda row: row.shown_name),
    ("name", LEFT, lambda row: row.job_name),
    ("user", LEFT, lambda row: row.user),
    ("GPUs", RIGHT, lambda row: gpus(row.gpus)),
)
_FLAGGED: Sequence[Column[JobRow]] = (
    *_JOB,
    ("MFU", RIGHT, lambda row: share(row.mfu)),
    ("OFU", RIGHT, lambda row: share(row.ofu_compared)),
    ("points", RIGHT, lambda row: points(row.error)),
    ("relative", RIGHT, lambda row: share(row.relative_error)),
    ("likeliest cause", LEFT, lambda row: row.cause or NONE),
)


def _sizes(row: JobRow | SweepRow) -> str:
    if isinstance(row, JobRow):
        return gpus(row.gpus)
    fewest, most = gpus(row.fewest_gpus), gpus(row.most_gpus)
    return most if fewest == most else f"{fewest}-{most}"


def _jobs(currency: str) -> list[Column[JobRow | SweepRow]]:
    return [
        ("job", LEFT, lambda row: row.shown_name),
        ("of this name", RIGHT, lambda row: f"{row.jobs:,}" if isinstance(row, SweepRow) else ""),
        ("name", LEFT, lambda row: row.job_name),
        ("user", LEFT, lambda row: row.user),
        ("GPUs", RIGHT, _sizes),
        *SUMS,
        ("can be had back", RIGHT, lambda row: hours(row.recoverable_gpu_hours)),
        ("cost of that", RIGHT, lambda row: money(row.recoverable_cost, currency)),
        ("MFU - OFU", RIGHT, lambda row: points(row.error)),
        ("verdict and cause", LEFT, _verdict_and_trace),
    ]


_AGREEMENT: Sequence[Column[tuple[str, Agreement]]] = (
    ("jobs", LEFT, lambda row: row[0]),
    ("number", RIGHT, lambda row: str(row[1].jobs)),
    ("MFU", RIGHT, lambda row: share(row[1].mean_mfu)),
    ("OFU", RIGHT, lambda row: share(row[1].mean_ofu)),
    ("correlation", RIGHT, lambda row: rounded(row[1].pearson, 3)),
    ("mean error", RIGHT, lambda row: points(row[1].mean_absolute_error)),
    ("within 2 points", RIGHT, lambda row: share(row[1].within_2_points)),
    ("5", RIGHT, lambda row: share(row[1].within_5_points)),
    ("10", RIGHT, lambda row: share(row[1].within_10_points)),
    ("beyond 20", RIGHT, lambda row: share(row[1].beyond_20_points)),
)
_SIZES: Sequence[Column[SizeRow]] = (
    ("GPUs", RIGHT, lambda row: row.gpus),
    ("jobs", RIGHT, lambda row: str(row.jobs)),
    ("MFU, %", RIGHT, lambda row: _with_deviation(row.mfu, row.mfu_deviation)),
    ("OFU", RIGHT, lambda row: share(row.ofu)),
    (
        "|MFU - OFU|, points",
        RIGHT,
        lambda row: _with_deviation(row.absolute_error, row.absolute_error_deviation),
    ),
)
