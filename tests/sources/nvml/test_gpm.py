"""Windows of GPM samples: metrics that are absent, fail or come back, and a window that nobody ends."""

from __future__ import annotations

import pynvml
import pytest

from ofu_exporter.sources.nvml import gpm
from ofu_exporter.sources.nvml.gpm import CLOCK_LIMITS
from ofu_exporter.sources.nvml.inner_samples import ANY_TENSOR
from ofu_exporter.values.clock_limit import ClockLimit
from ofu_exporter.values.reasons import Reason
from tests.helpers.nvml_node import START, NvmlNode, failure


def test_a_window_that_nobody_ends_keeps_its_span_and_a_bounded_number_of_reads(
    bench: NvmlNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpm, "MOST_CLOCK_SAMPLES", 8)
    probe = bench.began()
    for _ in range(50):
        bench.now += 1.0
        probe.poll()
    clocks = bench.window(probe, 1.0).clocks
    assert len(clocks) <= 9
    assert (clocks[0].at, clocks[-1].at) == (START, START + 51.0)


def test_one_cycle_counter_alone_is_none(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, cycles="per_sm")
    bench.scenario.metric_error(0, gpm.CYCLES_ELAPSED, 999)
    assert bench.window(bench.began()).cycles is None


def test_a_metric_that_fails_is_absent_and_the_others_stay(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, tensor=0.5, hmma=0.5)
    bench.scenario.metric_error(0, gpm.PIPES["imma"], 999)
    probe = bench.began()
    reading = bench.window(probe)
    assert reading.pipes == pytest.approx({"dfma": 0.0, "hmma": 0.5, "dmma": 0.0})
    assert reading.tensor_active == pytest.approx(0.5)
    bench.scenario.metric_error(0, gpm.PIPES["imma"], 0)
    assert "imma" in bench.window(probe).pipes


def test_a_metric_the_driver_does_not_have_is_asked_for_again_after_a_reopen(
    bench: NvmlNode,
) -> None:
    imma = gpm.PIPES["imma"]
    bench.scenario.metric_error(0, imma, 3)
    probe = bench.began()
    assert "imma" not in bench.window(probe).pipes
    bench.scenario.metric_error(0, imma, 0)
    assert "imma" not in bench.window(probe).pipes
    probe.close()
    assert probe.read() == ()
    assert "imma" in bench.window(probe).pipes


def test_when_no_metric_answers_the_gpu_is_down_and_comes_back(bench: NvmlNode) -> None:
    probe = bench.began()
    for metric in gpm.METRICS:
        bench.scenario.metric_error(0, metric, 19)
    bench.advance(1.0)
    assert failure(probe.read).reason is Reason.COUNTER_BUSY
    bench.scenario.metric_error(0, ANY_TENSOR, 0)
    assert probe.read() == ()
    assert bench.window(probe).tensor_active == 0.0


def test_the_bits_are_those_of_the_binding() -> None:

    names = {
        ClockLimit.GPU_IDLE: "GpuIdle",
        ClockLimit.APPLICATIONS_CLOCKS: "ApplicationsClocksSetting",
        ClockLimit.SW_POWER_CAP: "SwPowerCap",
        ClockLimit.HW_SLOWDOWN: "HwSlowdown",
        ClockLimit.SYNC_BOOST: "SyncBoost",
        ClockLimit.SW_THERMAL: "SwThermalSlowdown",
        ClockLimit.HW_THERMAL: "HwThermalSlowdown",
        ClockLimit.HW_POWER_BRAKE: "HwPowerBrakeSlowdown",
        ClockLimit.DISPLAY_CLOCK: "DisplayClockSetting",
        ClockLimit.BOARD_LIMIT: "BoardLimit",
        ClockLimit.RELIABILITY: "Reliability",
    }
    # The binding has the last two under the older name only.
    of_binding = {
        getattr(pynvml, f"nvmlClocksThrottleReason{name}"): limit for limit, name in names.items()
    }
    assert of_binding == CLOCK_LIMITS


def test_a_counter_that_the_driver_lacks_is_absent(bench: NvmlNode) -> None:
    bench.scenario.metric_error(0, gpm.SM, 3)
    bench.scenario.error("nvmlDeviceGetTotalEnergyConsumption", 3, gpu=0)
    found = bench.window(bench.began()).activity
    assert (found.sm, found.energy_joules) == (None, None)
    assert found.engine == 0.0
