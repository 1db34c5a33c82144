"""The page of measurements: each command's tables are replaced by what it prints, and nothing else is."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import tests.bench
from tests.bench.numbers_page import PAGE, measured, measured_on, sections

TEXT = """# Benchmarks

## One

    python -m tests.bench.one --idle 20
    # a day: a machine

Words before.

| a |
|---|
| 1 |

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
    assert "Words before.\n\n| new |\n|---|\n| tests.bench.one |" in made
    assert "| tests.bench.one |\n\nWords after." in made
    assert "| 1 |" not in made
    assert "| 2 |" not in made
    assert "| 3 |" not in made


def test_only_what_is_named_is_measured() -> None:
    made = measured(TEXT, ["two"], lambda _: "| new |")
    assert "| 1 |" in made
    assert "| 3 |" not in made


def test_a_command_says_when_and_on_what_and_others_keep_what_they_say() -> None:
    both = measured(TEXT, ["two"], lambda _: "| new |", lambda: "today")
    assert "--idle 20\n    # a day: a machine\n\nWords before." in both
    assert "python -m tests.bench.two\n    # today\n" in both
    anew = measured(both, ["one", "two"], lambda _: "| new |", lambda: "later")
    assert re.findall(r"^    # .*", anew, re.MULTILINE) == ["    # later"] * 2


def test_when_and_on_what() -> None:
    assert re.fullmatch(
        r"20\d\d-\d\d-\d\d, load [\d.]+: \d+ cores of .*, Python 3\..*", measured_on()
    )


def test_every_table_of_the_page_has_a_command_that_is_there() -> None:
    lines = PAGE.read_text().splitlines()
    found = [*sections(lines)]
    assert found
    for section in found:
        assert importlib.util.find_spec(section.command[0]), section.command
    covered = {row for section in found for row in range(section.first, section.end)}
    assert {row for row, line in enumerate(lines) if line.startswith("|")} <= covered


def test_nothing_else_stands_among_the_tables_that_are_replaced() -> None:
    lines = PAGE.read_text().splitlines()
    for section in sections(lines):
        among = lines[section.first : section.end]
        assert [line for line in among if line and not line.startswith("|")] == [], section.name
        assert lines[section.place + 1].startswith("    # 20"), section.name


def test_a_command_prints_the_columns_that_the_page_has() -> None:
    lines = PAGE.read_text().splitlines()
    for section in sections(lines):
        source = Path(tests.bench.__path__[0], f"{section.name}.py").read_text()
        for row in range(section.first, section.end - 1):
            if lines[row + 1].startswith("|--"):
                cells = {cell.strip().rstrip("0123456789") for cell in lines[row].split("|")}
                assert [cell for cell in cells if cell not in source] == [], section.name


def test_a_table_of_no_name_is_refused() -> None:
    command = (sys.executable, "-m", "tests.bench", "nothing")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no tables of nothing; there are scrape, memory," in done.stderr


def test_no_measured_number_stands_in_the_words() -> None:
    """It would stay as it is when the tables are made anew."""
    words = [line for line in PAGE.read_text().splitlines() if not line.startswith(("|", "    "))]
    assert [line for line in words if re.search(r"\d (MiB|µs)", line)] == []
