"""Writes a report as one HTML file that needs nothing else: what matters first, then where it went, then who."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ofu_exporter.fleet.hours import HOUR
from ofu_exporter.fleet.pages import pictures, report_text, served_tables, tables
from ofu_exporter.fleet.pages.chain_tables import WORDS, beside, chain_words
from ofu_exporter.fleet.pages.document import Document
from ofu_exporter.fleet.pages.group_table import of_groups, signed_points
from ofu_exporter.fleet.pages.pictures import PictureLine, TimeAxis, TimePicture, over_time
from ofu_exporter.fleet.pages.tables import facts
from ofu_exporter.fleet.reports import figures
from ofu_exporter.fleet.reports.chain_rows import ChainStep, Factor
from ofu_exporter.fleet.reports.figures import counted
from ofu_exporter.fleet.reports.funnel import PAGE, is_shown, lost_hours, step_words
from ofu_exporter.fleet.reports.funnel_rows import FunnelStep, StepName, WaterfallStep
from ofu_exporter.fleet.reports.job_rows import unix
from ofu_exporter.fleet.reports.notes import NOBODY, largest_losses
from ofu_exporter.fleet.reports.reachable import DEFINITION
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.support.documentation import address
from ofu_exporter.support.drawing import Drawing
from ofu_exporter.support.percent import percent
from ofu_exporter.support.templates import render
from ofu_exporter.values.text import first_names

MOST_PAGE_ROWS = 600
MOST_CLUSTERS = 5
"""Whose names stand in the title."""
_WORKS = 0.001
"""A GPU is idle below this OFU."""
_PARTS = ("free", "unclaimed", "unknown", "unmeasured", "idle")


StepBar = Mapping[str, object]
"""A step as parts.html draws it: a bar, whose place and width are in percent, and words."""


def page(report: FleetReport, changes: Document | None = None) -> str:
    """The whole file. `changes` stands in it where somebody has looked for them."""
    steps, factors = {step.name: step for step in report.funnel}, [*_chain(report)]
    pictured = {f"{tables.covered(report.time)}.", chain_words(report.chain) if factors else ""}
    sections = [
        *tables.details(report, MOST_PAGE_ROWS),
        *served_tables.sections(report, MOST_PAGE_ROWS),
    ]
    return render(
        "fleet_report.html",
        title=_title(report),
        report=report,
        period=tables.covered(report.time),
        clusters=first_names(
            [row.cluster for row in report.clusters if row.cluster], MOST_CLUSTERS
        ),
        parts_page=PAGE,
        losses=largest_losses(report.funnel, report.total),
        nobody=NOBODY if steps["effective"].share is None else "",
        facts=" ".join(each for each in facts(report) if each not in pictured),
        first=[(row, report_text.gains(row, report.currency)) for row in report.actions],
        address=address,
        nothing_to_do=report_text.NOTHING_TO_DO,
        definition=DEFINITION,
        tiles=[*_tiles(report, steps)],
        chain=factors,
        funnel=[
            _bar(report, step, step.name, step.meaning, is_part=step.name in _PARTS)
            for step in report.funnel
        ],
        waterfall=[*_waterfall(report)] if lost_hours(report.total) else [],
        teams=of_groups(report, MOST_PAGE_ROWS),
        scatter=pictures.scatter(report.jobs),
        distribution=pictures.distribution(
            [(row.ofu, row.observed_gpu_hours) for row in report.jobs if row.ofu is not None]
        ),
        hours=_hours(report),
        changes=changes,
        sections=sections,
        ids={"changes", *(each for part in sections if part.table for each in part.table.ids)},
        remarks=tables.remarks(report.missing, report.notes),
    )


class _Tile(NamedTuple):
    """A number that matters, what it is, and what else to know of it."""

    number: str
    meaning: str
    note: str = ""
    trend: Drawing | None = None


def _tiles(report: FleetReport, steps: Mapping[StepName, FunnelStep]) -> Iterator[_Tile]:
    change = report.delivered_change
    note = "" if change is None else f"{signed_points(change)} points on the period before"
    trend = pictures.sparkline([each.delivered_ratio for each in report.periods])
    whose = "the peak" if steps["installed"].gpu_hours else "the peak of the known GPUs"
    yield _Tile(figures.share(steps["effective"].share), f"of {whose} became work", note, trend)
    whole, gpus = steps["installed"], sum(row.gpus or 0.0 for row in report.clusters)
    hours = f"{figures.hours(whole.gpu_hours)} GPU-hours"
    if whole.cost is not None:
        money = figures.money(whole.cost, report.currency)
        yield _Tile(money, f"for {hours} of {figures.gpu_count(gpus)}")
    elif whole.gpu_hours:
        yield _Tile(figures.hours(whole.gpu_hours), f"GPU-hours of {figures.gpu_count(gpus)}")
    back, cost = report.total.recoverable_gpu_hours, report.total.recoverable_cost
    if back is not None:
        hours = f"{figures.hours(back)} GPU-hours"
        if cost is None:
            yield _Tile(hours, "can be had back")
        else:
            yield _Tile(figures.money(cost, report.currency), "can be had back", hours)
    if report.reporting_ratio is not None:
        flagged = report.total.flagged_jobs
        jobs = f"of {counted(report.total.jobs, 'job')}, {flagged} {'say' if flagged != 1 else 'says'} too much"
        yield _Tile(
            figures.share(report.reporting_ratio), "of measured GPU-hours report an MFU", jobs
        )


def _title(report: FleetReport) -> str:
    title = f"GPU fleet, {report.time.start[:10]} to {report.time.end[:10]}"
    if report.total.ofu is not None:
        return f"{title}: OFU of jobs {report.total.ofu:.1%}"
    return title if report.ofu is None else f"{title}: OFU {report.ofu:.1%}"


_CHAIN: Mapping[Factor, tuple[str, str]] = {
    "capacity": ("installed", "capacity"),
    "allocated": ("held", "held by jobs"),
    "together": ("active", "all GPUs of a job at once"),
    "progress": ("active", "made progress"),
    "ofu": ("effective", "of the peak, at an OFU of"),
}
"""The step of the funnel whose colour a factor of the chain has, and its name on the page."""


def _chain(report: FleetReport) -> Iterator[StepBar]:
    """The factors, where more is known than the funnel tells."""
    for step in report.chain if len(report.chain) > 3 else ():
        kind, name = _CHAIN[step.factor]
        if step.factor == "ofu":
            name = f"{name} {percent(step.ratio, figures.NONE)}"
        meaning = "" if step.factor == "allocated" else WORDS[step.factor]
        bar = _bar(report, step, name, meaning)
        yield {
            **bar,
            "kind": kind,
            "beside": beside(step),
            "top": f"{100 * (1 - min(1.0, step.share or 0.0)):.2f}",
        }


def _waterfall(report: FleetReport) -> Iterator[StepBar]:
    """Each loss from where the one before it ends; where clocks gained, the bar leads back to the right."""
    level = 1.0
    for step in filter(is_shown, report.waterfall):
        is_end, share = step.name in ("installed", "delivered"), step.share or 0.0
        before, level = level, level if is_end else level - share
        left = 0.0 if is_end else min(before, level)
        meaning = step.advice or step.meaning
        bar = _bar(report, step, step_words(step), meaning, left, is_part=not is_end)
        is_signed = not is_end and abs(share) >= 0.0005  # a step of 0.0% has no sign
        signed = {"share": f"{-share:+.1%}"} if is_signed else {}
        yield {**bar, "kind": step.name, **signed}


def _bar(
    report: FleetReport,
    step: FunnelStep | WaterfallStep | ChainStep,
    name: str,
    meaning: str,
    left: float = 0.0,
    *,
    is_part: bool = False,
) -> StepBar:
    amount = figures.hours(step.gpu_hours) + " GPU-hours"
    if step.cost is not None:
        amount += f" · {figures.money(step.cost, report.currency)}"
    return {
        "kind": name,
        "name": name,
        "meaning": meaning,
        "is_part": is_part,
        "left": f"{100 * max(0.0, left):.2f}",
        "width": f"{100 * min(1.0, abs(step.share or 0.0)):.2f}",
        "share": figures.share(step.share),
        "amount": amount,
    }


def _hours(report: FleetReport) -> TimePicture | None:
    if not report.hours:
        return None
    lines = [PictureLine("ofu", "OFU", [row.ofu for row in report.hours])]
    if any(row.mfu is not None for row in report.hours):
        lines.append(PictureLine("mfu", "MFU", [row.mfu for row in report.hours]))
    if any((row.no_job_ofu or 0.0) > _WORKS for row in report.hours):
        of_none = [row.no_job_ofu for row in report.hours]
        lines.append(PictureLine("activity", "OFU without a job", of_none))
    gpus = [row.held_gpus for row in report.hours]  # an hour that is not covered is a gap
    axis = TimeAxis(unix(report.hours[0].end) - HOUR, HOUR)
    return over_time(lines, gpus, axis, "OFU and reported MFU of all jobs over time")
