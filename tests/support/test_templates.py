"""A page's texts of others stay text, whatever they are; a value that a template is not given is an error."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from ofu_exporter.support.drawing import Drawing, Shape, words
from ofu_exporter.support.templates import FOLDER, asset, render
from tests.helpers.every import every
from tests.helpers.page_parts import picture

TEMPLATES = sorted(FOLDER.glob("*.html"))
PICTURE = Drawing(10, 10, "a picture", "bars", [])


class Parsed(HTMLParser):
    """The tags and the text of a page, and the values of attributes."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.values: list[str | None] = []
        self.words = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += [value for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words += data


@given(st.text(st.characters(), max_size=40))
def test_no_text_is_markup_and_every_text_can_be_sent(text: str) -> None:
    shapes = [words(text, 0, 0, "start"), Shape("rect", {"class": text}, text)]
    made = picture(PICTURE._replace(label=text, shapes=shapes))
    made.encode()
    found = Parsed(made)
    assert [tag for tag in found.tags if tag != "title"] == ["svg", "text", "rect"]
    assert all(each.isprintable() for each in found.words.replace("\n", ""))
    assert all(value is None or value.isprintable() for value in found.values)


@pytest.mark.parametrize("text", ["\ud800", "a\x1b[31mb", "line\nbreak", "\u202egpj"])
def test_what_is_not_printable_is_shown_by_its_escape(text: str) -> None:
    shown = picture(PICTURE._replace(label=text))
    assert text not in shown
    assert re.search(r'aria-label="[^"]*\\', shown)


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'paths' is undefined"):
        render("api.html", report={"properties": {}})


@every(TEMPLATES)
def test_no_template_trusts_a_text_or_leaves_an_attribute_open(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\|\s*safe|autoescape|Markup", text)
    fixed = re.sub(r"\{[{%#].*?[}%#]\}", "", text, flags=re.DOTALL)
    bare = re.search(r"=\{\{", text) or re.search(
        r"<[a-z][^<>]*=[^\"'<>\s]", re.sub(r'"[^"]*"', '""', fixed)
    )
    assert not bare, "an attribute without quotes"


def test_a_page_needs_nothing_from_elsewhere() -> None:
    for path in FOLDER.iterdir():
        if path.suffix in (".html", ".css", ".js"):
            assert not re.search(r"(?:src|href)=.?(?:https?:)?//|@import|url\(", path.read_text())


def test_style_and_script_stand_in_the_page_as_they_are_signed() -> None:
    page = render("api.html", paths={}, report={"properties": {}})
    assert f"<style>{asset('shared.css', 'agent.css')}</style>" in page
    assert f"<script>{asset('sort.js', 'refresh.js')}</script>" in page
    assert "</" not in asset("shared.css", "agent.css", "fleet.css", "sort.js", "zoom.js")


@every(TEMPLATES, lambda template: template.name)
def test_every_section_of_a_page_is_on_a_golden_page_or_in_a_test(template: Path) -> None:
    tests = Path(__file__).parents[1]
    pages = [*tests.glob("golden/*.html"), *tests.rglob("test_*.py")]
    seen = "".join(path.read_text() for path in pages)
    for heading in re.findall(r"<h2[^>]*>(.*?)</h2>", template.read_text(), re.DOTALL):
        literal = filter(None, map(str.strip, re.split(r"\{[{%].*?[%}]\}", heading)))
        assert [words for words in literal if words not in seen] == [], "no test shows it"
