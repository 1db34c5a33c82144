"""Draws a row for every series over time: coloured cells, or bars of a state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from tests.helpers.dashboard_pictures.answers import Series
from tests.helpers.dashboard_pictures.axes import BELOW, Box, Frame
from tests.helpers.dashboard_pictures.elements import joined, tag
from tests.helpers.dashboard_pictures.style import GREEN, RED, YELLOW, bar, length, mixed, text
from tests.helpers.dashboard_pictures.units import shown

LEVELS = 24
"""Colours that are told apart; cells of one colour are one element, which keeps the picture small."""


def grid(found: Sequence[Series], box: Box, span: tuple[float, float]) -> Markup:
    """A cell for every value, from red over yellow to green."""
    frame, rows = laid_out(found, box, span)
    known = [value for one in found for value in one.known]
    low, high = min(0.0, *known), max(known)
    runs: dict[int, list[str]] = defaultdict(list)
    for one, (y, height) in zip(found, rows, strict=True):
        wide = frame.box.width / len(one.values)
        for place, value in enumerate(one.values):
            if value is not None:
                level = round(LEVELS * (value - low) / ((high - low) or 1.0))
                x = frame.box.x + wide * place
                runs[level].append(f"M{x:.0f} {y + height / 2:.0f}h{max(wide - 1, 1):.0f}")
    thick = rows[0][1] * 0.9
    cells = [
        tag(
            "path",
            d="".join(d),
            stroke=mixed(level / LEVELS, (RED, YELLOW, GREEN)),
            stroke_width=f"{thick:.0f}",
        )
        for level, d in sorted(runs.items())
    ]
    return joined([*cells, *names(found, rows, box, frame), *frame.times()])


def states(
    panel: dict[str, Any], found: Sequence[Series], box: Box, span: tuple[float, float]
) -> Markup:
    """A bar for as long as a value stays the same, with the value in it."""
    frame, rows = laid_out(found, box, span)
    unit = panel["fieldConfig"]["defaults"]["unit"]
    known = [value for one in found for value in one.known]
    low, high = min(known), max(known)
    parts: list[Markup] = []
    for one, (y, height) in zip(found, rows, strict=True):
        for value, begin, end in stretches(one.values):
            share = (value - low) / (high - low) if high > low else 0.0
            wide = frame.box.width / len(one.values)
            x, width = frame.box.x + wide * begin, wide * (end - begin)
            fill = mixed(share, (GREEN, YELLOW, RED))
            parts.append(bar(x, y + height * 0.1, width, height * 0.8, fill))
            if width > 14:
                parts.append(text(x + 5, y + height / 2 + 4, shown(value, unit), "d"))
    return joined([*parts, *names(found, rows, box, frame), *frame.times()])


def stretches(values: Sequence[float | None]) -> Iterator[tuple[float, int, int]]:
    """A value, and from where to where it stays."""
    place = 0
    for value, group in groupby(values):
        begin, place = place, place + len(list(group))
        if value is not None:
            yield value, begin, place


def laid_out(
    found: Sequence[Series], box: Box, span: tuple[float, float]
) -> tuple[Frame, list[tuple[float, float]]]:
    """The plot beside the names, and top and height of every row."""
    left = min(max(length(one.name) for one in found) + 12, box.width * 0.4)
    frame = Frame(box.within(left, 2, 10, BELOW), *span)
    height = min(frame.box.height / len(found), 60.0)
    return frame, [(frame.box.y + height * place, height) for place in range(len(found))]


def names(
    found: Sequence[Series], rows: Sequence[tuple[float, float]], box: Box, frame: Frame
) -> Iterator[Markup]:
    for one, (y, height) in zip(found, rows, strict=True):
        yield text(frame.box.x - 6, y + height / 2 + 4, one.name, "e", frame.box.x - box.x)
