"""Draws bars of OFU, lines of the last hour and histograms. What was not measured is not drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ofu_exporter.jobs.strip import StripPiece, by_kind
from ofu_exporter.support.drawing import Drawing, Shape, line, rectangle, stretches
from ofu_exporter.support.percent import percent
from ofu_exporter.values.losses import Losses, spans

Points = Sequence[float | None]
"""Values at equal distances; None where nothing was measured."""


def bar(used: float | None, losses: Losses = MappingProxyType({})) -> Drawing | None:
    """An OFU as a bar: what is used, and where the rest of the peak went; what is idle or not known is not filled."""
    if used is None:
        return None
    parts = [
        rectangle((100 * x, 0, 100 * (end - x), 8), **{"class": kind})
        for kind, x, end in spans(used, losses)
    ]
    label = ", ".join(
        [f"used {percent(used)}", *(f"{loss.words} {percent(s)}" for loss, s in losses.items())]
    )
    return _stretched("bar", 100, 8, label, parts)


TIME_COLOURS = {
    "tensor": "used",
    "other": "no_tensor",
    "communication": "clock",
    "copies": "empty_sms",
    "idle": "rest",
}


def time_bar(parts: Mapping[str, float]) -> Drawing:
    """The time of a trace as a bar, by what ran."""
    shapes, left = [], 0.0
    for name, colour in TIME_COLOURS.items():
        shapes.append(rectangle((100 * left, 0, 100 * parts[name], 8), **{"class": colour}))
        left += parts[name]
    label = ", ".join(f"{name} {percent(share)}" for name, share in parts.items())
    return _stretched("bar", 100, 8, label, shapes)


STRIP_COLOURS = {
    "starting": "clock",
    "progress": "used",
    "running": "used",
    "done again": "no_tensor",
    "waiting": "rest",
}


def strip_bar(pieces: Sequence[StripPiece]) -> Drawing:
    """The time of a job as a bar, from its begin on the left to now, or its end."""
    start, end = pieces[0].start, pieces[-1].end
    scale = 100 / (end - start)
    shapes = [
        rectangle(
            (scale * (each.start - start), 0, scale * (each.end - each.start), 8),
            **{"class": STRIP_COLOURS[each.kind]},
        )
        for each in pieces
    ]
    label = ", ".join(f"{kind} {percent(share)}" for kind, share in by_kind(pieces).items())
    return _stretched("bar", 100, 8, label, shapes)


def spark(points: Points, label: str) -> Drawing | None:
    """A line without axes, from 0 to 1. A gap stays a gap."""
    if not any(point is not None for point in points):
        return None
    return _stretched("spark", len(points), 30, label, [*_line(points, 30, "line")])


def chart(ofu: Points, mfu: Points, label: str) -> Drawing | None:
    """OFU and MFU on one scale, which goes to 100 %, or to the highest value where that is above."""
    drawn = [point for point in (*ofu, *mfu) if point is not None]
    if not drawn:
        return None
    top = max(1.0, *drawn)
    width = max(len(ofu), len(mfu))
    grid = [line("grid", 0, y, width, y) for y in (0, 50, 100, 150, 200)]
    lines = [*_line(ofu, 200, "line", top), *_line(mfu, 200, "line mfu", top)]
    return _stretched("chart", width, 200, label, [*grid, *lines])


def histogram(shares: Sequence[float], label: str) -> Drawing | None:
    """How often each value was met, as columns."""
    highest = max(shares, default=0.0)
    if highest <= 0:
        return None
    columns = [
        rectangle(
            (10 * place + 0.8, 100 - 100 * each / highest, 8.4, 100 * each / highest),
            **{"class": "used"},
        )
        for place, each in enumerate(shares)
        if each > 0
    ]
    return _stretched("chart", 10 * len(shares), 100, label, columns)


def _line(points: Points, height: float, kind: str, top: float = 1.0) -> Iterator[Shape]:
    """One polyline for each stretch without a gap; a single point is a short line."""
    for stretch in stretches(points):
        corners = []
        for place, point in stretch:
            y = height - (height - 2) * min(max(point, 0.0), top) / top - 1
            corners += [f"{place},{y:.1f}", f"{place + 1},{y:.1f}"]
        yield Shape("polyline", {"class": kind, "points": " ".join(corners)})


def _stretched(
    kind: str, width: float, height: float, label: str, shapes: Sequence[Shape]
) -> Drawing:
    return Drawing(width, height, label, kind, shapes, is_stretched=True)
