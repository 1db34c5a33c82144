"""Texts of others are text on a page, whatever they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.reports.html import Markup, document, joined, plain, tag


@given(st.text())
def test_no_text_becomes_markup(text: str) -> None:
    shown = tag("p", text, title=text)
    assert shown.count("<") == 2
    assert shown.count(">") == 2
    assert shown.count('"') == 2
    assert "\n" not in plain(text)


def test_markup_stays_and_absent_attributes_are_left_out() -> None:
    assert tag("p", Markup("<b>1</b>"), 2, _class=None, aria_label="x") == (
        '<p aria-label="x"><b>1</b>2</p>'
    )
    assert joined(["<", Markup("<br>")]) == "&lt;<br>"


def test_a_document_may_ask_nobody_for_anything() -> None:
    found = document("a<b", "", "", Markup("<p>x</p>"))
    assert "default-src 'none'" in found
    assert "<title>a&lt;b</title>" in found
