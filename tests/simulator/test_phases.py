"""The parts of the peak beside what a GPU truly did, while kernels of all kinds overlap at random."""

from __future__ import annotations

import functools
import math
import statistics
import tempfile
from pathlib import Path

import pytest

from ofu_exporter.values.losses import Loss
from ofu_exporter.values.reading import Window
from ofu_exporter.values.snapshot import GpuView, Snapshot
from tests.simulator import agent
from tests.simulator.driver_servers import CALL_SECONDS, START, renewed, renewed_of_nvml
from tests.simulator.phases import ALL_REDUCE, COPY, ELEMENTS, GEMM, PAUSED, SMALL_GEMM, Phases
from tests.simulator.sources import Dcgm, Kind, Nvml

MIX = {GEMM: 6.0, SMALL_GEMM: 2.0, COPY: 1.0, ELEMENTS: 2.0, ALL_REDUCE: 2.0, PAUSED: 1.5}
SECONDS = 200.0
POINT = 0.01
KINDS: tuple[Kind, ...] = tuple(
    kind
    for interval in (5.0, 30.0)
    for kind in (
        Nvml("nvml", cycles=False, interval=interval),
        Nvml("nvml, cycles", cycles=True, interval=interval),
        Dcgm("dcgm", "4.5", interval=interval),
        Dcgm("dcgm, cycles", "4.6", interval=interval),
    )
)
each_kind = pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: f"{kind.name}, {kind.interval:g} s"
)


@functools.cache
def phases(clock: str) -> Phases:
    return Phases(MIX, clock, SECONDS, f"parts, {clock}")


_RAN: dict[tuple[str, float, str], tuple[list[Window], GpuView]] = {}


def ran(kind: Kind, clock: str) -> tuple[list[Window], GpuView]:
    """One run for all tests."""
    key = (kind.name, kind.interval, clock)
    if key not in _RAN:
        _RAN[key] = _ran(kind, clock)
    return _RAN[key]


def _ran(kind: Kind, clock: str) -> tuple[list[Window], GpuView]:
    """The windows of a run that are of full length, and the GPU at its end."""
    windows: dict[float, Window] = {}
    last: list[Snapshot] = []

    def publish(snapshot: Snapshot) -> None:
        last[:] = [snapshot]
        for view in snapshot.gpus:
            if view.window is not None and view.window.seconds > 0.9 * kind.interval:
                windows[view.window.end] = view.window

    with tempfile.TemporaryDirectory() as folder:
        running = kind.start(Path(folder), [phases(clock).curve], "")
        try:
            agent.seed(1)
            running.world.wait(5.0)
            living = agent.Agent(running.source(), running.world, kind.interval, publish=publish)
            living.live(SECONDS - 10.0)
        finally:
            running.close()
    return list(windows.values()), last[0].gpus[0]


def counted(kind: Kind, window: Window) -> tuple[float, float]:
    """The seconds that the counters of a window are of."""
    if isinstance(kind, Nvml):
        middle = START + CALL_SECONDS / 2
        return renewed_of_nvml(window.start - middle), renewed_of_nvml(window.end - middle)
    return renewed(window.start - START), renewed(window.end - START)


@each_kind
def test_under_a_mild_load_every_part_of_every_window_is_within_a_point(kind: Kind) -> None:
    windows, view = ran(kind, "mild")
    assert windows
    for window in windows:
        start, end = counted(kind, window)
        truth = phases("mild").truth(start, end)
        shares = {loss: getattr(truth, loss.value) / (end - start) for loss in window.losses}
        unequal = abs(end - start - window.seconds) / window.seconds if "cycles" in kind.name else 0
        assert window.losses == pytest.approx(shares, abs=POINT + unequal)
        assert window.utilization == pytest.approx(truth.used / (end - start), abs=POINT + unequal)
    assert view.rejected == {}


@each_kind
def test_under_a_harsh_load_the_parts_are_those_of_the_hardwares_definitions(kind: Kind) -> None:
    """The clock moves by a third within milliseconds and in step with the work, far faster than it can be polled."""
    windows, view = ran(kind, "harsh")
    errors: dict[Loss, list[float]] = {}
    for window in windows:
        shares = phases("harsh").counted(*counted(kind, window))
        for loss, share in window.losses.items():
            errors.setdefault(loss, []).append(share - shares[loss.value])
    for loss in (Loss.NO_TENSOR, Loss.EMPTY_SMS, Loss.IDLE):
        # Each sample of a host engine weighs as its own time, and its counters are of up to 0.1 s more or less.
        most = 1.3 * POINT if isinstance(kind, Dcgm) else 0.1 * POINT
        assert max(map(abs, errors[loss])) <= most
    assert all(abs(statistics.fmean(each)) <= POINT for each in errors.values())
    assert view.rejected == {}


@each_kind
@pytest.mark.parametrize("clock", ["mild", "harsh"])
def test_sums_add_up_and_every_joule_is_counted_once(kind: Kind, clock: str) -> None:
    _, view = ran(kind, clock)
    sums = view.sums
    total = view.utilization_seconds + math.fsum(sums.lost.values()) - sums.gained
    assert total == view.observed_seconds
    assert view.sampled_at is not None
    end = view.sampled_at - START
    joules = phases(clock).truth(end - view.observed_seconds, end).joules
    assert sums.energy_joules == pytest.approx(joules, rel=0.01)
