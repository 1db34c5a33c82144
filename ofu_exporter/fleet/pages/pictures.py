"""Draws the pictures of reports: a scatter, a distribution, a heat map, and ratios over time. A gap stays a gap.

A script of the page zooms in on what is over time; without it the whole time is seen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ofu_exporter.fleet.reports import figures
from ofu_exporter.fleet.reports.job_rows import is_flagged, iso
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.support.drawing import Drawing, Shape, line, rectangle, stretches, words

WIDTH, LEFT, RIGHT = 520.0, 44.0, 12.0
MOST_DOTS = 2000
MOST_LABELS = 8
Values = Sequence[float | None]


class Dot(NamedTuple):
    """A job that reports."""

    job: JobRow
    ofu: float
    mfu: float


def scatter(jobs: Sequence[JobRow]) -> Drawing | None:
    """Reported MFU over OFU with the diagonal; None where no job reports. Small jobs lie on top."""
    dots: list[Dot] = [
        Dot(job, job.ofu_compared, job.mfu)
        for job in jobs
        if job.ofu_compared is not None and job.mfu is not None
    ]
    if not dots:
        return None
    height = 380.0
    shown = sorted(dots, key=lambda dot: (not is_flagged(dot.job), -dot.job.held_gpu_hours))
    shown = sorted(shown[:MOST_DOTS], key=lambda dot: -dot.job.held_gpu_hours)
    top = round_up(max([0.1, *(max(dot.ofu, dot.mfu) for dot in shown)]))
    scale = _Scale(top, height)
    most = max([1.0, *(dot.job.held_gpu_hours for dot in shown)])
    marks = [
        Shape(
            "circle",
            {
                "class": "flagged" if is_flagged(job) else "dot",
                "cx": f"{scale.x(ofu):.1f}",
                "cy": f"{scale.y(mfu):.1f}",
                "r": f"{2.2 + 4.5 * math.sqrt(job.held_gpu_hours / most):.1f}",
            },
            f"{job.job_name} {job.shown_name}: {ofu:.1%}, {mfu:.1%}",
        )
        for job, ofu, mfu in shown
    ]
    diagonal = line("diagonal", scale.x(0), scale.y(0), scale.x(top), scale.y(top))
    label = f"Reported MFU over OFU, a dot for each of {len(shown)} jobs; the diagonal is where they agree"
    shapes = [*scale.grid(), diagonal, *marks, *_labels(shown, scale)]
    return Drawing(WIDTH, height, label, "scatter", shapes)


def _labels(dots: Sequence[Dot], scale: _Scale) -> Iterator[Shape]:
    """Names of flagged jobs, each once, where they do not lie on each other; the worst first.

    They stand left of their dots: above the diagonal that is where nothing else is.
    """
    placed: list[float] = []
    named: set[str] = set()
    for job, ofu, mfu in sorted(dots, key=lambda dot: dot.ofu - dot.mfu):
        x, y, name = scale.x(ofu), scale.y(mfu) + 4, job.job_name or job.job_id
        apart = all(abs(y - other) > 13 for other in placed)
        if is_flagged(job) and name not in named and apart and len(placed) < MOST_LABELS:
            placed.append(y)
            named.add(name)
            is_left = x > LEFT + 7 * min(len(name), 24)
            place, anchor = (x - 9, "end") if is_left else (x + 9, "start")
            yield words(name[:24], place, y, anchor, "label")


class _Scale(NamedTuple):
    """Two axes from 0 to `top`."""

    top: float
    height: float

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / self.top

    def y(self, value: float) -> float:
        return self.height - 34 - (self.height - 62) * value / self.top

    def grid(self) -> Iterator[Shape]:
        step = self.top / 4
        for value in (step * number for number in range(5)):
            y, x = self.y(value), self.x(value)
            yield line("grid", LEFT, y, WIDTH - RIGHT, y)
            yield words(f"{value:.0%}", LEFT - 6, y + 4, "end")
            yield words(f"{value:.0%}", x, self.height - 18, "middle")
        yield words("OFU", WIDTH - RIGHT, self.height - 4, "end")
        yield words("MFU", 4, 12, "start")


def distribution(values: Sequence[tuple[float, float]]) -> Drawing:
    """GPU-hours by OFU: pairs of OFU and GPU-hours, in bins of 2.5 points."""
    bins = 40
    sums = [0.0] * bins
    for ofu, hours in values:
        sums[min(bins - 1, max(0, int(ofu * bins)))] += hours
    last = max((number for number, each in enumerate(sums) if each), default=0) + 1
    shown = sums[: max(8, last)]
    most = max([1e-9, *shown])
    width = (WIDTH - LEFT - RIGHT) / len(shown)
    bars = [
        rectangle(
            (LEFT + width * number + 1, 150 - 130 * each / most, width - 2, 130 * each / most),
            f"{number / bins:.1%} to {(number + 1) / bins:.1%}: {each:,.0f} GPU-hours",
            rx=2,
        )
        for number, each in enumerate(shown)
    ]
    ticks = [
        words(f"{number / bins:.0%}", LEFT + width * number, 168, "middle")
        for number in range(0, len(shown) + 1, 4)
    ]
    base = line("grid", LEFT, 150, WIDTH - RIGHT, 150)
    most_text = words(f"{most:,.0f} GPU-hours", LEFT, 14, "start")
    shapes = [base, *bars, *ticks, most_text]
    return Drawing(WIDTH, 190.0, "GPU-hours by OFU of the job", "bars", shapes)


def sparkline(values: Values) -> Drawing | None:
    """How a ratio went, from 0 to its largest; a gap stays a gap. None below two that are known."""
    measured = [value for value in values if value is not None]
    if len(measured) < 2:
        return None
    most, step = max(measured) or 1.0, 100 / (len(values) - 1)
    runs = (
        [f"{step * place:.1f} {29 - 26 * value / most:.1f}" for place, value in stretch]
        for stretch in stretches(values)
    )
    path = " ".join(f"M{' L'.join(run if len(run) > 1 else run * 2)}" for run in runs)
    written = ", ".join("unknown" if value is None else f"{value:.1%}" for value in values)
    label = f"The last {len(values)} periods, the oldest first: {written}"
    return Drawing(100, 30, label, "spark", [Shape("path", {"d": path})], is_stretched=True)


def heat_map(rows: Sequence[tuple[str, Values]], times: tuple[str, str]) -> Drawing:
    """A row of cells for each GPU, darker with more OFU, between two times; a cell that is not known is empty."""
    height = 34 + 9.0 * len(rows)
    top = round_up(
        max([0.1, *(value for _, values in rows for value in values if value is not None)])
    )
    shapes: list[Shape] = []
    for number, (name, values) in enumerate(rows):
        shapes.append(words(name, 0, 9 + 9 * number, "start"))
        width = (WIDTH - 110) / max(1, len(values))
        shapes += [
            rectangle(
                (110 + width * place, 1 + 9 * number, max(0.5, width - 0.4), 8),
                f"{name}: {value:.1%}",
                **{"fill-opacity": f"{0.08 + 0.92 * min(1.0, value / top):.2f}"},
            )
            for place, value in enumerate(values)
            if value is not None
        ]
    for time, x, anchor in zip(times, (110, WIDTH), ("start", "end"), strict=True):
        shapes.append(words(time.replace("T", " "), x, height - 18, anchor))
    shapes.append(words(f"full colour: {top:.0%}", 110, height - 2, "start"))
    label = "OFU of the job's GPUs, a row each, hour by hour"
    return Drawing(WIDTH, height, label, "heat", shapes)


def round_up(value: float) -> float:
    """A top of an axis whose quarters are whole percents, and of five above 20 %."""
    steps = 25 if value <= 0.2 else 5
    return math.ceil(value * steps - 1e-9) / steps


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
    area = words(f"area: GPUs, {figures.gpus(most)} at most", WIDTH - RIGHT, 14, "end")
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
    runs = (
        [f"{place}.5,{_TALL * (1 - min(max(value, 0.0), top) / top):.1f}" for place, value in each]
        for each in stretches(values)
    )
    # With round ends, a single point is seen by h0.
    return "".join(f"M{run[0]}h0{''.join(f'L{point}' for point in run[1:])}" for run in runs)


def _steps(values: Values, most: float) -> str:
    return "".join(
        f"M{number},{_TALL:g}V{_TALL * (1 - value / most):.1f}h1V{_TALL:g}Z"
        for number, value in enumerate(values)
        if value
    )
