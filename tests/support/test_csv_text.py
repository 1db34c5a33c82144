"""Rows as CSV."""

from __future__ import annotations

from ofu_exporter.support.csv_text import csv_text


def test_no_rows_still_have_their_columns() -> None:
    assert csv_text([], ["name", "ratio"]) == "name,ratio\n"
