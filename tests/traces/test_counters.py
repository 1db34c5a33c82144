"""The counters of a GPU and a trace of the same seconds agree, as far as both see the same.

The timeline is the maker's; the counters are added up from it window by window, as the hardware does: an engine is
active while a kernel runs (copy engines are no kernels), and the tensor pipe is active in a part of the cycles of a
tensor kernel. tests/hardware does the same on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from ofu_exporter.ofu.gpu_state import GpuState, take_reading
from ofu_exporter.traces import job
from ofu_exporter.values.losses import NO_LOSSES, Loss, LossSums
from ofu_exporter.values.reading import Activity
from ofu_exporter.values.snapshot import GpuView
from ofu_exporter.values.trace import TimeParts
from tests.helpers.values import H100_RATING, gpu, reading
from tests.traces import planted
from tests.traces import trace_maker as made
from tests.traces.trace_maker import Maker

TENSOR_KERNELS = (made.PRODUCT, made.FLASH, made.AMPERE)
CYCLES = 0.8
"""Of the cycles of a tensor kernel, those with a tensor instruction."""
WINDOW = 0.1
"""Seconds; the shortest that the hardware allows."""
Span = tuple[float, float]


def covered(spans: list[Span], window: Span) -> float:
    """Seconds of a window in which at least one of the spans is."""
    total, reached = 0.0, window[0]
    for start, end in sorted(spans):
        begin, stop = max(start, reached), min(end, window[1])
        if stop > begin:
            total, reached = total + stop - begin, stop
    return total


def spans(maker: Maker, wanted: Callable[[str], bool]) -> list[Span]:
    return [(start / 1e6, end / 1e6) for start, end, name in maker.ran if wanted(name)]


def counted(maker: Maker) -> tuple[LossSums, float, float]:
    """What an agent adds up of the maker's GPU, the tensor-active seconds, and all seconds."""
    kernels = spans(maker, lambda name: not name.startswith("Memcpy"))
    tensor = spans(maker, lambda name: name in TENSOR_KERNELS)
    begin, end = min(maker.ran)[0] / 1e6, max(each[1] for each in maker.ran) / 1e6
    state, sums, active, at = GpuState(GpuView(gpu(), H100_RATING)), NO_LOSSES, 0.0, begin
    length = (end - begin) / math.floor((end - begin) / WINDOW)
    while at < end - length / 2:
        window = (at, at + length)
        engine = covered(kernels, window) / length
        pipe = CYCLES * covered(tensor, window) / length
        activity = Activity(engine=engine, sm=max(0.95 * engine, pipe))
        taken = reading(*window, pipe, [1755e6] * 4, activity=activity)
        state, measured = take_reading(state, taken, WINDOW)
        assert measured is not None
        sums, active, at = sums.plus(measured.sums), active + pipe * length, window[1]
    return sums, active, end - begin


def traced(maker: Maker, folder: Path) -> TimeParts:
    (rank,) = job.read([maker.write(folder / "trace.json")])[0].ranks
    return rank.parts


@pytest.mark.slow
@pytest.mark.parametrize("name", planted.PLANTS)
def test_counters_and_a_trace_of_the_same_seconds_agree(name: str, tmp_path: Path) -> None:
    maker = planted.job(name, planted.PLANTS[name], 4000.0, seed=2, steps=20).maker
    parts = traced(maker, tmp_path)
    sums, tensor_active, seconds = counted(maker)
    assert sums.lost[Loss.IDLE] / seconds == pytest.approx(parts.idle + parts.copies, abs=0.01)
    assert tensor_active / seconds <= parts.tensor + 1e-6
    assert tensor_active / seconds == pytest.approx(CYCLES * parts.tensor, abs=0.01)
