"""Writes the story of one job: as text for a terminal, and as one HTML file that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ofu_exporter.fleet.pages import pictures
from ofu_exporter.fleet.pages.document import ReportSection
from ofu_exporter.fleet.pages.pictures import PictureLine, TimeAxis, TimePicture, over_time
from ofu_exporter.fleet.reports.figures import NONE, gpu_count, gpus, rounded, share
from ofu_exporter.fleet.reports.job_result import (
    EarlierRow,
    GpuRow,
    JobResult,
    SlowGpuRow,
    StretchRow,
)
from ofu_exporter.fleet.reports.job_rows import unix
from ofu_exporter.fleet.reports.one_job import PointRow
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.support import tables
from ofu_exporter.support.drawing import Drawing
from ofu_exporter.support.durations import lasting
from ofu_exporter.support.tables import LEFT, RIGHT, Column, TextBlock, TextTable, table
from ofu_exporter.support.templates import render
from ofu_exporter.values.losses import Loss

_LINES = 24
"""Rows of the table over time."""
MOST_GPU_ROWS = 128
"""GPUs in the heat map; of more, the slowest are shown."""


def job_text(result: JobResult) -> str:
    row = result.job
    lines: list[TextBlock] = [
        f"Job {row.shown_name} {row.job_name} of {row.user or NONE} ({row.account or NONE}), "
        f"{gpu_count(row.gpus)} of {row.model or 'an unknown model'}, {result.begin} to {result.end}:",
        result.headline,
    ]
    rows = f"Over time, a row for each {lasting(_size(result.points) * result.step_seconds)}"
    over_time = ReportSection(rows, _over_time(result.points))
    for section in (over_time, *sections(result)):
        lines += ["", f"{section.title}:", "", *([section.table] if section.table else [])]
    lines += [f"Not read: {part.words}" for part in result.missing]
    return tables.text(lines)


def sections(result: JobResult) -> Iterator[ReportSection]:
    """What is to be known beside how it went over time."""
    if result.slow_gpus:
        yield ReportSection("Slow GPUs", table(_SLOW, result.slow_gpus))
    for title, stretches in (
        ("Idle: GPUs held, and nothing computed", result.idle),
        ("Fewer GPUs than before and after: restarts, lost nodes", result.fewer_gpus),
    ):
        if stretches:
            yield ReportSection(title, table(_STRETCH, stretches))
    if result.earlier:
        yield ReportSection("Earlier jobs of this name and user", table(_EARLIER, result.earlier))


_SLOW: Sequence[Column[SlowGpuRow]] = (
    ("node", LEFT, lambda gpu: gpu.node),
    ("GPU", RIGHT, lambda gpu: gpu.gpu),
    ("what", LEFT, lambda gpu: gpu.what),
    ("of the median", RIGHT, lambda gpu: share(gpu.share)),
    ("hours", RIGHT, lambda gpu: str(gpu.hours)),
)
_STRETCH: Sequence[Column[StretchRow]] = (
    ("from", LEFT, lambda stretch: stretch.start),
    ("to", LEFT, lambda stretch: stretch.end),
    ("minutes", RIGHT, lambda stretch: rounded(stretch.minutes)),
)
_EARLIER: Sequence[Column[EarlierRow]] = (
    ("job", LEFT, lambda job: job.job_id),
    ("begin", LEFT, lambda job: job.begin),
    ("GPU-hours", RIGHT, lambda job: rounded(job.gpu_hours)),
    ("OFU", RIGHT, lambda job: share(job.ofu)),
    ("MFU", RIGHT, lambda job: share(job.mfu)),
)


def _size(points: Sequence[PointRow]) -> int:
    """How many points a row of the table is of."""
    return max(1, -(-len(points) // _LINES))


def _over_time(points: Sequence[PointRow]) -> TextTable:
    """Means over equal stretches; what is not known is left out of them."""
    size, rows = _size(points), []
    for begin in range(0, len(points), size):
        part = points[begin : begin + size]
        means = [
            _mean([getattr(point, name) for point in part])
            for name in ("gpus", "ofu", "mfu", "activity", "clock")
        ]
        bar = "" if means[1] is None else "#" * round(40 * min(means[1], 1.0))
        lost = _largest_loss(part)
        rows.append((part[-1].time, gpus(means[0]), *map(share, means[1:]), lost, bar))
    heads = ("until", "GPUs", "OFU", "MFU", "activity", "clock", "largest loss", "OFU, # = 2.5 %")
    return TextTable(heads, (LEFT, *[RIGHT] * 5, LEFT, LEFT), rows)


def _largest_loss(points: Sequence[PointRow]) -> str:
    """The part of the peak in which the most was lost; empty where no part is known."""
    losses = [point.lost for point in points if point.lost]
    sums = {loss: math.fsum(lost.get(loss, 0.0) for lost in losses) for loss in Loss}
    largest = max(sums, key=lambda loss: sums[loss])
    return f"{largest.words} {share(sums[largest] / len(losses))}" if losses else ""


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def job_html(result: JobResult) -> str:
    row, count = result.job, len(result.gpus)
    facts = (
        f"{row.user or NONE} · {row.account or NONE} · {gpu_count(row.gpus)} of "
        f"{row.model or 'an unknown model'} · {result.begin} to {result.end}"
    )
    return render(
        "fleet_job.html",
        title=f"Job {row.shown_name} {row.job_name}",
        facts=facts,
        step=lasting(result.step_seconds),
        result=result,
        points=_points(result) if result.points else None,
        losses=_losses(result) if any(point.lost for point in result.points) else None,
        gpus=_gpus(result.gpus, row) if result.gpus else None,
        of_gpus=f": the {MOST_GPU_ROWS} lowest of {count}" if count > MOST_GPU_ROWS else "",
        sections=[*sections(result)],
        missing=[each.words for each in result.missing],
    )


def _points(result: JobResult) -> TimePicture:
    names = {"activity": "tensor activity", "ofu": "OFU", "mfu": "MFU"}
    lines = [
        PictureLine(kind, name, [getattr(point, kind) for point in result.points])
        for kind, name in names.items()
    ]
    return _drawn(result, lines, "OFU, reported MFU and tensor activity of the job over time")


def _losses(result: JobResult) -> TimePicture:
    """Where the rest of the peak went, a line for each part that was ever known."""
    points = result.points
    lines = [
        PictureLine(loss.value, loss.words, [point.lost.get(loss) for point in points])
        for loss in Loss
        if any(loss in point.lost for point in points)
    ]
    return _drawn(result, lines, "Where the rest of the peak went over time, by part")


def _drawn(result: JobResult, lines: Sequence[PictureLine], label: str) -> TimePicture:
    axis = TimeAxis(unix(result.points[0].time) - result.step_seconds, result.step_seconds)
    return over_time(lines, [point.gpus for point in result.points], axis, label)


def _gpus(gpus: Sequence[GpuRow], job: JobRow) -> Drawing:
    def level(row: tuple[str, Sequence[float | None]]) -> float:
        mean = _mean(row[1])
        return math.inf if mean is None else mean

    shown = [
        (f"{(gpu.node.rpartition(':')[0] or gpu.node)[-14:]} {gpu.gpu}", gpu.ofu) for gpu in gpus
    ]
    if len(gpus) > MOST_GPU_ROWS:
        shown = sorted(shown, key=level)[:MOST_GPU_ROWS]
    times = (job.begin[:16], job.end[:16])
    return pictures.heat_map(shown, times)
