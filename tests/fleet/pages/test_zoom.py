"""A picture over time can be zoomed and read by pointer and keys in a real browser, and asks nobody for anything."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.fleet.pages.pictures import PictureLine, TimeAxis, over_time
from tests.helpers.browser import BROWSER, seen, with_script
from tests.helpers.page_parts import fleet_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        BROWSER is None, reason="needs Chromium, which tests/run installs on Debian"
    ),
]
HOURS = 100
LINES = [
    PictureLine("ofu", "OFU", [None, *(number / 1000 for number in range(1, HOURS))]),
    PictureLine("mfu", "MFU", [None] * 50 + [0.4] * 50),
]
PICTURE = over_time(LINES, [None, *[1024.0] * 99], TimeAxis(1767571200.0, 3600.0), "OFU over time")
PAGE = fleet_page(PICTURE)
ALL = "2026-01-05 00:00 to 2026-01-09 04:00"
TOOLS = """
const told = [], box = document.querySelector('.over'), svg = box.querySelector('svg');
const tell = () => told.push([box.dataset.seen, box.querySelector('.plot').getAttribute('viewBox'),
  box.querySelector('.said').textContent, [...box.querySelectorAll('.when')].map(each => each.textContent)]);
const key = (name, more) =>
  !box.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true, ...more}));
const at = share => {
  const plot = box.querySelector('.grid').getBoundingClientRect();  // a line of the grid is as wide as the plot
  return {clientX: plot.left + share * plot.width, clientY: plot.top, pointerId: 1, bubbles: true, button: 0};
};
svg.setPointerCapture = () => {};  // a made-up pointer cannot be captured
const pointer = (kind, share) => svg.dispatchEvent(new PointerEvent(kind, at(share)));
const press = name => [...box.querySelectorAll('button')].find(each => each.textContent == name).click();
"""
END = """
const out = document.createElement('pre'); out.id = 'told';
out.textContent = JSON.stringify([told, performance.getEntriesByType('resource').length]);
document.body.append(out);
"""


def told(deeds: str, folder: Path) -> list[Any]:
    """What the picture showed each time the deeds said `tell()`. Nothing was fetched meanwhile."""
    page = folder / "page.html"
    page.write_text(with_script(PAGE, TOOLS + deeds + END))
    (found,) = re.findall(r'<pre id="told">(.*?)</pre>', seen(page), re.S)
    steps, fetched = json.loads(html.unescape(found))
    assert fetched == 0
    return list(steps)


def test_a_drag_zooms_and_a_double_click_shows_all_again(tmp_path: Path) -> None:
    before, zoomed, after = told(
        "tell(); pointer('pointerdown', .255); pointer('pointermove', .4); pointer('pointerup', .495); tell();"
        "svg.dispatchEvent(new MouseEvent('dblclick', {bubbles: true})); tell()",
        tmp_path,
    )
    assert before[:2] == after[:2] == [ALL, "0 0 100 130"]
    assert zoomed[0] == "2026-01-06 01:00 to 2026-01-07 02:00"
    assert zoomed[3] == ["2026-01-06 01:00", "2026-01-06 13:30", "2026-01-07 02:00"]


def test_a_drag_that_leaves_the_picture_ends_at_its_edge(tmp_path: Path) -> None:
    (zoomed,) = told(
        "pointer('pointerdown', .905); pointer('pointermove', 3); pointer('pointerup', 3); tell()",
        tmp_path,
    )
    assert zoomed[0] == "2026-01-08 18:00 to 2026-01-09 04:00"


def test_a_press_without_a_drag_and_a_drag_that_is_taken_away_zoom_nothing(tmp_path: Path) -> None:
    pressed, taken = told(
        "pointer('pointerdown', .5); pointer('pointerup', .5); tell();"
        "pointer('pointerdown', .1); pointer('pointercancel', .9); tell()",
        tmp_path,
    )
    assert (pressed[0], taken[0]) == (ALL, ALL)


def test_a_pointer_reads_the_value_below_it_and_unknown_is_a_dash(tmp_path: Path) -> None:
    late, first = told(
        "pointer('pointermove', .755); tell(); pointer('pointermove', 0); tell()", tmp_path
    )
    assert late[2] == "2026-01-08 03:00 to 2026-01-08 04:00 · OFU 7.5% · MFU 40.0% · 1,024 GPUs"
    assert first[2] == "2026-01-05 00:00 to 2026-01-05 01:00 · OFU - · MFU - · - GPUs"


def test_keys_zoom_about_the_value_that_was_read_and_move_on(tmp_path: Path) -> None:
    zoomed, moved, far, out, everything = told(
        "pointer('pointermove', .755); key('+'); key('+'); tell(); key('ArrowLeft'); tell();"
        "for (let n = 0; n < 30; n++) key('ArrowLeft', {shiftKey: true}); tell();"
        "key('-'); tell(); key('Escape'); tell()",
        tmp_path,
    )
    assert zoomed[1] == "57 0 25 130"
    assert "OFU 7.4%" in moved[2]
    assert far[1] == "0 0 25 130"  # the part that is seen follows, and stops at the begin
    assert "OFU - " in far[2]
    assert out[1] == "0 0 50 130"
    assert everything[:2] == [ALL, "0 0 100 130"]


def test_zooming_ends_at_four_values_and_keys_of_the_browser_are_left_alone(tmp_path: Path) -> None:
    (deep,) = told("for (let n = 0; n < 40; n++) key('+'); tell()", tmp_path)
    assert deep[1].split()[2] == "4"
    (same,) = told("if (key('+', {ctrlKey: true}) || key('Tab')) box.remove(); tell()", tmp_path)
    assert same[0] == ALL


def test_buttons_do_the_same_and_the_picture_can_be_reached_by_tab(tmp_path: Path) -> None:
    zoomed, everything, order = told(
        "press('Zoom in'); tell(); press('All'); tell(); told.push([box.tabIndex, box.getAttribute('aria-label')])",
        tmp_path,
    )
    assert zoomed[1] == "25 0 50 130"
    assert everything[0] == ALL
    assert order == [0, "OFU over time"]


def test_without_its_script_the_whole_time_is_drawn() -> None:
    assert 'viewBox="0 0 100 130"' in PAGE
    assert "2026-01-05 00:00</text>" in PAGE
    assert "2026-01-09 04:00</text>" in PAGE
