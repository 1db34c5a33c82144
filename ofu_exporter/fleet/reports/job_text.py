"""Writes what is told of one job as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ofu_exporter.fleet.reports.job_result import JobResult, PointRow
from ofu_exporter.fleet.reports.tables import NONE, gpus, job_name, number, share
from ofu_exporter.support.tables import LEFT, RIGHT, TextTable
from ofu_exporter.values.losses import Loss
from ofu_exporter.values.text import shown

_LINES = 24
"""Rows of the table over time."""


def text(result: JobResult) -> str:
    """The job's story."""
    row = result.job
    lines = [
        f"Job {job_name(row)} {row.job_name} of {row.user or NONE} ({row.account or NONE}), "
        f"{gpus(row.gpus)} GPUs of {row.model or 'an unknown model'}, {result.begin} to {result.end}:",
        result.headline,
    ]
    for title, table in _tables(result):
        lines += ["", f"{title}:", "", table.plain()]
    for part in result.missing:
        lines += [f"Not read: {part.what}, {part.start} to {part.end}: {part.why}"]
    return "\n".join(shown(line) if "\n" not in line else line for line in lines)


def _tables(result: JobResult) -> Iterator[tuple[str, TextTable]]:
    yield "Over time", _over_time(result.points)
    if result.slow_gpus:
        rows = [
            (each.node, each.gpu, each.what, share(each.share), str(each.hours))
            for each in result.slow_gpus
        ]
        heads = ("node", "GPU", "what", "of the median", "hours")
        yield "Slow GPUs", TextTable(heads, (LEFT, RIGHT, LEFT, RIGHT, RIGHT), rows)
    for title, stretches in (
        ("Idle: GPUs held, and nothing computed", result.idle),
        ("Fewer GPUs than before and after: restarts, lost nodes", result.fewer_gpus),
    ):
        if stretches:
            cells = [(each.start, each.end, number(each.minutes)) for each in stretches]
            yield title, TextTable(("from", "to", "minutes"), (LEFT, LEFT, RIGHT), cells)
    if result.earlier:
        rows = [
            (each.job_id, each.begin, number(each.gpu_hours), share(each.ofu), share(each.mfu))
            for each in result.earlier
        ]
        heads = ("job", "begin", "GPU-hours", "OFU", "MFU")
        yield (
            "Earlier jobs of this name and user",
            TextTable(heads, (LEFT, LEFT, RIGHT, RIGHT, RIGHT), rows),
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
