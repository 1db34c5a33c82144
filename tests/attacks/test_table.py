"""The table says what was seen, and tests/attacks/results.md has all attacks."""

from __future__ import annotations

import math

from tests.attacks.__main__ import PAGE
from tests.attacks.catalogue import ATTACKS
from tests.attacks.measure import Seen
from tests.attacks.table import HEAD, cells, table
from tests.helpers.markdown import section_of

GOOD = Seen(60.4, 100, 0, 0.0214, 0.9987, 1200.0, 0, 0, 0.53, "")
BAD = Seen(955.0, 40, 3, math.inf, 0.5, 98e6, 7, 9, math.inf, "a report (2)")


def test_what_is_within_its_limit_is_plain() -> None:
    assert cells(GOOD) == ["21 ms", "0.999", "60", "1", "0", "0", "0.5", "-"]


def test_what_is_beyond_its_limit_is_bold() -> None:
    shown = ["3 of 40 failed", "0.500", "955", "98,000", "7", "9", "never", "a report (2)"]
    assert cells(BAD) == [f"**{each}**" for each in shown]


def test_scrapes_that_failed_are_told_beside_the_slow_ones() -> None:
    assert cells(GOOD._replace(failed_scrapes=1))[0] == "21 ms, 1 of 100 failed"


def test_coverage_that_nobody_knows_is_not_shown_as_a_number() -> None:
    assert cells(GOOD._replace(coverage=math.nan))[1] == "**?**"
    assert cells(GOOD._replace(coverage=None))[1] == "-"


def test_a_row_has_as_many_cells_as_the_head() -> None:
    name = next(iter(ATTACKS))
    lines = list(table(ATTACKS, {name: GOOD}))
    assert {line.count("|") for line in lines} == {len(HEAD) + 1}


def test_the_documentation_has_every_attack() -> None:
    """Written by `python -m tests.attacks --write`."""
    section = section_of(PAGE, "attacks")
    for attack in ATTACKS:
        assert f"\n| {attack} |" in section, attack
