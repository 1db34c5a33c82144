"""Draws the pictures of reports as SVG: a scatter, a distribution and a heat map. A gap stays a gap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ofu_exporter.fleet.reports.html import Markup, joined, plain, tag

WIDTH, LEFT, RIGHT = 520.0, 44.0, 12.0
MOST_DOTS = 2000
MOST_LABELS = 8
Values = Sequence[float | None]


class Dot(NamedTuple):
    """A job in the scatter."""

    name: str
    label: str
    ofu: float
    mfu: float
    gpu_hours: float
    is_flagged: bool


def picture(height: float, label: str, *inside: object, kind: str | None = None) -> Markup:
    return tag(
        "svg",
        *inside,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_label=label,
        _class=kind,
    )


def scatter(dots: Sequence[Dot]) -> Markup:
    """Reported MFU over OFU with the diagonal. The largest jobs first, so that small ones lie on top."""
    height = 380.0
    shown = sorted(dots, key=lambda dot: (not dot.is_flagged, -dot.gpu_hours))[:MOST_DOTS]
    top = round_up(max([0.1, *(max(dot.ofu, dot.mfu) for dot in shown)]))
    scale = _Scale(top, height)
    most = max([1.0, *(dot.gpu_hours for dot in shown)])
    marks = [
        tag(
            "circle",
            tag("title", f"{dot.name}: {dot.ofu:.1%}, {dot.mfu:.1%}"),
            _class="pf" if dot.is_flagged else "p",
            cx=f"{scale.x(dot.ofu):.1f}",
            cy=f"{scale.y(dot.mfu):.1f}",
            r=f"{2.2 + 4.5 * math.sqrt(dot.gpu_hours / most):.1f}",
        )
        for dot in sorted(shown, key=lambda dot: -dot.gpu_hours)
    ]
    diagonal = line("diag", scale.x(0), scale.y(0), scale.x(top), scale.y(top))
    label = f"Reported MFU over OFU, a dot for each of {len(shown)} jobs; the diagonal is where they agree"
    return picture(height, label, scale.grid(), diagonal, joined(marks), *_labels(shown, scale))


def _labels(dots: Sequence[Dot], scale: _Scale) -> Iterator[Markup]:
    """Names of flagged jobs, each once, where they do not lie on each other; the worst first.

    They stand left of their dots: above the diagonal that is where nothing else is.
    """
    placed: list[float] = []
    named: set[str] = set()
    for dot in sorted(dots, key=lambda dot: dot.ofu - dot.mfu):
        y = scale.y(dot.mfu) + 4
        apart = all(abs(y - other) > 13 for other in placed)
        if dot.is_flagged and dot.label not in named and apart and len(placed) < MOST_LABELS:
            placed.append(y)
            named.add(dot.label)
            x = scale.x(dot.ofu)
            is_left = x > LEFT + 7 * min(len(dot.label), 24)
            place, anchor = (x - 9, "end") if is_left else (x + 9, "start")
            shown = {"x": f"{place:.0f}", "y": f"{y:.0f}", "text_anchor": anchor}
            yield tag("text", dot.label[:24], _class="lab", **shown)


class _Scale(NamedTuple):
    """Two axes from 0 to `top`."""

    top: float
    height: float

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / self.top

    def y(self, value: float) -> float:
        return self.height - 34 - (self.height - 62) * value / self.top

    def grid(self) -> Markup:
        step = self.top / 4
        parts: list[Markup] = []
        for value in (step * number for number in range(5)):
            y, x = self.y(value), self.x(value)
            parts.append(line("g", LEFT, y, WIDTH - RIGHT, y))
            parts.append(text(f"{value:.0%}", LEFT - 6, y + 4, "end"))
            parts.append(text(f"{value:.0%}", x, self.height - 18, "middle"))
        parts.append(text("OFU", WIDTH - RIGHT, self.height - 4, "end"))
        parts.append(text("MFU", 4, 12, "start"))
        return joined(parts)


def distribution(values: Sequence[tuple[float, float]]) -> Markup:
    """GPU-hours by OFU: pairs of OFU and GPU-hours, in bins of 2.5 points."""
    height, bins = 190.0, 40
    sums = [0.0] * bins
    for ofu, hours in values:
        sums[min(bins - 1, max(0, int(ofu * bins)))] += hours
    last = max((number for number, each in enumerate(sums) if each), default=0) + 1
    shown = sums[: max(8, last)]
    most = max([1e-9, *shown])
    width = (WIDTH - LEFT - RIGHT) / len(shown)
    bars = [
        tag(
            "rect",
            tag(
                "title", f"{number / bins:.1%} to {(number + 1) / bins:.1%}: {each:,.0f} GPU-hours"
            ),
            x=f"{LEFT + width * number + 1:.1f}",
            y=f"{150 - 130 * each / most:.1f}",
            width=f"{width - 2:.1f}",
            height=f"{130 * each / most:.1f}",
            rx=2,
        )
        for number, each in enumerate(shown)
    ]
    ticks = [
        text(f"{number / bins:.0%}", LEFT + width * number, 168, "middle")
        for number in range(0, len(shown) + 1, 4)
    ]
    base = line("g", LEFT, 150, WIDTH - RIGHT, 150)
    most_text = text(f"{most:,.0f} GPU-hours", LEFT, 14, "start")
    return picture(
        height, "GPU-hours by OFU of the job", base, *bars, *ticks, most_text, kind="bars"
    )


def heat_map(rows: Sequence[tuple[str, Values]], times: tuple[str, str], label: str) -> Markup:
    """A row of cells for each GPU, darker with more OFU, between two times; a cell that is not known is empty."""
    height = 34 + 9.0 * len(rows)
    known = [value for _, values in rows for value in values if value is not None]
    top = round_up(max([0.1, *known]))
    parts: list[Markup] = []
    for number, (name, values) in enumerate(rows):
        parts.append(text(name, 0, 9 + 9 * number, "start"))
        width = (WIDTH - 110) / max(1, len(values))
        parts += [
            tag(
                "rect",
                tag("title", f"{name}: {value:.1%}"),
                x=f"{110 + width * place:.1f}",
                y=f"{1 + 9 * number}",
                width=f"{max(0.5, width - 0.4):.1f}",
                height=8,
                fill_opacity=f"{0.08 + 0.92 * min(1.0, value / top):.2f}",
            )
            for place, value in enumerate(values)
            if value is not None
        ]
    return picture(
        height,
        label,
        *parts,
        *(
            text(time.replace("T", " "), x, height - 18, anchor)
            for time, x, anchor in zip(times, (110, WIDTH), ("start", "end"), strict=True)
        ),
        text(f"full colour: {top:.0%}", 110, height - 2, "start"),
        kind="heat",
    )


def round_up(value: float) -> float:
    """A top of an axis whose quarters are whole percents, and of five above 20 %."""
    steps = 25 if value <= 0.2 else 5
    return math.ceil(value * steps - 1e-9) / steps


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    place = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
    return tag("line", _class=kind, **place)


def text(said: str, x: float, y: float, anchor: str, kind: str | None = None) -> Markup:
    return tag("text", plain(said), x=f"{x:.0f}", y=f"{y:.0f}", text_anchor=anchor, _class=kind)
