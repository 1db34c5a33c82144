"""The pictures of an agent's pages draw what was measured, and a gap where nothing was."""

from __future__ import annotations

import re

from ofu_exporter.serving.pages.pictures import bar, chart, histogram, spark
from ofu_exporter.support.drawing import Drawing


def kinds(drawing: Drawing | None) -> list[str]:
    assert drawing is not None
    return [shape.element for shape in drawing.shapes]


def test_a_bar_shows_what_is_used_and_what_the_clock_costs() -> None:
    drawn = bar(0.3, 0.4)
    assert drawn is not None
    assert [[*shape.attributes.values()][:3] for shape in drawn.shapes] == [
        ["used", "0.0", "30.0"],
        ["clock", "30.0", "10.0"],
    ]
    assert drawn.label == "used 30.0%, lost to the clock 10.0%, to inactivity 60.0%"


def test_a_clock_above_the_tensor_clock_costs_nothing() -> None:
    faster, beyond = bar(0.45, 0.4), bar(1.2, 0.9)
    assert faster is not None
    assert beyond is not None
    assert "lost to the clock 0.0%" in faster.label
    assert [shape.attributes["width"] for shape in beyond.shapes] == ["100.0"]


def test_what_is_not_known_is_not_drawn() -> None:
    drawn = (bar(None), spark([None, None], ""), chart([], [], ""), histogram([0.0], ""))
    assert drawn == (None,) * 4


def test_a_gap_is_never_bridged() -> None:
    assert kinds(spark([0.5, 0.5, None, 0.5], "")) == ["polyline"] * 2
    assert kinds(chart([None, 0.1, None], [0.2], "")).count("polyline") == 2


def test_an_mfu_above_one_is_inside_the_chart() -> None:
    drawn = chart([0.4], [3.0], "")
    assert drawn is not None
    points = " ".join(str(shape.attributes.get("points", "")) for shape in drawn.shapes)
    heights = [float(y) for y in re.findall(r"\d+,([-\d.]+)", points)]
    assert len(heights) == 4
    assert all(0 <= y <= 200 for y in heights)
