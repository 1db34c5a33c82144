"""Draws a whole dashboard as one SVG: its panels where its JSON places them, with what a Prometheus answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from markupsafe import Markup

from deploy.grafana.parts import COLUMNS, ONLY_FAULTS
from tests.helpers.dashboard_pictures.answers import Asked
from tests.helpers.dashboard_pictures.axes import Box
from tests.helpers.dashboard_pictures.cells import grid, states
from tests.helpers.dashboard_pictures.curves import graph, number
from tests.helpers.dashboard_pictures.elements import joined, tag
from tests.helpers.dashboard_pictures.style import BACK, CARD, STYLE, bar, text
from tests.helpers.dashboard_pictures.tables import merged, points, table

Json = dict[str, Any]
WIDTH, UNIT, GAP, HEAD = 1200.0, 34.0, 6.0, 64.0
PIXELS_A_POINT = 5.0


class NoDataError(Exception):
    """A panel that should show something has nothing to show."""


class Board:
    """One dashboard, looked at over a range with choices."""

    def __init__(self, board: Json, asked: Asked) -> None:
        self.board, self.asked = board, asked
        self.span = (asked.end - asked.seconds, asked.end)
        self.panels = list(spread(board["panels"], self._values))

    def svg(self) -> str:
        """Raises NoDataError."""
        height = HEAD + UNIT * max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in self.panels)
        parts = [tag("style", Markup(STYLE)), bar(0, 0, WIDTH, height, BACK), *self._head()]
        parts += [self._panel(panel) for panel in self.panels]
        size = {"viewBox": f"0 0 {WIDTH:.0f} {height:.0f}", "role": "img"}
        label = f"{self.board['title']}, of a simulated fleet"
        return tag("svg", *parts, xmlns="http://www.w3.org/2000/svg", aria_label=label, **size)

    def _head(self) -> Iterator[Markup]:
        yield text(12, 26, self.board["title"], "h")
        begin, end = (time.strftime("%H:%M", time.gmtime(at)) for at in self.span)
        yield text(WIDTH - 12, 26, f"SIMULATED, no GPU was measured \u00b7 {begin} to {end}", "s e")
        chosen = [
            f"{one['label']}: {self.asked.choices.get(one['name'], 'All')}"
            for one in self.board["templating"]["list"]
            if one["type"] == "query"
        ]
        yield text(12, 50, "   \u00b7   ".join(chosen), "s")

    def _values(self, variable: str) -> list[str]:
        """What a panel that is repeated is repeated for: all values of the variable."""
        (one,) = (v for v in self.board["templating"]["list"] if v["name"] == variable)
        inside = self.asked.filled(one["query"]["query"], 60.0).removeprefix("label_values(")
        match, _, label = inside.removesuffix(")").rpartition(", ")
        return self.asked.label_values(label, match)

    def _panel(self, panel: Json) -> Markup:
        place = panel["gridPos"]
        column = WIDTH / COLUMNS
        x, y = place["x"] * column + GAP / 2, HEAD + place["y"] * UNIT + GAP / 2
        box = Box(x, y, place["w"] * column - GAP, place["h"] * UNIT - GAP)
        asked = Asked(
            self.asked.url,
            self.asked.end,
            self.asked.seconds,
            {**self.asked.choices, **panel.get("own", {})},
        )
        title = asked.filled(panel["title"], 60.0)
        if panel["type"] == "row":
            return text(x + 4, y + 20, title, "t")
        room = box.within(10, 32, 10, 8)
        inside = drawn(panel, asked, room, self.span)
        if inside is None:
            if not panel["description"].startswith(ONLY_FAULTS):
                raise NoDataError(f"{self.board['title']}: {title} has nothing to show")
            inside = text(x + box.width / 2, y + box.height / 2 + 6, "No data", "w m")
        card = tag(
            "rect",
            x=f"{x:.0f}",
            y=f"{y:.0f}",
            width=f"{box.width:.0f}",
            height=f"{box.height:.0f}",
            rx="2",
            fill=CARD,
        )
        return joined([card, text(x + 10, y + 20, title, "t", (box.width - 20) * 0.76), inside])


def drawn(panel: Json, asked: Asked, room: Box, span: tuple[float, float]) -> Markup | None:
    """The inside of a panel; None when it has nothing to show."""
    kind = panel["type"]
    if kind in {"table", "xychart"}:
        rows = merged(panel, asked.rows(panel))
        if not rows:
            return None
        return table(panel, rows, room) if kind == "table" else points(panel, rows, room)
    found = [one for one in asked.series(panel, int(room.width / PIXELS_A_POINT)) if one.known]
    if not found:
        return None
    if kind == "status-history":
        return grid(found, room, span)
    kinds = {"timeseries": graph, "stat": number, "state-timeline": states}
    return kinds[kind](panel, found, room, span)


def spread(panels: list[Json], values: Callable[[str], list[str]]) -> Iterator[Json]:
    """The panels, with those that are repeated once for each value, and what follows them moved down."""
    moved = 0
    for panel in panels:
        place = {**panel["gridPos"], "y": panel["gridPos"]["y"] + moved}
        if "repeat" not in panel:
            yield {**panel, "gridPos": place}
            continue
        across = panel["maxPerRow"]
        found = values(panel["repeat"])
        for at, value in enumerate(found):
            here = {
                "x": at % across * (COLUMNS // across),
                "y": place["y"] + at // across * place["h"],
                "w": COLUMNS // across,
                "h": place["h"],
            }
            yield {**panel, "gridPos": here, "own": {panel["repeat"]: value}}
        moved += (-(-len(found) // across) - 1) * place["h"]
