"""The page of measurements: each command's tables are replaced by what it prints, and nothing else is."""

from __future__ import annotations

import importlib.util
import re

from tests.bench.numbers_page import PAGE, measured, sections

TEXT = """# Benchmarks

Measured on a day,
on a machine.

## One

    python -m tests.bench.one --idle 20

Words before.

| a |
|---|
| 1 |

Words between.

| b |
|---|
| 2 |

Words after.

## Two

    python -m tests.bench.two

| c |
|---|
| 3 |
"""


def test_tables_are_replaced_and_words_around_them_stay() -> None:
    asked: list[tuple[str, ...]] = []

    def measure(command: tuple[str, ...]) -> str:
        asked.append(command)
        return f"| new |\n|---|\n| {command[0]} |"

    made = measured(TEXT, [], measure)
    assert sorted(asked) == [("tests.bench.one", "--idle", "20"), ("tests.bench.two",)]
    assert "Words before.\n\n| new |" in made
    assert "| tests.bench.one |\n\nWords after." in made
    assert "| 1 |" not in made
    assert "| 2 |" not in made
    assert "| 3 |" not in made


def test_only_what_is_named_is_measured() -> None:
    made = measured(TEXT, ["two"], lambda _: "| new |")
    assert "| 1 |" in made
    assert "| 3 |" not in made


def test_the_page_says_when_and_on_what() -> None:
    made = measured(TEXT, ["none"], lambda _: "")
    assert "a machine" not in made
    assert "Python 3." in made
    assert "Measured on 20" in made


def test_every_table_of_the_page_has_a_command_that_is_there() -> None:
    lines = PAGE.read_text().splitlines()
    found = [*sections(lines)]
    assert found
    for section in found:
        assert importlib.util.find_spec(section.command[0]), section.command
    covered = {row for section in found for row in range(section.first, section.end)}
    assert {row for row, line in enumerate(lines) if line.startswith("|")} <= covered


def test_no_measured_number_stands_in_the_words() -> None:
    """It would stay as it is when the tables are made anew."""
    words = [line for line in PAGE.read_text().splitlines() if not line.startswith(("|", "    "))]
    assert [line for line in words if re.search(r"\d (MiB|µs)", line)] == []
