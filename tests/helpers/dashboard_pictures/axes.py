"""The frame of a picture over time: where an instant and a value lie, with lines and labels at round ones."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from tests.helpers.dashboard_pictures.elements import joined, tag
from tests.helpers.dashboard_pictures.style import length, text
from tests.helpers.dashboard_pictures.units import shown

BELOW = 20.0
ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
ROUND_SECONDS = (60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 21600.0)
EVERY = (3600.0, 7200.0, 10800.0, 21600.0)
A_TIME = 52.0
"""Pixels that the label of an instant takes."""


@dataclass(frozen=True)
class Box:
    """A part of the picture, in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def within(self, left: float, above: float, right: float, below: float) -> Box:
        width, height = self.width - left - right, self.height - above - below
        return Box(self.x + left, self.y + above, width, height)


@dataclass(frozen=True)
class Frame:
    """The plot, the seconds that it shows, and the values at its bottom and top."""

    box: Box
    begin: float
    end: float
    low: float = 0.0
    high: float = 1.0
    unit: str = "percentunit"

    def holding(self, values: Sequence[float], low: float | None, high: float | None) -> Frame:
        """With room for the values, from and to a round one, and for their labels at the left."""
        least, most = min([low or 0.0, *values]), max([low or 0.0, *values])
        if low is None and values:
            least = min(values)
        step = self._step(most - least or 1.0)
        bottom = math.floor(least / step) * step if low is None or least < low else low
        made = replace(self, low=bottom, high=high or math.ceil(most / step + 0.05) * step)
        left = max(length(label) for _, label in made.labels()) + 10
        return replace(made, box=self.box.within(left, 0, 0, 0))

    def _step(self, room: float) -> float:
        return round_step(room / 4, self.unit == "s")

    def labels(self) -> Iterator[tuple[float, str]]:
        """Round values, and how they are written."""
        step = self._step(self.high - self.low)
        for at in range(math.ceil(self.low / step), math.floor(self.high / step + 1e-9) + 1):
            words = shown(round(at * step, 12), self.unit)
            yield (
                at * step,
                re.sub(r"(\.\d*?)0+(?=\D|$)", r"\1", words).replace(".%", "%").replace(". ", " "),
            )

    def x(self, place: int, count: int) -> float:
        return self.box.x + self.box.width * place / max(count - 1, 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.box.bottom - self.box.height * min(max(share, -0.02), 1.02)

    def drawn(self) -> Markup:
        """The lines and labels of both axes."""
        return joined([*self.values(), *self.times()])

    def values(self) -> Iterator[Markup]:
        for value, label in self.labels():
            y = self.y(value)
            yield tag("path", d=f"M{self.box.x:.0f} {y:.0f}h{self.box.width:.0f}", _class="g")
            yield text(self.box.x - 6, y + 4, label, "s e")

    def times(self) -> Iterator[Markup]:
        room = (self.end - self.begin) * A_TIME / self.box.width
        every = next((one for one in EVERY if one >= room), EVERY[-1])
        at = math.ceil(self.begin / every) * every
        while at <= self.end:
            x = self.box.x + self.box.width * (at - self.begin) / (self.end - self.begin)
            yield text(x, self.box.bottom + 15, time.strftime("%H:%M", time.gmtime(at)), "s m")
            at += every


def round_step(step: float, seconds: bool = False) -> float:
    """The next step up that people count in."""
    if seconds and ROUND_SECONDS[0] < step <= ROUND_SECONDS[-1]:
        return next(one for one in ROUND_SECONDS if one >= step)
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * one for one in ROUND if power * one >= step * 0.999)
