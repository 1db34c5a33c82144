"""Truth inside two stated errors, and shown windows of the right length, at intervals of all kinds beside every client.

Five intervals with every source, and every client with every source. `python -m tests.bench.accuracy` has every
interval, and all three with each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count

import pytest

from tests.simulator.goals import INSIDE
from tests.simulator.grid import CLIENTS, Cell, columns, measured
from tests.simulator.loads import BY_NAME
from tests.simulator.mishaps import BEGIN, END
from tests.simulator.sources import Dcgm, Nvml

LOADS = [BY_NAME[name] for name in ("training", "hard steps", "deep bursts", "square, 1 s")]
LEAST_SHOWN = 0.9
WINDOWS = 120
"""As many as a share of them needs, within ten minutes."""
FEW_WINDOWS = 40
"""Where a run has no more, a load's other variants are run too, so that no share hangs on the luck of one."""
INTERVALS_TRIED = [1.0, 2.5, 5.0, 7.3, 30.0]

pytestmark = pytest.mark.slow


def sources(interval: float) -> Iterator[tuple[str, Nvml | Dcgm]]:
    """With and without cycle counters, alone and beside one client in turn."""
    turns = count(INTERVALS_TRIED.index(interval))
    for name, kind in columns(interval):
        beside = isinstance(kind, Dcgm) and kind.watched
        if not beside or next(turns) % (len(CLIENTS) - 1) == 0:
            yield name, kind


@cache
def cells(interval: float) -> dict[tuple[str, str], Cell]:
    """By source and load."""
    end = min(BEGIN + WINDOWS * interval, END)
    is_varied = end - BEGIN < FEW_WINDOWS * interval
    return {
        (name, load): cell
        for name, kind in sources(interval)
        for load, cell in measured(kind, LOADS, end, is_varied).items()
    }


@pytest.mark.parametrize("interval", INTERVALS_TRIED)
def test_windows_hold_the_truth_and_are_as_long_as_asked_for(interval: float) -> None:
    found = cells(interval)
    assert {row: cell.inside for row, cell in found.items() if cell.inside < INSIDE} == {}
    assert {row: cell.shown for row, cell in found.items() if cell.shown < LEAST_SHOWN} == {}


def test_every_client_is_beside_every_source() -> None:
    beside = {name for each in INTERVALS_TRIED for name, _ in sources(each)}
    assert beside == {name for each in INTERVALS_TRIED for name, _ in columns(each)}


def test_cycle_counters_are_used_under_bursts_of_the_clock() -> None:
    """From the fifth window on, whoever reads: between 345 and 1755 MHz one window's clock is hardly known."""
    load = BY_NAME["deep bursts"]
    for name, kind in columns(5.0):
        if "cycles" in name:
            cell = cells(5.0).get((name, load.name)) or measured(kind, [load])[load.name]
            assert cell.by_cycles > 0.9, name
