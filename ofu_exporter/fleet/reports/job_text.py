"""Writes what is told of one job as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ofu_exporter.fleet.reports.job_events import SlowGpuRow, StretchRow
from ofu_exporter.fleet.reports.job_result import EarlierRow, JobResult, PointRow
from ofu_exporter.fleet.reports.tables import NONE, ReportSection, gpus, number, share
from ofu_exporter.support.tables import LEFT, RIGHT, Column, TextTable, table
from ofu_exporter.values.losses import Loss
from ofu_exporter.values.text import shown

_LINES = 24
"""Rows of the table over time."""


def text(result: JobResult) -> str:
    """The job's story."""
    row = result.job
    lines = [
        f"Job {row.shown_name} {row.job_name} of {row.user or NONE} ({row.account or NONE}), "
        f"{gpus(row.gpus)} GPUs of {row.model or 'an unknown model'}, {result.begin} to {result.end}:",
        result.headline,
    ]
    over_time = ReportSection("Over time", _over_time(result.points))
    for section in (over_time, *sections(result)):
        lines += ["", f"{section.title}:", "", section.table.plain()]
    lines += [f"Not read: {part.words}" for part in result.missing]
    return "\n".join(shown(line) if "\n" not in line else line for line in lines)


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
    ("minutes", RIGHT, lambda stretch: number(stretch.minutes)),
)
_EARLIER: Sequence[Column[EarlierRow]] = (
    ("job", LEFT, lambda job: job.job_id),
    ("begin", LEFT, lambda job: job.begin),
    ("GPU-hours", RIGHT, lambda job: number(job.gpu_hours)),
    ("OFU", RIGHT, lambda job: share(job.ofu)),
    ("MFU", RIGHT, lambda job: share(job.mfu)),
)


def _over_time(points: Sequence[PointRow]) -> TextTable:
    """Means over equal stretches; what is not known is left out of them."""
    size = max(1, -(-len(points) // _LINES))
    rows = []
    for begin in range(0, len(points), size):
        part = points[begin : begin + size]
        means = [
            _mean([getattr(point, name) for point in part])
            for name in ("gpus", "ofu", "mfu", "activity", "clock")
        ]
        bar = "" if means[1] is None else "#" * round(40 * means[1])
        lost = _largest_loss(part)
        rows.append((part[-1].time, number(means[0]), *map(share, means[1:]), lost, bar))
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
