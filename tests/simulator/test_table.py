"""The tables say what was scored, and tests/measured/accuracy.md has them all."""

from __future__ import annotations

from tests.helpers.markdown import section_of
from tests.simulator.__main__ import PAGE
from tests.simulator.loads import LOADS
from tests.simulator.score import Score
from tests.simulator.sources import KINDS
from tests.simulator.table import tables

SCORE = Score(0.4253, 0.0061, 0.02, 0.013, 0.824, 0.25, 0.9981, 4.96, 120)


def test_a_score_in_cells() -> None:
    text = list(tables({"nvml": {"steps": SCORE}}, {"nvml": {"agent restarted": SCORE}}))
    assert "| steps | 42.53 | +0.61 |" in text
    assert "| steps | 2.00 ± 1.30, 82% of 75% |" in text
    assert "| O / span | 0.998 |" in text
    assert "| counted twice, s | 5.0 |" in text
    assert "| agent restarted | +0.61, 0.998, 5.0 s |" in text


def test_what_is_not_known_is_not_shown_as_a_number() -> None:
    silent = Score(0.4, 0.0, 0.02, None, None, 1.0, 1.0, 0.0, 120)
    text = list(tables({"nvml": {"steps": None}, "dcgm": {"steps": silent}}, {}))
    assert "| steps | 40.00 | nothing | 0.00 |" in text
    assert "| steps | nothing | 2.00, ? |" in text


def test_pages_have_tables_of_their_own() -> None:
    text = list(tables({"nvml": {"steps": SCORE}, "page 1 s / 5 s": {"steps": SCORE}}, {}))
    assert "|  | truth, % | nvml |" in text
    assert "|  | truth, % | page 1 s / 5 s |" in text


def test_the_documentation_has_every_source_and_every_load() -> None:
    """Written by `python -m tests.simulator --write`, and `python -m tests.bench.accuracy --write`."""
    text, section = PAGE.read_text(), section_of(PAGE, "simulator")
    for kind in KINDS:
        assert f"| {kind.name} |" in section
    for row in [*(load.name for load in LOADS), *(m for kind in KINDS for m in kind.mishaps)]:
        assert f"\n| {row} |" in text
