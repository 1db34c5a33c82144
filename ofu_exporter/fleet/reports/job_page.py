"""Writes the story of one job as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ofu_exporter.fleet.reports import pictures, tables
from ofu_exporter.fleet.reports.html import Markup, document, tag
from ofu_exporter.fleet.reports.job_result import GpuRow, JobResult, StretchRow
from ofu_exporter.fleet.reports.job_rows import unix
from ofu_exporter.fleet.reports.look import SCRIPT, STYLE
from ofu_exporter.fleet.reports.report_page import TableColumn, card, table
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.fleet.reports.time_picture import PictureLine, TimeAxis, over_time
from ofu_exporter.fleet.reports.zoom import SCRIPT as ZOOM

MOST_ROWS = 128
"""GPUs in the heat map; of more, the slowest are shown."""


def page(result: JobResult) -> str:
    """The whole file."""
    row = result.job
    title = f"Job {tables.job_name(row)} {row.job_name}"
    facts = (
        f"{row.user or tables.NONE} · {row.account or tables.NONE} · {tables.gpus(row.gpus)} GPUs of "
        f"{row.model or 'an unknown model'} · {result.begin} to {result.end}"
    )
    body = [
        tag("h1", title),
        tag("p", facts, _class="soft"),
        tag("p", result.headline, _class="lead"),
        *_lines(result),
        *_slow(result),
        *_gpus(result.gpus, row),
        tag("div", *_stretches(result), _class="two"),
        *_earlier(result),
        *_missing(result),
    ]
    return document(title, STYLE, SCRIPT + ZOOM, tag("main", *body))


def _lines(result: JobResult) -> Iterator[Markup]:
    if result.points:
        lines = [
            PictureLine("act", "tensor activity", [point.activity for point in result.points]),
            PictureLine("ofu", "OFU", [point.ofu for point in result.points]),
            PictureLine("mfu", "MFU", [point.mfu for point in result.points]),
        ]
        gpus = [point.gpus for point in result.points]
        step = result.step_seconds
        axis = TimeAxis(unix(result.points[0].time) - step, step)
        label = "OFU, reported MFU and tensor activity of the job over time"
        yield card("Over time", over_time(lines, gpus, axis, label))


def _slow(result: JobResult) -> Iterator[Markup]:
    if result.slow_gpus:
        heads = [TableColumn("node", False), TableColumn("GPU"), TableColumn("what", False)]
        heads += [TableColumn("of the median"), TableColumn("hours")]
        rows = [
            [each.node, each.gpu, each.what, tables.share(each.share), str(each.hours)]
            for each in result.slow_gpus
        ]
        yield card("Slow GPUs", table(heads, rows, "Slow GPUs"))


def _gpus(gpus: Sequence[GpuRow], job: JobRow) -> Iterator[Markup]:
    if not gpus:
        return
    shown = [(f"{gpu.node.partition(':')[0][-14:]} {gpu.gpu}", gpu.ofu) for gpu in gpus]
    if len(gpus) > MOST_ROWS:
        means = {name: _mean(values) for name, values in shown}
        shown = sorted(shown, key=lambda row: means[row[0]])[:MOST_ROWS]
    times = (job.begin[:16], job.end[:16])
    drawn = pictures.heat_map(shown, times, "OFU of the job's GPUs, a row each, hour by hour")
    title = "OFU by GPU and hour"
    if len(gpus) > MOST_ROWS:
        title += f": the {MOST_ROWS} lowest of {len(gpus)}"
    yield card(title, drawn)


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else float("inf")


def _stretches(result: JobResult) -> Iterator[Markup]:
    heads = [TableColumn("from", False), TableColumn("to", False), TableColumn("minutes")]
    both: tuple[tuple[str, Sequence[StretchRow]], ...] = (
        ("Idle: GPUs held, and nothing computed", result.idle),
        ("Fewer GPUs than before and after", result.fewer_gpus),
    )
    for title, stretches in both:
        if stretches:
            rows = [[each.start, each.end, tables.number(each.minutes)] for each in stretches]
            yield card(title, table(heads, rows, title))


def _earlier(result: JobResult) -> Iterator[Markup]:
    if result.earlier:
        heads = [TableColumn("job", False), TableColumn("begin", False), TableColumn("GPU-hours")]
        heads += [TableColumn("OFU"), TableColumn("MFU")]
        rows = [
            [
                each.job_id,
                each.begin,
                tables.number(each.gpu_hours),
                tables.share(each.ofu),
                tables.share(each.mfu),
            ]
            for each in result.earlier
        ]
        yield card("Earlier jobs of this name and user", table(heads, rows, "Earlier jobs"))


def _missing(result: JobResult) -> Iterator[Markup]:
    if result.missing:
        lines = (f"{each.what}, {each.start} to {each.end}: {each.why}" for each in result.missing)
        yield card("Not read", tag("ul", *(tag("li", line) for line in lines)))
