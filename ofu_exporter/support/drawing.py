"""Pictures as shapes with their places: `templates/parts.html` makes SVG of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Shape(NamedTuple):
    """An element of SVG. `title` is what a pointer over it shows, `words` the text of a text."""

    element: str
    attributes: Mapping[str, object]
    title: str = ""
    words: str = ""
    inside: Sequence[Shape] = ()


class Drawing(NamedTuple):
    """A picture in its own units, and what it is called by who cannot see it."""

    width: float
    height: float
    label: str
    kind: str
    """The class, which says how large it is shown."""
    shapes: Sequence[Shape]
    is_stretched: bool = False
    """Whether it fills its place, whatever the shape of that."""


def stretches(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """The places and values between two gaps, so that a gap stays one."""
    for is_gap, stretch in itertools.groupby(enumerate(values), lambda each: each[1] is None):
        if not is_gap:
            yield [(place, value) for place, value in stretch if value is not None]


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Shape:
    place = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
    return Shape("line", {"class": kind, **place})


def rectangle(
    place: tuple[float, float, float, float], title: str = "", **attributes: object
) -> Shape:
    """A rectangle with its left, top, width and height."""
    names = ("x", "y", "width", "height")
    placed = {name: f"{value:.1f}" for name, value in zip(names, place, strict=True)}
    return Shape("rect", {**attributes, **placed}, title)


def words(text: str, x: float, y: float, anchor: str, kind: str = "") -> Shape:
    """Text that begins, ends or has its middle at `x`: start, end or middle."""
    place = {"x": f"{x:.0f}", "y": f"{y:.0f}", "text-anchor": anchor}
    return Shape("text", {**place, "class": kind} if kind else place, words=text)
