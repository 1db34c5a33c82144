"""A source whose driver names the clock of tensor work too high, as an H200 did by 12 %, does not mislead the agent."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from ofu_exporter.values.reading import READ_CLOCK_EXCESS
from tests.simulator.goals import INSIDE, MILD
from tests.simulator.loads import BY_NAME as LOADS
from tests.simulator.run import ran
from tests.simulator.score import score
from tests.simulator.sources import BY_NAME, Dcgm, Kind, Nvml

pytestmark = pytest.mark.slow

EXCESS = 0.121
LOAD = LOADS["training"]


def named_too_high(name: str) -> Kind:
    kind = BY_NAME[name]
    assert isinstance(kind, Nvml | Dcgm)
    return replace(kind, clock_excess=EXCESS)


@pytest.mark.parametrize("name", ["nvml", "dcgm"])
def test_the_truth_lies_within_what_is_stated_of_a_read_clock(name: str) -> None:
    windows = ran(named_too_high(name), [LOAD]).windows[LOAD.name]
    inside = []
    for each in windows:
        truth = LOAD.curve.utilization(each.start, each.end)
        assert each.stderr is not None
        lowest = each.utilization / (1 + READ_CLOCK_EXCESS) - 2 * each.stderr
        inside.append(lowest <= truth <= each.utilization + 2 * each.stderr)
    assert fmean(inside) >= INSIDE


@pytest.mark.parametrize("name", ["nvml, cycles", "dcgm, cycles"])
def test_cycle_counters_are_believed_and_right_beside_such_a_clock(name: str) -> None:
    kind = named_too_high(name)
    found = ran(kind, [LOAD])
    windows = found.windows[LOAD.name]
    begun = next(n for n, each in enumerate(windows) if each.method == "cycles")
    assert begun < 20
    assert all(each.method == "cycles" for each in windows[begun:])
    counted = score(LOAD.curve, windows[begun:], found.asked)
    assert counted is not None
    assert abs(counted.bias) <= MILD
