"""Draws lines, stacked areas and bars over time with their legend, and a number with its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from tests.helpers.dashboard_pictures.answers import Series
from tests.helpers.dashboard_pictures.axes import BELOW, Box, Frame
from tests.helpers.dashboard_pictures.elements import joined, tag
from tests.helpers.dashboard_pictures.style import LINES, bar, colour, length, text
from tests.helpers.dashboard_pictures.units import shown

ROW = 17.0
Values = Sequence[float | None]
Place = tuple[float, float]


def graph(panel: dict[str, Any], found: Sequence[Series], box: Box, span: Place) -> Markup:
    """A panel of lines over time."""
    defaults = panel["fieldConfig"]["defaults"]
    custom, unit = defaults["custom"], defaults["unit"]
    legend_width = width_of_legend(panel, found, box)
    frame = Frame(box.within(0, 4, legend_width + 8, BELOW), *span, unit=unit)
    layers = stacked(found) if custom.get("stacking") else [(None, one.values) for one in found]
    known = [v for layer in layers for values in layer for v in values or () if v is not None]
    frame = frame.holding(known, defaults.get("min"), defaults.get("max"))
    kind = bars if custom["drawStyle"] == "bars" else areas if custom.get("stacking") else curves
    names = {one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"]}
    drawn = band(frame, found) if {"upper", "lower"} <= names else kind(frame, layers)
    beside = Box(box.x + box.width - legend_width, box.y, legend_width, box.height)
    return joined([frame.drawn(), *drawn, *(legend(found, beside, unit) if legend_width else ())])


def width_of_legend(panel: dict[str, Any], found: Sequence[Series], box: Box) -> float:
    if not panel["options"]["legend"]["showLegend"]:
        return 0.0
    unit = panel["fieldConfig"]["defaults"]["unit"]
    names = max(length(one.name) for one in found)
    return min(names + 16 + width_of_means(found, unit), box.width * 0.5)


def width_of_means(found: Sequence[Series], unit: str) -> float:
    return max(length(mean(one, unit)) for one in found) + 14


def mean(one: Series, unit: str) -> str:
    return shown(sum(one.known) / len(one.known), unit)


def legend(found: Sequence[Series], box: Box, unit: str) -> Iterator[Markup]:
    """The names with their means, as far as there is room; Grafana scrolls the rest."""
    yield text(box.x + box.width, box.y + 8, "Mean", "s e")
    room = box.width - 16 - width_of_means(found, unit) + 6
    for place, one in enumerate(found[: int(box.height / ROW) - 1]):
        y = box.y + 8 + ROW * (place + 1)
        yield bar(box.x, y - 6, 11, 4, colour(place))
        yield text(box.x + 16, y, one.name, width=room)
        yield text(box.x + box.width, y, mean(one, unit), "e")


def stacked(found: Sequence[Series]) -> list[tuple[Values, Values]]:
    """The bottom and the top of each, where those below 0 hang from 0."""
    count = max(len(one.values) for one in found)
    above, below = [0.0] * count, [0.0] * count
    layers: list[tuple[Values, Values]] = []
    for one in found:
        bottom: list[float | None] = []
        top: list[float | None] = []
        for place, value in enumerate(one.values):
            side = below if value is not None and value < 0 else above
            bottom.append(None if value is None else side[place])
            side[place] += value or 0.0
            top.append(None if value is None else side[place])
        layers.append((bottom, top))
    return layers


def curves(frame: Frame, layers: Sequence[tuple[Values | None, Values]]) -> Iterator[Markup]:
    for place, (_, values) in enumerate(layers):
        for run in runs(frame, values):
            yield tag("path", d=path(run), stroke=colour(place), _class="l")


def areas(frame: Frame, layers: Sequence[tuple[Values | None, Values]]) -> Iterator[Markup]:
    for place, (bottom, top) in enumerate(layers):
        for low, high in zip(runs(frame, bottom or ()), runs(frame, top), strict=True):
            d = path(high) + "L" + path(low[::-1])[1:] + "z"
            yield tag("path", d=d, fill=colour(place), fill_opacity="0.4")
            yield tag("path", d=path(high), stroke=colour(place), _class="l")


def bars(frame: Frame, layers: Sequence[tuple[Values | None, Values]]) -> Iterator[Markup]:
    """A bar for each value; those of one series are one element, which keeps the picture small."""
    for place, (bottom, top) in enumerate(layers):
        wide = frame.box.width / len(top)
        parts = []
        for at, (low, high) in enumerate(zip(bottom or (), top, strict=True)):
            if low is not None and high is not None and low != high:
                x = frame.box.x + wide * (at + 0.5)
                parts.append(f"M{x:.0f} {frame.y(low):.0f}V{frame.y(high):.0f}")
        wide = max(1.0, wide - 1)
        yield tag("path", d="".join(parts), stroke=colour(place), stroke_width=f"{wide:.1f}")


def band(frame: Frame, found: Sequence[Series]) -> Iterator[Markup]:
    """A line, with the space between the series `upper` and `lower` filled."""
    by_name = {one.name: one.values for one in found}
    pairs = list(zip(by_name["upper"], by_name["lower"], strict=True))
    upper = [up if down is not None else None for up, down in pairs]
    lower = [down if up is not None else None for up, down in pairs]
    for low, high in zip(runs(frame, lower), runs(frame, upper), strict=True):
        d = path(high) + "L" + path(low[::-1])[1:] + "z"
        yield tag("path", d=d, fill=LINES[1], fill_opacity="0.3")
    yield from curves(frame, [(None, by_name["OFU"])])


def runs(frame: Frame, values: Values) -> list[list[Place]]:
    """The places of neighbours that are known; a gap stays a gap."""
    found: list[list[Place]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            found.append([])
        else:
            found[-1].append((frame.x(place, len(values)), frame.y(value)))
    return [run for run in found if run]


def path(run: Sequence[Place]) -> str:
    """A line through places, in whole pixels from one to the next."""
    (x, y), *rest = [(round(x), round(y)) for x, y in run]
    steps = [f"M{x} {y}l"]
    for to_x, to_y in rest or [(x + 1, y)]:
        steps.append(f"{to_x - x}{' ' if to_y >= y else ''}{to_y - y} ")
        x, y = to_x, to_y
    return "".join(steps).strip()


def number(panel: dict[str, Any], found: Sequence[Series], box: Box, span: Place) -> Markup:
    """The latest value, large, above its own line."""
    (one,) = found
    unit = panel["fieldConfig"]["defaults"]["unit"]
    large = text(box.x + box.width / 2, box.y + 32, shown(one.known[-1], unit), "n m")
    frame = replace(
        Frame(box.within(0, 48, 0, 2), *span).holding(one.known, None, None),
        box=box.within(0, 48, 0, 2),
    )
    parts = []
    for run in runs(frame, one.values):
        floor = [(run[0][0], frame.box.bottom), (run[-1][0], frame.box.bottom)]
        d = path(run) + "L" + path(floor[::-1])[1:] + "z"
        parts.append(tag("path", d=d, fill=LINES[0], fill_opacity="0.25"))
        parts.append(tag("path", d=path(run), stroke=LINES[0], _class="l"))
    return joined([*parts, large])
