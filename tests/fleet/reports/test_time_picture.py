"""A picture over time has the values that it was given, draws a gap where nothing is known, and names its time."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.reports.time_picture import PictureLine, TimeAxis, over_time
from tests.helpers.page_parts import picture_over_time

VALUES = st.lists(st.one_of(st.none(), st.floats(0.0, 1.2)), min_size=1, max_size=50)
AXIS = TimeAxis(1767571200.0, 3600.0)


@given(VALUES, VALUES)
def test_every_picture_is_well_formed_and_has_a_name(
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
        over_time([PictureLine("ofu", "OFU", [0.1, 0.2, None, 0.4])], [8.0] * 4, AXIS, "x")
    )
    (path,) = re.findall(r'<path d="([^"]*)" class="ofu">', drawn)
    assert path == "M0.5,97.5h0L1.5,65.0M3.5,0.0h0"


def test_the_begin_the_middle_and_the_end_of_the_time_are_named() -> None:
    drawn = picture_over_time(over_time([], [1.0] * 48, AXIS, "x"))
    when = re.findall(r'class="when">([^<]*)<', drawn)
    assert when == ["2026-01-05 00:00", "2026-01-06 00:00", "2026-01-07 00:00"]
