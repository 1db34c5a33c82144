"""Writes a report as one HTML file that needs nothing else: what matters first, then the funnel, then who and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ofu_exporter.fleet.hours import HOUR
from ofu_exporter.fleet.reports import pictures, tables
from ofu_exporter.fleet.reports.job_rows import is_flagged, unix
from ofu_exporter.fleet.reports.result import FleetReport, FunnelStep, GroupRow, JobRow, SumsRow
from ofu_exporter.fleet.reports.tables import ReportSection
from ofu_exporter.fleet.reports.text import facts, missing
from ofu_exporter.fleet.reports.time_picture import PictureLine, TimeAxis, TimePicture, over_time
from ofu_exporter.support.drawing import Drawing
from ofu_exporter.support.tables import LEFT, RIGHT, TextTable
from ofu_exporter.support.templates import render

MOST_JOBS = 600
MOST_GROUPS = 100
_WORKS = 0.001
"""A GPU is idle below this OFU."""
_PARTS = ("free", "unclaimed", "unknown", "unmeasured", "idle")


class ChangesSection(NamedTuple):
    """What changed: what matters first, what was looked at, the tables, and what to know of them."""

    headline: str
    facts: str
    sections: Sequence[ReportSection]
    remarks: Sequence[str]


class StepBar(NamedTuple):
    """A step of the funnel as a bar, whose width is in percent."""

    name: str
    meaning: str
    is_part: bool
    width: str
    share: str
    amount: str


def page(report: FleetReport, changes: ChangesSection | None = None) -> str:
    """The whole file. `changes` stands in it where somebody has looked for them; how to do so, otherwise."""
    return render(
        "fleet_report.html",
        title=_title(report),
        report=report,
        facts=" ".join(facts(report)),
        funnel=[_step(step, report.currency) for step in report.funnel],
        scatter=_scatter(report),
        distribution=pictures.distribution(
            [(row.ofu, row.observed_gpu_hours) for row in report.jobs if row.ofu is not None]
        ),
        hours=_hours(report),
        changes=changes,
        groups=_groups(report),
        agreement=_agreement(report) if report.agreement.jobs else None,
        sizes=_sizes(report),
        jobs=_jobs(report),
        remarks=[*missing(report), *report.notes],
    )


def _title(report: FleetReport) -> str:
    title = f"GPU fleet, {report.time.start[:10]} to {report.time.end[:10]}"
    if report.total.ofu is not None:
        return f"{title}: OFU of jobs {report.total.ofu:.1%}"
    return title if report.ofu is None else f"{title}: OFU {report.ofu:.1%}"


def _step(step: FunnelStep, currency: str) -> StepBar:
    amount = tables.number(step.gpu_hours) + " GPU-hours"
    if step.cost is not None:
        amount += f" · {tables.money(step.cost, currency)}"
    return StepBar(
        name=step.name,
        meaning=step.meaning,
        is_part=step.name in _PARTS,
        width=f"{100 * min(1.0, step.share or 0.0):.2f}",
        share=tables.share(step.share),
        amount=amount,
    )


def _scatter(report: FleetReport) -> Drawing | None:
    dots = [
        pictures.Dot(
            f"{row.job_name} {tables.job_name(row)}",
            row.job_name or row.job_id,
            row.ofu_compared,
            row.mfu,
            row.held_gpu_hours,
            is_flagged(row),
        )
        for row in report.jobs
        if row.mfu is not None and row.ofu_compared is not None
    ]
    return pictures.scatter(dots) if dots else None


def _hours(report: FleetReport) -> TimePicture | None:
    if not report.hours:
        return None
    lines = [
        PictureLine("ofu", "OFU", [row.ofu for row in report.hours]),
        PictureLine("mfu", "MFU", [row.mfu for row in report.hours]),
    ]
    if any((row.no_job_ofu or 0.0) > _WORKS for row in report.hours):
        of_none = [row.no_job_ofu for row in report.hours]
        lines.append(PictureLine("activity", "OFU without a job", of_none))
    gpus = [row.held_gpus for row in report.hours]  # an hour that is not covered is a gap
    axis = TimeAxis(unix(report.hours[0].end) - HOUR, HOUR)
    return over_time(lines, gpus, axis, "OFU and reported MFU of all jobs over time")


def _numbers(row: SumsRow, currency: str) -> list[str]:
    return [
        tables.number(row.held_gpu_hours),
        tables.share(row.ofu),
        tables.share(row.mfu),
        tables.number(row.idle_gpu_hours),
        tables.number(row.wasted_gpu_hours),
        tables.money(row.wasted_cost, currency),
    ]


_NUMBERS = ("GPU-hours", "OFU", "MFU", "idle", "wasted", "wasted cost")


def _groups(report: FleetReport) -> ReportSection | None:
    if report.by == "job":
        return None
    rows = [_group(row, report.currency) for row in report.groups[:MOST_GROUPS]]
    rows += [_group(row, report.currency) for row in [report.no_job] if row]
    heads = (report.by, "jobs", *_NUMBERS, "flagged jobs")
    table = TextTable(heads, (LEFT, *[RIGHT] * 8), rows)
    return ReportSection(f"By {report.by}", table, _more(report.groups, rows))


def _jobs(report: FleetReport) -> ReportSection:
    rows = [_job(row, report.currency) for row in report.jobs[:MOST_JOBS]]
    heads = ("job", "name", "user", "GPUs", *_NUMBERS, "MFU - OFU, points", "verdict and cause")
    table = TextTable(heads, (*[LEFT] * 3, *[RIGHT] * 8, LEFT), rows)
    return ReportSection("Jobs", table, _more(report.jobs, rows))


def _more(all_rows: Sequence[object], shown: Sequence[object]) -> str:
    if len(all_rows) <= len(shown):
        return ""
    return f"The {len(shown)} with most GPU-hours of {len(all_rows)}; --format json or csv has all."


def _group(row: GroupRow, currency: str) -> list[str]:
    flagged = str(row.flagged_jobs) if row.flagged_jobs else ""
    return [row.shown_name, str(row.jobs), *_numbers(row, currency), flagged]


def _job(row: JobRow, currency: str) -> list[str]:
    said = " ".join(filter(None, [row.verdict, row.cause and f"({row.cause})"]))
    names = [tables.job_name(row), row.job_name, row.user, tables.number(row.gpus)]
    return [*names, *_numbers(row, currency), tables.points(row.error), said]


def _agreement(report: FleetReport) -> ReportSection:
    both = (report.agreement, report.agreement_without_flagged)

    def each(name: str, write: tables.Writer) -> list[str]:
        return [write(getattr(one, name)) for one in both]

    titles: list[tuple[str, str, tables.Writer]] = [
        ("mean MFU", "mean_mfu", tables.share),
        ("mean OFU", "mean_ofu", tables.share),
        ("correlation", "pearson", lambda value: tables.number(value, 3)),
        ("mean error, points", "mean_absolute_error", tables.points),
        *((f"within {n} points", f"within_{n}_points", tables.share) for n in (2, 5, 10)),
        ("beyond 20 points", "beyond_20_points", tables.share),
    ]
    rows = [["number", *(str(one.jobs) for one in both)]]
    rows += [[title, *each(name, write)] for title, name, write in titles]
    heads = ("jobs", "all that report", "without the flagged")
    return ReportSection("How MFU and OFU agree", TextTable(heads, (LEFT, RIGHT, RIGHT), rows))


def _sizes(report: FleetReport) -> ReportSection:
    rows = [
        [
            row.gpus,
            str(row.jobs),
            tables.share(row.mfu),
            tables.share(row.ofu),
            tables.points(row.absolute_error),
        ]
        for row in report.sizes
    ]
    heads = ("GPUs", "jobs", "MFU", "OFU", "|MFU - OFU|, points")
    return ReportSection("By size of job", TextTable(heads, [RIGHT] * 5, rows))
