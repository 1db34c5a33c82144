"""Pictures show what is known, a gap where nothing is, and every flagged job in its colour."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.pages.pictures import (
    MOST_DOTS,
    MOST_LABELS,
    PictureLine,
    TimeAxis,
    distribution,
    heat_map,
    over_time,
    round_up,
    scatter,
)
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.support.drawing import Drawing
from tests.helpers.every import every
from tests.helpers.page_parts import picture, picture_over_time


def dot(name: str, ofu: float, mfu: float, gpu_hours: float, *, is_flagged: bool) -> JobRow:
    verdict = "mfu_above_ofu" if is_flagged else "agree"
    return JobRow.model_construct(
        cluster="",
        job_id="7",
        job_name=name,
        ofu_compared=ofu,
        mfu=mfu,
        held_gpu_hours=gpu_hours,
        verdict=verdict,
    )


def drawn_of(jobs: Sequence[JobRow]) -> Drawing:
    drawing = scatter(jobs)
    assert drawing is not None
    return drawing


def assert_inside(drawing: Drawing) -> None:
    """No shape lies outside of the picture, where nobody would see it."""
    for _, known, *_ in drawing.shapes:
        number = {name: float(str(value)) for name, value in known.items() if name in PLACES}
        for start, length, most in (("x", "width", drawing.width), ("y", "height", drawing.height)):
            for name in (start, f"{start}1", f"{start}2", f"c{start}"):
                if name in number:
                    assert 0 <= number[name] <= most - number.get(length, 0.0) + 0.1, known


PLACES = {"x", "y", "width", "height", "x1", "y1", "x2", "y2", "cx", "cy"}
VALUES = st.lists(st.one_of(st.none(), st.floats(0.0, 1.2)), max_size=50)
SOME = VALUES.filter(bool)


@given(VALUES, VALUES)
def test_every_picture_is_well_formed_and_has_a_name(
    one: list[float | None], other: list[float | None]
) -> None:
    known = [(value, 2.0) for value in one if value is not None]
    dots = [dot("a<b&m", value, value / 2, 1.0, is_flagged=value > 0.5) for value, _ in known]
    for drawing in (
        heat_map([("n1 0", one), ("n1 1", other)], ("2026-01-01T00:00", "later")),
        distribution(known),
        *filter(None, [scatter(dots)]),
    ):
        assert_inside(drawing)
        drawn = picture(drawing)
        assert ElementTree.fromstring(drawn).get("aria-label")
        assert "nan" not in drawn
        assert "inf" not in drawn.replace("info", "")


def test_a_gap_stays_a_gap() -> None:
    cells = heat_map([("gpu", [0.1, None, 0.0])], ("2026-01-01T00:00", "2026-01-01T03:00"))
    drawn = picture(cells)
    assert drawn.count("<rect") == 2
    assert "2026-01-01 00:00" in drawn
    assert "2026-01-01 03:00" in drawn


@every([(0.11, 0.12), (0.31, 0.4), (0.98, 1.0), (1.13, 1.2)])
def test_ticks_are_round_percents(most: float, top: float) -> None:
    assert round_up(most) == pytest.approx(top)


def test_flagged_jobs_are_marked_and_each_name_is_written_once() -> None:
    dots = [dot("same", 0.2, 0.5 + n / 100, 1.0, is_flagged=True) for n in range(9)]
    dots += [dot(f"ok{n}", 0.3, 0.3, 1.0, is_flagged=False) for n in range(30)]
    drawn = picture(drawn_of(dots))
    assert drawn.count('class="flagged"') == 9
    assert drawn.count('class="dot"') == 30
    assert drawn.count(">same</text>") == 1
    many = [dot(f"name {n}", 0.1, n / 40, 1.0, is_flagged=True) for n in range(20, 40)]
    assert picture(drawn_of(many)).count('class="label"') <= MOST_LABELS


def test_where_no_job_reports_there_is_nothing_to_compare() -> None:
    job = dot("quiet", 0.3, 0.3, 1.0, is_flagged=False)
    assert scatter([job.model_copy(update={"mfu": None})]) is None


def test_of_very_many_jobs_the_flagged_and_the_large_are_drawn() -> None:
    dots = [dot("x", 0.3, 0.3, float(n), is_flagged=False) for n in range(MOST_DOTS + 50)]
    drawn = picture(drawn_of([*dots, dot("bad", 0.1, 0.9, 0.1, is_flagged=True)]))
    assert drawn.count("<circle") == MOST_DOTS
    assert drawn.count('class="flagged"') == 1


AXIS = TimeAxis(1767571200.0, 3600.0)


@given(SOME, SOME)
def test_every_picture_over_time_is_well_formed_and_has_a_name(
    one: list[float | None], other: list[float | None]
) -> None:
    lines = [PictureLine("ofu", "a<b", one), PictureLine("mfu", "MFU", other)]
    drawn = picture_over_time(over_time(lines, one, AXIS, 'n"m'))
    tree = ElementTree.fromstring(drawn)
    (svg,) = tree.findall("svg")
    assert svg.get("aria-label") == 'n"m'
    assert "nan" not in drawn
    for (name, ratios), line in zip(json.loads(tree.get("data-ratios") or ""), lines, strict=True):
        assert name == line.name
        known = [
            None if value is None else pytest.approx(100 * value, abs=0.051)
            for value in line.values
        ]
        assert ratios == known


def test_a_gap_stays_a_gap_and_a_single_value_is_seen() -> None:
    drawn = picture_over_time(
        over_time(
            [PictureLine("ofu", "OFU", [0.1, 0.2, None, 0.4])], [2.0, 8.0, None, 4.0], AXIS, "x"
        )
    )
    assert ">area: GPUs, 8 at most<" in drawn
    (path,) = re.findall(r'<path d="([^"]*)" class="ofu">', drawn)
    assert path == "M0.5,97.5h0L1.5,65.0M3.5,0.0h0"


def test_the_begin_the_middle_and_the_end_of_the_time_are_named() -> None:
    drawn = picture_over_time(over_time([], [1.0] * 48, AXIS, "x"))
    when = re.findall(r'class="when">([^<]*)<', drawn)
    assert when == ["2026-01-05 00:00", "2026-01-06 00:00", "2026-01-07 00:00"]
