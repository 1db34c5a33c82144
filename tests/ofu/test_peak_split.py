"""Where the peak of a window went: the parts add up, merges lose nothing, and what cannot be is refused."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.ofu.gpu_state import GpuState, take_reading
from ofu_exporter.ofu.peak_split import ROUNDING, believable, losses, split
from ofu_exporter.values.losses import NO_LOSSES, Loss, LossSums
from ofu_exporter.values.reading import MAX_RATIO, Activity, Window
from ofu_exporter.values.reasons import Rejection
from ofu_exporter.values.snapshot import GpuView
from tests.helpers.values import H100_RATING, gpu, reading

TRACE = Path(__file__).parents[3] / "shared/samples/traces/vllm-qwen3-4b-1hz.csv"
TRACE_TENSOR_HZ = 2617e6
"""The tensor clock of the model that the trace fits."""

shares = st.floats(0.0, MAX_RATIO)
activities = st.builds(
    Activity,
    engine=st.none() | shares,
    sm=st.none() | shares,
    energy_joules=st.none() | st.floats(0, 1e4),
)
windows = st.builds(
    lambda seconds, tensor, ratio, activity, share: split(
        Window(0.0, seconds, tensor, {}, 1400e6, tensor * ratio, share=share, activity=activity),
        None,
    )[0],
    st.floats(0.1, 60.0),
    shares,
    st.floats(0.1, 1.2),
    activities,
    st.sampled_from([1.0, 3 / 7, 1 / 7]),
)


@given(windows)
def test_the_parts_of_every_window_add_up_to_one(window: Window) -> None:
    assert math.fsum([window.utilization or 0.0, *window.losses.values()]) == pytest.approx(
        1.0, abs=1e-12
    )
    assert all(lost >= 0.0 for loss, lost in window.losses.items() if loss is not Loss.CLOCK)


def test_a_clock_above_the_tensor_clock_is_a_gain_and_no_counter_falls() -> None:
    """At 1980 MHz a tensor activity of 0.5 is an OFU of 0.541."""
    state = GpuState(GpuView(gpu(), H100_RATING))
    state, window = take_reading(state, reading(tensor=0.5, hz=[1980e6] * 10), 5.0)
    assert window is not None
    assert window.losses[Loss.CLOCK] == pytest.approx(0.5 - 0.5 * 1980 / 1830)
    assert state.view.sums.lost[Loss.CLOCK] == 0.0
    assert state.view.sums.gained == pytest.approx(5.0 * (0.5 * 1980 / 1830 - 0.5))
    total = (
        state.view.utilization_seconds
        + math.fsum(state.view.sums.lost.values())
        - state.view.sums.gained
    )
    assert total == state.view.observed_seconds


@pytest.mark.parametrize(
    ("activity", "tensor", "kept", "refused"),
    [
        (Activity(0.9, 0.7), 0.5, Activity(0.9, 0.7), []),
        (Activity(0.9, 0.5 - ROUNDING / 2), 0.5, Activity(0.9, 0.5 - ROUNDING / 2), []),
        (Activity(0.9, 0.4), 0.5, Activity(0.9), [Rejection.SM_BELOW_TENSOR]),
        (Activity(0.4, 0.7), 0.5, Activity(sm=0.7), [Rejection.ENGINE_BELOW_SM]),
        (Activity(0.6, 0.7), 0.5, Activity(), [Rejection.ENGINE_BELOW_SM]),
        (Activity(0.4), 0.5, Activity(), [Rejection.ENGINE_BELOW_SM]),
        (Activity(1.5, 0.7), 0.5, Activity(sm=0.7), [Rejection.ACTIVITY_OUT_OF_RANGE]),
        (Activity(dram=-0.1), 0.5, Activity(), [Rejection.ACTIVITY_OUT_OF_RANGE]),
        (Activity(dram=math.nan), 0.5, Activity(), [Rejection.NOT_A_NUMBER]),
        (Activity(nvlink_sent=-1.0), 0.5, Activity(), [Rejection.ACTIVITY_OUT_OF_RANGE]),
        (Activity(energy_joules=-4.0), 0.5, Activity(), [Rejection.ACTIVITY_OUT_OF_RANGE]),
        (Activity(energy_joules=3e5), 0.5, Activity(energy_joules=3e5), []),
        (Activity(energy_joules=3.01e5), 0.5, Activity(), [Rejection.ACTIVITY_OUT_OF_RANGE]),
        (Activity(pcie_sent=1e14), 0.5, Activity(pcie_sent=1e14), []),
        (Activity(pcie_sent=1.01e14), 0.5, Activity(), [Rejection.ACTIVITY_OUT_OF_RANGE]),
    ],
)
def test_what_cannot_be_is_refused_and_the_rest_is_kept(
    activity: Activity, tensor: float, kept: Activity, refused: list[Rejection]
) -> None:
    assert believable(activity, tensor) == (kept, refused)


def test_a_refused_sum_is_counted_and_costs_the_split_but_not_the_ofu() -> None:
    impossible = reading(tensor=0.5, activity=Activity(engine=0.9, sm=0.2))
    state, window = take_reading(GpuState(GpuView(gpu(), H100_RATING)), impossible, 5.0)
    assert window is not None
    assert window.utilization == pytest.approx(0.5 * 1400 / 1830)
    assert list(window.losses) == [Loss.CLOCK, Loss.ENGINE_WITHOUT_TENSOR, Loss.IDLE]
    assert state.view.rejected == {"sm_below_tensor": 1}


def test_counters_that_cross_by_their_rounding_leave_nothing_between_them() -> None:
    lost = losses(0.5, 0.5, Activity(engine=0.495, sm=0.5 - ROUNDING / 2))
    assert lost == {Loss.CLOCK: 0.0, Loss.NO_TENSOR: 0.0, Loss.EMPTY_SMS: 0.0, Loss.IDLE: 0.5}


def test_energy_of_a_window_without_a_kernel_is_idle_energy() -> None:
    def sums(engine: float | None) -> LossSums:
        taken = reading(tensor=0.0, activity=Activity(engine=engine, sm=0.0, energy_joules=400.0))
        window = take_reading(GpuState(GpuView(gpu(), H100_RATING)), taken, 5.0)[1]
        assert window is not None
        return window.sums

    assert (sums(0.0).energy_joules, sums(0.0).idle_energy_joules) == (400.0, 400.0)
    # The counters are rounded to a percent, so half of one is none.
    assert (sums(0.005).energy_joules, sums(0.005).idle_energy_joules) == (400.0, 400.0)
    assert sums(0.01).idle_energy_joules == 0.0
    assert (sums(0.5).energy_joules, sums(0.5).idle_energy_joules) == (400.0, 0.0)
    assert (sums(None).energy_joules, sums(None).idle_energy_joules) == (400.0, None)


@pytest.mark.skipif(not TRACE.exists(), reason="the trace is not part of the project")
def test_a_real_trace_splits_as_its_columns_say() -> None:
    """A GPU that serves Qwen3-4B with vLLM for 302 s, in whole percents (rezolus, vllm.parquet)."""
    sums, seconds, dram = NO_LOSSES, 0.0, 0.0
    used = 0.0
    with TRACE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        tensor, sm, engine, memory = (
            float(row[f"gpu_{name}{{id=0}}"]) / 100
            for name in (
                "tensor_utilization",
                "sm_utilization",
                "utilization",
                "dram_bandwidth_utilization",
            )
        )
        hz = float(row["gpu_clock{clock=compute,id=0}"])
        activity = Activity(engine=engine, sm=sm, dram=memory)
        ofu = tensor * hz / TRACE_TENSOR_HZ
        read = Window(0.0, 1.0, tensor, {}, hz, ofu, activity=activity)
        window, _ = split(read, None, 1792e9)
        sums, used = sums.plus(window.sums), used + window.used_seconds
        seconds, dram = seconds + 1.0, dram + memory
    shares = {loss: lost / seconds for loss, lost in sums.lost.items()}
    shares[Loss.CLOCK] -= sums.gained / seconds
    assert used / seconds == pytest.approx(0.324, abs=0.001)
    assert shares[Loss.CLOCK] == pytest.approx(-0.025, abs=0.001)
    assert shares[Loss.NO_TENSOR] == pytest.approx(0.523, abs=0.001)
    # In one second the engine's column, which is no profiling counter, says 0 while the SMs work: it is not believed.
    assert shares[Loss.EMPTY_OR_IDLE] * seconds == pytest.approx(0.84)
    assert shares[Loss.EMPTY_SMS] == pytest.approx(0.162, abs=0.002)
    assert shares[Loss.IDLE] == pytest.approx(0.016, abs=0.004)
    assert sums.memory == pytest.approx((dram, seconds, dram * 1792e9))
    assert dram / seconds == pytest.approx(0.48, abs=0.005)
