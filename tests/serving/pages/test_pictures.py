"""The pictures of an agent's pages draw what was measured, and a gap where nothing was."""

from __future__ import annotations

import re

from ofu_exporter.serving.pages.pictures import bar, chart, histogram, spark, time_bar
from ofu_exporter.support.drawing import Drawing
from ofu_exporter.values.losses import Loss


def parts(drawing: Drawing) -> list[list[object]]:
    return [
        [shape.attributes[name] for name in ("class", "x", "width")] for shape in drawing.shapes
    ]


def kinds(drawing: Drawing | None) -> list[str]:
    assert drawing is not None
    return [shape.element for shape in drawing.shapes]


def test_a_bar_shows_what_is_used_and_where_the_rest_went() -> None:
    lost = {Loss.CLOCK: 0.1, Loss.NO_TENSOR: 0.3, Loss.EMPTY_SMS: 0.1, Loss.IDLE: 0.2}
    drawn = bar(0.3, lost)
    assert drawn is not None
    assert parts(drawn) == [
        ["used", "0.0", "30.0"],
        ["clock", "30.0", "10.0"],
        ["no_tensor", "40.0", "30.0"],
        ["empty_sms", "70.0", "10.0"],
    ]
    assert drawn.label == (
        "used 30.0%, clock 10.0%, no tensor work 30.0%, empty SMs 10.0%, idle 20.0%"
    )


def test_the_time_of_a_trace_fills_its_bar_from_the_left() -> None:
    shares = {"tensor": 0.5, "other": 0.1, "communication": 0.2, "copies": 0.0, "idle": 0.2}
    drawn = time_bar(shares)
    assert (drawn.width, drawn.height) == (100, 8)
    assert parts(drawn) == [
        ["used", "0.0", "50.0"],
        ["no_tensor", "50.0", "10.0"],
        ["clock", "60.0", "20.0"],
        ["empty_sms", "80.0", "0.0"],
        ["rest", "80.0", "20.0"],
    ]
    assert {(shape.attributes["y"], shape.attributes["height"]) for shape in drawn.shapes} == {
        ("0.0", "8.0")
    }
    assert drawn.label == (
        "tensor 50.0%, other 10.0%, communication 20.0%, copies 0.0%, idle 20.0%"
    )


def test_a_clock_above_the_tensor_clock_is_a_gain_in_words_and_covers_what_it_took() -> None:
    faster = bar(0.45, {Loss.CLOCK: -0.05, Loss.NO_TENSOR: 0.3, Loss.IDLE: 0.3})
    beyond = bar(1.2, {Loss.CLOCK: -0.3, Loss.WITHOUT_TENSOR: 0.1})
    assert faster is not None
    assert beyond is not None
    assert "clock -5.0%" in faster.label
    assert parts(faster) == [["used", "0.0", "45.0"], ["no_tensor", "45.0", "25.0"]]
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
