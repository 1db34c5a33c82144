"""Truth inside two stated errors, and shown windows of the right length, at every interval beside every client."""

from __future__ import annotations

import pytest

from tests.simulator.goals import INSIDE
from tests.simulator.grid import INTERVALS, Cell, columns, measured
from tests.simulator.loads import BY_NAME

LOADS = [BY_NAME[name] for name in ("training", "hard steps", "deep bursts", "square, 1 s")]
LEAST_SHOWN = 0.9


def cells(interval: float) -> dict[tuple[str, str], Cell]:
    return {
        (name, load): cell
        for name, kind in columns(interval)
        for load, cell in measured(kind, LOADS).items()
    }


@pytest.mark.parametrize("interval", [each for each in INTERVALS if each >= 1])
def test_windows_hold_the_truth_and_are_as_long_as_asked_for(interval: float) -> None:
    found = cells(interval)
    assert {row: cell.inside for row, cell in found.items() if cell.inside < INSIDE} == {}
    assert {row: cell.shown for row, cell in found.items() if cell.shown < LEAST_SHOWN} == {}


def test_cycle_counters_are_used_under_bursts_of_the_clock() -> None:
    """From the fifth window on, whoever reads: between 345 and 1755 MHz one window's clock is hardly known."""
    for name, kind in columns(5.0):
        if "cycles" in name:
            (cell,) = measured(kind, [BY_NAME["deep bursts"]]).values()
            assert cell.by_cycles > 0.9, name
