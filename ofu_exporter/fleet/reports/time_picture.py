"""Draws ratios over time. A script of the page zooms in on them; without it the whole time is seen."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.pictures import LEFT, RIGHT, WIDTH, Values, round_up
from ofu_exporter.support.drawing import Drawing, Shape, line, words

_TOP, _TALL, _WIDE = 20.0, 130.0, WIDTH - LEFT - RIGHT


class PictureLine(NamedTuple):
    """A line over time: the class that it is drawn in (ofu, mfu, activity or a loss), its name and its ratios."""

    kind: str
    name: str
    values: Values


class TimeAxis(NamedTuple):
    """When the first value's stretch of time begins, and how long each lasts."""

    start: float
    step: float


class TimePicture(NamedTuple):
    """A picture over time, and its values for the script: times in seconds, ratios in percent, as JSON."""

    drawing: Drawing
    lines: Sequence[PictureLine]
    start: str
    step: str
    ratios: str
    gpus: str


def over_time(
    lines: Sequence[PictureLine], gpus: Values, axis: TimeAxis, label: str
) -> TimePicture:
    """Lines of ratios over an area of GPUs, each on a scale of its own; the highest GPUs are named."""
    numbers = [value for each in lines for value in each.values if value is not None]
    top = round_up(max([0.1, *numbers]))
    most = max([1e-9, *(value for value in gpus if value is not None)])
    area = words(f"area: GPUs, {most:,.0f} at most", WIDTH - RIGHT, 14, "end")
    shapes = [*_scale(top), area, _plot(lines, gpus, top, most), *_times(axis, len(gpus))]
    values = [(each.name, _shown(each.values, 100.0)) for each in lines]
    return TimePicture(
        Drawing(WIDTH, 190.0, label, "time", shapes),
        lines,
        start=f"{axis.start:.0f}",
        step=f"{axis.step:g}",
        ratios=json.dumps(values, separators=(",", ":")),
        gpus=json.dumps(_shown(gpus, 1.0), separators=(",", ":")),
    )


def _shown(values: Values, scale: float) -> list[float | int | None]:
    """Values to a tenth, as few characters as they need."""
    rounded = [None if value is None else round(value * scale, 1) for value in values]
    return [None if value is None else int(value) if value % 1 == 0 else value for value in rounded]


def _scale(top: float) -> Iterator[Shape]:
    for number in range(5):
        y = _TOP + _TALL * (1 - number / 4)
        yield line("grid", LEFT, y, WIDTH - RIGHT, y)
        yield words(f"{top * number / 4:.0%}", LEFT - 6, y + 4, "end")


def _times(axis: TimeAxis, count: int) -> Iterator[Shape]:
    """The begin, the middle and the end; the script writes them anew for the part that is seen."""
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        when = iso(axis.start + axis.step * count * share)[:16].replace("T", " ")
        yield words(when, LEFT + _WIDE * share, 168, anchor, "when")


def _plot(lines: Sequence[PictureLine], gpus: Values, top: float, most: float) -> Shape:
    """The lines with a unit for each value to the right, so that to zoom is to choose what part is seen."""
    place = {"x": f"{LEFT:g}", "y": f"{_TOP:g}", "width": f"{_WIDE:g}", "height": f"{_TALL:g}"}
    box = {"viewBox": f"0 0 {max(1, len(gpus))} {_TALL:g}", "preserveAspectRatio": "none"}
    area = Shape("path", {"d": _steps(gpus, most), "class": "area"})
    paths = [Shape("path", {"d": _path(each.values, top), "class": each.kind}) for each in lines]
    return Shape("svg", {"class": "plot", **place, **box}, inside=[area, *paths])


def _path(values: Values, top: float) -> str:
    path, pen_is_up = [], True
    for number, value in enumerate(values):
        if value is None:
            pen_is_up = True
            continue
        y = _TALL * (1 - min(max(value, 0.0), top) / top)
        path.append(f"{'M' if pen_is_up else 'L'}{number}.5,{y:.1f}")
        if pen_is_up:
            path.append("h0")  # with round ends, a single point is seen
        pen_is_up = False
    return "".join(path)


def _steps(values: Values, most: float) -> str:
    return "".join(
        f"M{number},{_TALL:g}V{_TALL * (1 - value / most):.1f}h1V{_TALL:g}Z"
        for number, value in enumerate(values)
        if value
    )
