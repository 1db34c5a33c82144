"""Draws tables, and the points that a table of two values makes, after the transformations of the panel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from tests.helpers.dashboard_pictures.axes import BELOW, Box, Frame
from tests.helpers.dashboard_pictures.elements import joined, tag
from tests.helpers.dashboard_pictures.style import EDGE, LINES, bar, length, text
from tests.helpers.dashboard_pictures.units import shown

ROW = 26.0
Row = dict[str, str | float]
Answers = Sequence[Sequence[tuple[dict[str, str], float]]]


def merged(panel: dict[str, Any], answers: Answers) -> list[Row]:
    """`merge` and `organize` of Grafana: a row for each set of labels, with the columns that are left."""
    options: dict[str, Mapping[str, Any]] = {
        one["id"]: one["options"] for one in panel["transformations"]
    }
    named, left_out = options["organize"]["renameByName"], options["organize"]["excludeByName"]
    rows: dict[frozenset[tuple[str, str]], Row] = {}
    for at, answer in enumerate(answers):
        value_name = "Value" if len(answers) == 1 else f"Value #{chr(ord('A') + at)}"
        for labels, value in answer:
            kept = {key: text for key, text in labels.items() if key != "__name__"}
            row = rows.setdefault(frozenset(kept.items()), {**kept})
            row[value_name] = value
    return [
        {named.get(key, key): value for key, value in row.items() if key not in left_out}
        for row in rows.values()
    ]


def table(panel: dict[str, Any], rows: list[Row], box: Box) -> Markup:
    """The rows as far as there is room; Grafana scrolls the rest."""
    units = units_of(panel)
    first = panel["options"]["sortBy"][0]
    rows.sort(key=lambda row: sort_key(row.get(first["displayName"])), reverse=first["desc"])
    columns = columns_of(panel, rows)
    cells = [[cell(row.get(name), units.get(name, units[""])) for name in columns] for row in rows]
    lengths = [
        max(map(length, (name, *each)))
        for name, each in zip(columns, zip(*cells, strict=True), strict=True)
    ]
    spare = box.width / sum(one + 18 for one in lengths)
    widths = [(one + 18) * spare for one in lengths]
    shown_rows = [columns, *cells[: int(box.height / ROW) - 1]]
    parts = []
    for place, words in enumerate(shown_rows):
        y = box.y + ROW * place + 17
        parts += [bar(box.x, y + 8, box.width, 1, EDGE)]
        parts += list(line(words, widths, box.x, y, head=place == 0, columns=columns, rows=rows))
    return joined(parts)


def line(
    words: Sequence[str],
    widths: Sequence[float],
    x: float,
    y: float,
    *,
    head: bool,
    columns: Sequence[str],
    rows: Sequence[Row],
) -> Iterator[Markup]:
    """Numbers end at the right of their column, and labels begin at its left."""
    for name, word, width in zip(columns, words, widths, strict=True):
        is_number = any(isinstance(row.get(name), float) for row in rows)
        kind = " ".join(filter(None, ("s" if head else "", "e" if is_number else "")))
        yield text(x + (width - 10 if is_number else 6), y, word, kind, width - 8)
        x += width


def columns_of(panel: dict[str, Any], rows: Sequence[Row]) -> list[str]:
    """Labels by the alphabet, and then the values, as Grafana has them."""
    named = panel["transformations"][1]["options"]["renameByName"].values()
    labels = {key for row in rows for key, value in row.items() if isinstance(value, str)}
    return [*sorted(labels), *(name for name in named if name not in labels)]


def units_of(panel: dict[str, Any]) -> dict[str, str]:
    """The unit of each column that has one of its own, and under the empty name that of all others."""
    config = panel["fieldConfig"]
    own = {
        one["matcher"]["options"]: each["value"]
        for one in config["overrides"]
        for each in one["properties"]
        if each["id"] == "unit"
    }
    return {"": config["defaults"]["unit"], **own}


def sort_key(value: str | float | None) -> tuple[bool, float, str]:
    number = value if isinstance(value, float) and math.isfinite(value) else -math.inf
    return value is not None, number, value if isinstance(value, str) else ""


def cell(value: str | float | None, unit: str) -> str:
    if isinstance(value, float):
        return shown(value, unit) if math.isfinite(value) else "NaN"
    return value or ""


def points(panel: dict[str, Any], rows: Sequence[Row], box: Box) -> Markup:
    """A point for each row that has both values."""
    (pair,) = panel["options"]["series"]
    across, up = (pair[axis]["matcher"]["options"] for axis in ("x", "y"))
    unit = panel["fieldConfig"]["defaults"]["unit"]
    frame = Frame(box.within(48, 4, 20, BELOW + 18), 0, 1)
    dots = [
        tag(
            "circle",
            cx=f"{frame.box.x + frame.box.width * x:.0f}",
            cy=f"{frame.y(y):.0f}",
            r="4",
            fill=LINES[0],
        )
        for x, y in ((row.get(across), row.get(up)) for row in rows)
        if isinstance(x, float) and isinstance(y, float)
    ]
    labels = [
        text(
            frame.box.x + frame.box.width * at / 5,
            frame.box.bottom + 15,
            shown(at / 5, unit),
            "s m",
        )
        for at in range(6)
    ]
    labels.append(text(frame.box.x + frame.box.width / 2, frame.box.bottom + 32, across, "s m"))
    labels.append(text(frame.box.x + 6, frame.box.y + 14, up, "s"))
    return joined([*frame.values(), *dots, *labels])
