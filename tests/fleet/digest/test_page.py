"""A digest as HTML is what programs that read mail can show: no script, nothing fetched, light and dark."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ofu_exporter.fleet.digest.page import page
from tests.helpers.browser import BROWSER, seen, violations, with_script
from tests.helpers.digests import HOSTILE, digest, many
from tests.helpers.every import every
from tests.helpers.screenshots import LOOKS

PHONE = 360
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="needs Chromium, which tests/run installs"
)
SIMULATED = digest(mark="SIMULATED, no GPU was measured. ")


class Elements(HTMLParser):
    """The elements of a page, and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@every(["ada", HOSTILE, "\"><img src=x onerror='x'>", "</style><script>"])
def test_nothing_runs_and_nothing_is_fetched_whatever_names_say(name: str) -> None:
    text = page(digest(name), 20)
    elements = Elements(text).found
    assert {tag for tag, _ in elements} <= {
        *("html", "head", "meta", "title", "style", "body", "div", "h1", "h2", "p", "b", "code"),
        *("ul", "li", "table", "thead", "tbody", "tr", "th", "td"),
    }
    names = {name for _, attributes in elements for name in attributes}
    assert not {each for each in names if each.startswith("on") or each in ("src", "href")}
    assert "url(" not in text
    assert len(elements) == len(Elements(page(digest(), 20)).found)


def test_every_element_has_its_style_so_that_it_is_readable_without_the_sheet() -> None:
    text = re.sub("<style>.*?</style>", "", page(digest(), 20))
    assert "background:#ffffff" in text
    assert all("style" in given for tag, given in Elements(text).found if tag in ("td", "th", "li"))


def test_simulated_values_are_marked_in_title_and_body() -> None:
    assert "<title>[SIMULATED] " in page(SIMULATED, 20)
    assert "SIMULATED, no GPU was measured." in page(SIMULATED, 20).partition("<body")[2]
    assert "SIMULATED" not in page(digest(), 20)


def test_a_thousand_jobs_are_no_large_mail() -> None:
    made = digest()
    whole = made.model_copy(update={"jobs": made.jobs * 500})
    assert len(page(whole, 20)) < 30_000
    assert "and 980 more" in page(whole, 20)


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing(look: str, tmp_path: Path) -> None:
    assert violations(page(SIMULATED, 20), tmp_path, look) == []


@needs_browser
@pytest.mark.slow
def test_it_fits_the_width_of_a_phone(tmp_path: Path) -> None:
    (made,) = many("ada-with-a-name-that-is-longer-than-most-names-are-anywhere-at-all")
    inner = tmp_path / "inner.html"
    measure = "parent.postMessage(String(document.documentElement.scrollWidth), '*')"
    inner.write_text(with_script(page(made, 20), measure))
    outer = tmp_path / "outer.html"
    outer.write_text(
        "<script>onmessage = told => document.title = told.data</script>"
        f'<iframe width="{PHONE}" height="900" src="{inner.as_uri()}"></iframe>'
    )
    width = re.findall("<title>(.*?)</title>", seen(outer, tmp_path / "profile"))[0]
    assert 0 < int(width) <= PHONE
