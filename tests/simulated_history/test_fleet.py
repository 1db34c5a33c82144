"""What a specification says of history is checked, as the rest of it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from tests.helpers.fleets import BEGIN, NODES, with_history


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("history: {raw: [{nodes: [n9]}]}", "no node n9"),
        ("history: {raw: [{nodes: [n1], at: 1d}]}", "after the end"),
        ("history: {segment: 7h}", "is not a part of a day"),
        ("history: {levels: [rack]}", "history.levels"),
        ("scrape_interval: 7", "7 s is not a part of a minute"),
        ("start: 2025-08-27T00:00:30Z", "is not a whole minute"),
    ],
)
def test_an_error_is_one_line_that_names_the_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        with_history(f"{NODES}{text}\n", tmp_path)
    assert "fleet.yaml, line 3" in str(raised.value)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "text", ["2025-08-27T00:00", "2025-08-27T00:00Z", "2025-08-27T02:00+02:00"]
)
def test_a_start_without_a_zone_is_in_utc(text: str, tmp_path: Path) -> None:
    start = with_history(f"{NODES}start: {text}\n", tmp_path).spec.start
    assert start is not None
    assert start.timestamp() == BEGIN


def test_raw_pages_are_of_the_nodes_and_minutes_that_are_named(tmp_path: Path) -> None:
    text = "history: {raw: [{nodes: [n1..2], at: 1h}, {nodes: [n2], at: 5h, lasts: 90m}]}\n"
    made = with_history(NODES + text, tmp_path)
    assert made.raw == ((0, 60, 120), (1, 60, 120), (1, 300, 390))
