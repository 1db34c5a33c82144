"""Writes a report as one HTML file that needs nothing else: what matters first, then the funnel, then who and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ofu_exporter.fleet.hours import HOUR
from ofu_exporter.fleet.reports import pictures, tables
from ofu_exporter.fleet.reports.html import Markup, document, tag
from ofu_exporter.fleet.reports.job_rows import is_flagged, unix
from ofu_exporter.fleet.reports.look import SCRIPT, STYLE
from ofu_exporter.fleet.reports.result import FleetReport, FunnelStep, GroupRow, JobRow, SumsRow
from ofu_exporter.fleet.reports.text import facts, missing
from ofu_exporter.fleet.reports.time_picture import PictureLine, TimeAxis, over_time
from ofu_exporter.fleet.reports.zoom import SCRIPT as ZOOM

MOST_JOBS = 600
MOST_GROUPS = 100
_WORKS = 0.001
"""A GPU is idle below this OFU."""
_PARTS = ("free", "unclaimed", "unknown", "unmeasured", "idle")


class TableColumn(NamedTuple):
    """A column of a table on a page: its head, and whether it holds numbers."""

    title: str
    is_number: bool = True


def page(report: FleetReport, what_changed: Markup | None = None) -> str:
    """The whole file. `what_changed` stands in it where somebody has looked for that; how to do so, otherwise."""
    time = report.time
    title = f"GPU fleet, {time.start[:10]} to {time.end[:10]}"
    if report.total.ofu is not None:
        title += f": OFU of jobs {report.total.ofu:.1%}"
    elif report.ofu is not None:
        title += f": OFU {report.ofu:.1%}"
    body = [
        tag("h1", "Where the GPU-hours went"),
        tag("p", " ".join(facts(report)), _class="soft"),
        tag("p", report.headline, _class="lead"),
        card("The funnel", *map(_step, [(step, report.currency) for step in report.funnel])),
        tag("div", *_pictures(report), _class="two"),
        what_changed or _how_to_see_changes(report),
        *_tables(report),
        *_remarks(report),
        tag(
            "footer",
            "OFU is weighted by GPU-hours everywhere. What is not known is shown as - and is no 0.",
        ),
    ]
    return document(title, STYLE, SCRIPT + ZOOM, tag("main", *body))


def card(title: str, *inside: object, kind: str = "card") -> Markup:
    return tag("section", tag("h2", title), *inside, _class=kind)


def _step(told: tuple[FunnelStep, str]) -> Markup:
    step, currency = told
    width = 100 * min(1.0, step.share or 0.0)
    bar = Markup(f'<i class="{step.name}" style="width:{width:.2f}%"></i>')
    value = tables.hours(step.gpu_hours) + " GPU-hours"
    if step.cost is not None:
        value += f" · {tables.money(step.cost, currency)}"
    return tag(
        "div",
        tag("div", tag("b", step.name), tag("small", step.meaning), _class="name"),
        tag("div", bar, _class="track"),
        tag("div", tag("b", tables.share(step.share)), tag("small", value), _class="val"),
        _class="step part" if step.name in _PARTS else "step",
    )


def _pictures(report: FleetReport) -> Iterator[Markup]:
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
    if dots:
        yield card("What jobs report, and what the hardware did", pictures.scatter(dots))
    known = [(row.ofu, row.observed_gpu_hours) for row in report.jobs if row.ofu is not None]
    others = [tag("h2", "GPU-hours by OFU of the job"), pictures.distribution(known)]
    if report.hours:
        lines = [
            PictureLine("ofu", "OFU", [row.ofu for row in report.hours]),
            PictureLine("mfu", "MFU", [row.mfu for row in report.hours]),
        ]
        if any((row.no_job_ofu or 0.0) > _WORKS for row in report.hours):
            of_none = [row.no_job_ofu for row in report.hours]
            lines.append(PictureLine("act", "OFU without a job", of_none))
        gpus = [row.held_gpus for row in report.hours]  # an hour that is not covered is a gap
        axis = TimeAxis(unix(report.hours[0].end) - HOUR, HOUR)
        others += [
            tag("h2", "OFU and reported MFU, hour by hour"),
            over_time(lines, gpus, axis, "OFU and reported MFU of all jobs over time"),
        ]
    yield tag("section", *others, _class="card")


def table(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], name: str) -> Markup:
    """A table whose heads sort it."""
    heads = [
        tag("th", tag("button", each.title, type="button"), scope="col", _class=_kind(each))
        for each in columns
    ]
    body = [
        tag("tr", *(_cell(place, columns[place], cell) for place, cell in enumerate(row)))
        for row in rows
    ]
    return tag(
        "table",
        tag("thead", tag("tr", *heads)),
        tag("tbody", *body),
        aria_label=name,
    )


def _kind(column: TableColumn) -> str | None:
    return "num" if column.is_number else None


def _cell(place: int, column: TableColumn, shown: str) -> Markup:
    scope = None if place else "row"
    return tag("td" if place else "th", shown, scope=scope, _class=_kind(column))


def _numbers(row: SumsRow, currency: str) -> list[str]:
    return [
        tables.hours(row.held_gpu_hours),
        tables.share(row.ofu),
        tables.share(row.mfu),
        tables.hours(row.idle_gpu_hours),
        tables.hours(row.wasted_gpu_hours),
        tables.money(row.wasted_cost, currency),
    ]


_NUMBERS = [
    TableColumn(name) for name in ("GPU-hours", "OFU", "MFU", "idle", "wasted", "wasted cost")
]


def _tables(report: FleetReport) -> Iterator[Markup]:
    if report.by != "job":
        heads = [
            TableColumn(report.by, False),
            TableColumn("jobs"),
            *_NUMBERS,
            TableColumn("flagged jobs"),
        ]
        rows = [_group(row, report.currency) for row in report.groups[:MOST_GROUPS]]
        rows += [_group(row, report.currency) for row in [report.no_job] if row]
        yield card(
            f"By {report.by}", table(heads, rows, f"By {report.by}"), *_more(report.groups, rows)
        )
    if report.agreement.jobs:
        yield tag("div", _agreement(report), _sizes(report), _class="two")
    heads = [
        *(TableColumn(name, False) for name in ("job", "name", "user")),
        TableColumn("GPUs"),
        *_NUMBERS,
        TableColumn("MFU - OFU, points"),
        TableColumn("verdict and cause", False),
    ]
    rows = [_job(row, report.currency) for row in report.jobs[:MOST_JOBS]]
    yield card("Jobs", table(heads, rows, "Jobs"), *_more(report.jobs, rows), kind="card long")


def _more(all_rows: Sequence[object], shown: Sequence[object]) -> Iterator[Markup]:
    if len(all_rows) > len(shown):
        said = f"The {len(shown)} with most GPU-hours of {len(all_rows)}; --format json or csv has all."
        yield tag("p", said, _class="soft")


def _group(row: GroupRow, currency: str) -> list[str]:
    flagged = str(row.flagged_jobs) if row.flagged_jobs else ""
    return [row.shown_name, str(row.jobs), *_numbers(row, currency), flagged]


def _job(row: JobRow, currency: str) -> list[str]:
    names = [tables.job_name(row), row.job_name, row.user, tables.gpus(row.gpus)]
    return [*names, *_numbers(row, currency), tables.points(row.error), tables.verdict(row)]


def _agreement(report: FleetReport) -> Markup:
    heads = [
        TableColumn("jobs", False),
        TableColumn("all that report"),
        TableColumn("without the flagged"),
    ]
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
    return card("How MFU and OFU agree", table(heads, rows, "How MFU and OFU agree"))


def _sizes(report: FleetReport) -> Markup:
    heads = [TableColumn(name) for name in ("GPUs", "jobs", "MFU", "OFU", "|MFU - OFU|, points")]
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
    return card("By size of job", table(heads, rows, "By size of job"))


def _how_to_see_changes(report: FleetReport) -> Markup:
    command = (
        f"ofu-exporter fleet changes --prometheus {report.server} --since {report.time.hours}h "
        f"--until {report.time.end} --format json --output changes.json"
    )
    said = [
        "This page was made without it. To have it here, run ",
        tag("code", command),
        " and make this page with ",
        tag("code", "--changes changes.json"),
        ".",
    ]
    return card("What changed", tag("p", *said, _class="soft"))


def _remarks(report: FleetReport) -> Iterator[Markup]:
    remarks = [*missing(report), *report.notes]
    if remarks:
        yield card("To know", tag("ul", *(tag("li", each) for each in remarks)))
