"""The elements of a page: whatever a name contains, it stays text; what is not known is not drawn."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.serving.pages.elements import (
    Cell,
    Column,
    bar,
    chart,
    document,
    element,
    histogram,
    job_path,
    spark,
    table,
    text,
)


class Found(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, *_: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words += data


@given(st.text(st.characters(), max_size=40))
def test_no_text_is_markup_and_every_text_can_be_sent(words: str) -> None:
    made = element("td", words, title=words)
    assert Found(made).tags == ["td"]
    made.encode()
    shown = Found(made).words
    assert all(each.isprintable() for each in shown)


@pytest.mark.parametrize("words", ["\ud800", "a\x1b[31mb", "line\nbreak", "\u202egpj"])
def test_what_is_not_printable_is_shown_by_its_escape(words: str) -> None:
    assert "\\" in text(words)
    text(words).encode()


@pytest.mark.parametrize("job_id", ["a/b", "x y", "\ud800", "<b>", "ns/pod-0"])
def test_a_job_has_a_page_whatever_its_name(job_id: str) -> None:
    assert re.fullmatch(r"/jobs/[\w%/.?-]+", job_path(job_id))


def test_a_bar_shows_what_is_used_and_what_the_clock_costs() -> None:
    drawn = bar(0.3, 0.4)
    assert re.findall(r'class="(\w+)" x="([\d.]+)" width="([\d.]+)"', drawn) == [
        ("used", "0.0", "30.0"),
        ("clock", "30.0", "10.0"),
    ]
    assert "used 30.0%, lost to the clock 10.0%, to inactivity 60.0%" in drawn


def test_a_clock_above_the_tensor_clock_costs_nothing() -> None:
    assert "lost to the clock 0.0%" in bar(0.45, 0.4)
    assert 'width="100.0"' in bar(1.2, 0.9)


def test_what_is_not_known_is_not_drawn() -> None:
    assert (bar(None), spark([None, None], ""), chart([], [], ""), histogram([0.0], "")) == (
        "",
    ) * 4


def test_a_gap_is_never_bridged() -> None:
    assert spark([0.5, 0.5, None, 0.5], "").count("<polyline") == 2
    assert chart([None, 0.1, None], [0.2], "").count("<polyline") == 2


def test_an_mfu_above_one_is_inside_the_chart() -> None:
    heights = [float(y) for y in re.findall(r"\d+,([-\d.]+)", chart([0.4], [3.0], ""))]
    assert all(0 <= y <= 200 for y in heights)


def test_a_cell_is_sorted_by_its_value() -> None:
    made = table("t", [Column("A"), Column("B", "num")], [("", [Cell("x"), Cell("5 %", 0.05)])])
    assert '<th scope="row">x</th><td class="num" data-value="0.05">5 %</td>' in made


def test_a_page_needs_nothing_from_elsewhere() -> None:
    page = document("Title", element("p", "said"))
    assert not re.search(r"(?:src|href)=.?(?:https?:)?//|@import|url\(", page)
    assert Found(page).tags.count("script") == 1
