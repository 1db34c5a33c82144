"""What the nvml source promises, shown on a stand-in for the driver's library."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pynvml
import pytest

from ofu_exporter import sources
from ofu_exporter.errors import SourceError
from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.ofu.gpu_state import GpuState, take_reading
from ofu_exporter.sources.nvml import driver, gpm
from ofu_exporter.sources.nvml.driver import GpuProbe
from ofu_exporter.sources.nvml.inner_samples import ANY_TENSOR
from ofu_exporter.values.clock_limit import ClockLimit
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import ClockSample, CycleTotals, Evidence, Fault, Reading
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import GpuView
from tests.doubles import nvml as double
from tests.helpers.agent import until
from tests.helpers.nvml_node import START, NvmlNode, failure

REBOOT_CYCLES = 1e12
"""The stand-in's cycle counters begin here, as those of a node that has been up for a while."""


# --- windows ---------------------------------------------------------------------------------------


def test_the_first_read_only_begins_a_window(bench: NvmlNode) -> None:
    (probe,) = bench.open()
    assert probe.read() == ()
    assert bench.window(probe).start == START


def test_the_ratio_is_the_mean_over_the_window_however_activity_changed_in_it(
    bench: NvmlNode,
) -> None:
    bench.scenario.gpu(0, tensor=0.2, hmma=0.1)
    probe = bench.began()
    bench.advance(4.0)
    bench.scenario.gpu(0, tensor=0.7, hmma=0.6)
    reading = bench.window(probe, 6.0)
    assert reading.tensor_active == pytest.approx(0.5)
    assert reading.pipes == pytest.approx({"dfma": 0.0, "hmma": 0.4, "dmma": 0.0, "imma": 0.0})


def test_windows_tile_time_without_a_gap(bench: NvmlNode) -> None:
    probe = bench.began()
    busy_seconds, readings = 0.0, []
    for length, tensor in [(10.0, 0.9), (0.5, 0.1), (3.5, 0.0), (29.0, 1.0), (0.5, 0.25)]:
        bench.scenario.gpu(0, tensor=tensor)
        readings.append(bench.window(probe, length))
        busy_seconds += length * tensor
    assert readings[0].start == START
    assert [r.end for r in readings[:-1]] == [r.start for r in readings[1:]]
    assert sum(r.end - r.start for r in readings) == bench.now - START
    measured = sum((r.tensor_active or 0.0) * (r.end - r.start) for r in readings)
    assert measured == pytest.approx(busy_seconds)


def test_a_read_too_soon_for_the_hardware_leaves_the_window_open(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, tensor=0.5)
    probe = bench.began()
    bench.advance(0.0625)
    assert probe.read() == ()
    reading = bench.window(probe, 0.0625)
    assert (reading.start, reading.end) == (START, START + 0.125)
    assert reading.tensor_active == pytest.approx(0.5)


def test_a_value_that_is_not_a_number_is_passed_on_to_be_counted(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, nan=1)
    assert math.isnan(bench.window(bench.began()).tensor_active or 0.0)


# --- the clock -------------------------------------------------------------------------------------


def test_a_window_has_clock_reads_at_both_ends_and_those_polled_between(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, clock_mhz=[1400, 1300, 1350])
    probe = bench.began()
    bench.advance(1.0)
    probe.poll()
    first = bench.window(probe, 1.0)
    assert first.clocks == (
        ClockSample(START, 1400e6),
        ClockSample(START + 1.0, 1300e6),
        ClockSample(START + 2.0, 1350e6),
    )
    second = bench.window(probe, 1.0)
    assert second.clocks == (ClockSample(START + 2.0, 1350e6), ClockSample(START + 3.0, 1400e6))


def test_a_poll_before_the_first_window_is_nothing(bench: NvmlNode) -> None:
    (probe,) = bench.open()
    probe.poll()
    assert probe.read() == ()
    assert len(bench.window(probe).clocks) == 2


def test_a_failed_poll_costs_one_clock_read_and_not_the_window(bench: NvmlNode) -> None:
    probe = bench.began()
    bench.scenario.error("nvmlDeviceGetClockInfo", 999, gpu=0)
    assert failure(probe.poll).reason is Reason.NO_DEVICE_FILES
    bench.scenario.error("nvmlDeviceGetClockInfo", 0, gpu=0)
    reading = bench.window(probe)
    assert (reading.start, len(reading.clocks)) == (START, 2)


def test_no_window_has_time_in_which_a_poll_found_the_gpu_lost(bench: NvmlNode) -> None:
    """What comes back at its number may be another one."""
    bench.scenario.gpu(0, uuid="GPU-a", tensor=0.1)
    bench.scenario.gpu(1, uuid="GPU-b", tensor=0.9)
    probe = bench.began()
    bench.scenario.gpu(0, lost=1)
    assert failure(probe.poll).reason is Reason.LOST
    bench.scenario.gpu(0, lost=0, uuid="GPU-b")
    bench.scenario.gpu(1, uuid="GPU-a")
    bench.advance(5.0)
    assert probe.read() == ()
    reading = bench.window(probe)
    assert (reading.gpu.uuid, reading.start) == ("GPU-a", START + 5.0)
    assert reading.tensor_active == pytest.approx(0.9)


def test_a_gpu_without_a_clock_is_measured_without_one(bench: NvmlNode) -> None:
    bench.scenario.error("nvmlDeviceGetClockInfo", 3, gpu=0)
    probe = bench.began()
    probe.poll()
    reading = bench.window(probe)
    assert (reading.clocks, reading.tensor_active) == ((), 0.0)


# --- cycle counters --------------------------------------------------------------------------------


def test_a_new_driver_gives_the_cycle_counters_as_they_stand(bench: NvmlNode) -> None:
    bench.scenario.driver("595.45")
    bench.scenario.gpu(0, tensor=0.25, clock_mhz=[1000])
    probe = bench.began()
    first, second = bench.window(probe).cycles, bench.window(probe).cycles
    # 10 s at 1 GHz each, a quarter of it in the tensor pipe
    assert first == CycleTotals(REBOOT_CYCLES + 10e9, REBOOT_CYCLES + 2.5e9)
    assert second == CycleTotals(REBOOT_CYCLES + 20e9, REBOOT_CYCLES + 5e9)


def test_counters_summed_over_the_sms_are_passed_on_as_they_are(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, cycles="summed", clock_mhz=[1000], cores=132 * 128)
    cycles = bench.window(bench.began()).cycles
    assert cycles is not None
    assert cycles.elapsed == REBOOT_CYCLES + 132 * 10e9


@pytest.mark.parametrize("strict_ids", [0, 1])
def test_an_old_driver_has_no_cycles_and_all_the_rest(bench: NvmlNode, strict_ids: int) -> None:
    bench.scenario.driver("550.54")
    bench.scenario.gpu(0, tensor=0.5, strict_ids=strict_ids)
    reading = bench.window(bench.began())
    assert reading.cycles is None
    assert reading.tensor_active == pytest.approx(0.5)


# --- metrics that do not answer --------------------------------------------------------------------


@pytest.mark.parametrize("code", [2, 3, 999])
def test_activity_that_fails_is_not_zero_and_is_asked_for_again(bench: NvmlNode, code: int) -> None:
    bench.scenario.gpu(0, tensor=0.5)
    bench.scenario.metric_error(0, ANY_TENSOR, code)
    probe = bench.began()
    assert bench.window(probe).tensor_active is None
    bench.scenario.metric_error(0, ANY_TENSOR, 0)
    assert bench.window(probe).tensor_active == pytest.approx(0.5)


def test_a_metric_that_the_driver_passes_over_does_not_repeat_the_last_window(
    bench: NvmlNode,
) -> None:
    bench.scenario.gpu(0, tensor=0.5)
    probe = bench.began()
    assert bench.window(probe).tensor_active == pytest.approx(0.5)
    bench.scenario.gpu(0, mute=1)
    assert math.isnan(bench.window(probe).tensor_active or 0.0)


# --- evidence of work ------------------------------------------------------------------------------

WORKS = {"tensor": 0.7, "hmma": 0.7, "integer": 0.1, "graphics": 1.0, "power": 650}
IDLES = {**dict.fromkeys(WORKS, 0), "power": 90}
DEAD = {**WORKS, "dead": 1}


def test_zeros_of_every_counter_come_with_what_does_not_rest_on_them(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, **DEAD)
    reading = bench.window(bench.began())
    assert (reading.tensor_active, reading.pipes["hmma"]) == (0.0, 0.0)
    assert reading.evidence == Evidence(
        graphics_active=0.0,
        other_active=0.0,
        power=650 / 700,
        utilization_ratio=1.0,
        power_watts=650.0,
    )


@pytest.mark.parametrize(
    ("bits", "limits"),
    [
        (0, ()),
        (0x4, (ClockLimit.SW_POWER_CAP,)),
        (0x8 | 0x40, (ClockLimit.HW_SLOWDOWN, ClockLimit.HW_THERMAL)),
        (0x1, (ClockLimit.GPU_IDLE,)),
        (0x100 | 0x8000, (ClockLimit.DISPLAY_CLOCK,)),
    ],
)
def test_what_holds_the_clock_down_is_what_the_driver_says(
    bench: NvmlNode, bits: int, limits: tuple[ClockLimit, ...]
) -> None:
    bench.scenario.gpu(0, **WORKS, clock_reasons=bits)
    assert bench.window(bench.began()).clock_limits == limits


@pytest.mark.parametrize("code", [3, 13, 999])
def test_a_driver_with_the_older_name_says_the_same(bench: NvmlNode, code: int) -> None:
    bench.scenario.gpu(0, **WORKS, clock_reasons=0x4)
    bench.scenario.error("nvmlDeviceGetCurrentClocksEventReasons", code, gpu=0)
    probe = bench.began()
    assert bench.window(probe).clock_limits == (ClockLimit.SW_POWER_CAP,)
    bench.scenario.error("nvmlDeviceGetCurrentClocksThrottleReasons", code, gpu=0)
    reading = bench.window(probe)
    assert reading.clock_limits is None, "not known, and not: nothing holds it down"
    assert reading.tensor_active == pytest.approx(0.7)


def test_dead_counters_are_never_an_ofu_of_zero(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, **DEAD)
    probe = bench.began()
    state = GpuState(GpuView(probe.gpus()[0], rate(probe.gpus()[0])))
    for _ in range(3):
        state, counted = take_reading(state, bench.window(probe, 5.0), 5.0)
        assert (state.view.window, state.view.reason, counted) == (None, Reason.IMPLAUSIBLE, None)
    assert state.view.observed_seconds == 0
    bench.scenario.gpu(0, dead=0)
    state, counted = take_reading(state, bench.window(probe, 5.0), 5.0)
    assert counted is not None
    assert counted.tensor_active == pytest.approx(0.7)


@pytest.mark.parametrize("seconds", [5, 30])
@pytest.mark.parametrize("begins", range(9))
def test_counters_that_die_under_work_that_comes_and_goes_hide_none_of_it(
    bench: NvmlNode, seconds: int, begins: int
) -> None:
    """2 s on and 7 s off: at the end of most windows the GPU is idle.

    Utilization trails the work, so what was on when the counters died may be what was before.
    """
    probe = bench.began()
    state = GpuState(GpuView(probe.gpus()[0], rate(probe.gpus()[0])))
    work = hidden = 0.0
    for half in range(-2 * seconds, 4 * seconds + 60):
        is_on = (half / 2 + begins) % 9 < 2
        bench.scenario.gpu(0, **(WORKS if is_on else IDLES), dead=int(half >= 0))
        work += is_on / 2
        bench.advance(0.5)
        if (half + 1) % (2 * seconds):
            probe.poll()
            continue
        (each,) = probe.read()
        assert isinstance(each, Reading)
        state, counted = take_reading(state, each, seconds)
        hidden += work if counted is not None and half >= 0 else 0.0
        work = 0.0
    assert state.view.reason is Reason.IMPLAUSIBLE
    assert hidden <= 2.0


def test_an_idle_gpu_has_an_ofu_of_zero(bench: NvmlNode) -> None:
    probe = bench.began()
    state = GpuState(GpuView(probe.gpus()[0], rate(probe.gpus()[0])))
    for _ in range(3):
        state, counted = take_reading(state, bench.window(probe, 5.0), 5.0)
        assert counted is not None
        assert counted.utilization == 0.0


@pytest.mark.parametrize("call", ["UtilizationRates", "PowerUsage", "EnforcedPowerLimit"])
@pytest.mark.parametrize("code", [3, 4, 13, 999])
def test_evidence_that_cannot_be_had_costs_nothing_else(
    bench: NvmlNode, call: str, code: int
) -> None:
    bench.scenario.gpu(0, **DEAD)
    bench.scenario.error(f"nvmlDeviceGet{call}", code, gpu=0)
    reading = bench.window(bench.began())
    assert reading.tensor_active == 0.0
    known = reading.evidence
    assert known is not None
    assert (known.utilization_ratio is None) == (call == "UtilizationRates")
    assert (known.power_watts is None) == (call == "PowerUsage")
    assert (known.power is None) == (call != "UtilizationRates")


def test_that_other_pipes_rested_is_known_only_where_all_of_them_answer(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, **DEAD)
    bench.scenario.metric_error(0, gpm.OTHER_PIPES["fp32"], 3)
    evidence = bench.window(bench.began()).evidence
    assert evidence is not None
    assert evidence.other_active is None


def test_the_driver_is_asked_for_utilization_only_where_the_counters_say_nothing_ran(
    bench: NvmlNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pynvml

    asked: list[object] = []
    real = pynvml.nvmlDeviceGetUtilizationRates

    def counted(handle: object) -> object:
        asked.append(handle)
        return real(handle)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", counted)
    bench.scenario.gpu(0, **WORKS)
    probe = bench.began()
    reading = bench.window(probe)
    assert (len(asked), reading.evidence and reading.evidence.utilization_ratio) == (0, None)
    bench.scenario.gpu(0, **WORKS | {"tensor": 0, "hmma": 0})
    bench.window(probe), bench.window(probe)
    assert len(asked) == 0, "kernels ran, without tensor instructions"
    bench.scenario.gpu(0, dead=1)
    bench.window(probe), bench.window(probe)
    assert len(asked) == 2


# --- what a GPU is ---------------------------------------------------------------------------------


def test_a_gpu_is_described_by_its_first_read(bench: NvmlNode) -> None:
    bench.scenario.driver("595.45")
    (probe,) = bench.open()
    assert probe.gpus() == (Gpu(index="0", uuid="index-0", driver="595.45"),)
    probe.read()
    known = Gpu(
        index="0",
        uuid="GPU-00000000-0000-0000-0000-000000000000",
        name="NVIDIA H100 80GB HBM3",
        pci_bus_id="00000000:1B:00.0",
        pci_device_id="2330",
        driver="595.45",
        sm_count=132,
        compute_capability=(9, 0),
        max_sm_clock_hz=1980e6,
        memory_bytes=85520809984,
        minor=0,
    )
    assert probe.gpus() == (known,)
    assert bench.window(probe).gpu == known


def test_a_gpu_knows_the_number_of_its_device_file(bench: NvmlNode) -> None:
    """Slurm names GPUs by it; after one was lost at boot it is not the index any more."""
    bench.scenario.gpu(0, device_file=3)
    probe = bench.began()
    assert bench.window(probe).gpu.minor == 3


@pytest.mark.parametrize(
    ("capability", "cores", "sm_count"),
    [
        ((7, 0), 5120, 80),  # V100
        ((7, 5), 2560, 40),  # T4
        ((8, 0), 6912, 108),  # A100
        ((8, 9), 18176, 142),  # L40S
        ((9, 0), 16896, 132),  # H100 SXM
        ((10, 0), 19456, 152),  # GB200
        ((12, 0), 24064, 188),  # RTX PRO 6000
        ((9, 0), 16897, None),
        ((9, 9), 16896, None),
        ((99, 0), 16896, None),
        ((9, 0), 0, None),
    ],
)
def test_the_number_of_sms_follows_from_the_cores(
    bench: NvmlNode, capability: tuple[int, int], cores: int, sm_count: int | None
) -> None:
    bench.scenario.gpu(0, compute=capability, cores=cores)
    assert bench.began().gpus()[0].sm_count == sm_count


def test_what_the_driver_does_not_tell_costs_no_measurement(bench: NvmlNode) -> None:
    for call in [
        "Name",
        "PciInfo_v3",
        "MaxClockInfo",
        "MemoryInfo",
        "CudaComputeCapability",
        "MinorNumber",
    ]:
        bench.scenario.error(f"nvmlDeviceGet{call}", 999, gpu=0)
    bench.scenario.error("nvmlSystemGetDriverVersion", 999)
    probe = bench.began()
    assert probe.gpus() == (Gpu(index="0", uuid="GPU-00000000-0000-0000-0000-000000000000"),)
    assert bench.window(probe).tensor_active == 0.0


# --- opening ---------------------------------------------------------------------------------------


def test_it_is_a_source(bench: NvmlNode) -> None:
    source: sources.Source = bench.source
    probes: Sequence[sources.Probe] = source.open()
    assert len(probes) == 1
    assert (source.simulated, dict(source.rejected)) == (False, {})
    assert "nvml" in sources.automatic()
    assert sources.summary("nvml").startswith("Reads GPM counters and the SM clock of GPUs")


def test_opening_asks_no_gpu_so_none_can_stop_it(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, lost=1)
    bench.scenario.gpu(3, lost=1)
    bench.scenario.gpu(2)
    bench.scenario.gpu(1)
    probes = bench.open()
    assert [gpu.uuid for probe in probes for gpu in probe.gpus()] == [
        *("index-0", "index-1", "index-2", "index-3")
    ]


@pytest.mark.parametrize("call", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2"])
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (4, Reason.NO_PERMISSION),
        (9, Reason.NO_DRIVER),
        (18, Reason.DRIVER_MISMATCH),
        (999, Reason.NO_DEVICE_FILES),
        (998, Reason.FAILED),
        (10, Reason.FAILED),
    ],
)
def test_a_driver_that_cannot_be_used_says_why_and_can_be_tried_again(
    bench: NvmlNode, call: str, code: int, reason: Reason
) -> None:
    driver.LOADED.clear()  # no test before has used the library
    bench.scenario.error(call, code)
    for _ in range(2):
        with pytest.raises(SourceError) as caught:
            bench.open()
        assert caught.value.reason is reason
        assert bench.library.test_initialised() == 0
    bench.scenario.error(call, 0)
    assert bench.window(bench.began()).tensor_active == 0.0


def test_a_driver_that_changed_since_it_was_let_go_of_was_replaced(bench: NvmlNode) -> None:
    bench.began()
    bench.close()
    bench.scenario.unloaded(18)
    with pytest.raises(SourceError) as caught:
        bench.open()
    assert caught.value.reason is Reason.DRIVER_REPLACED


def test_a_node_without_a_gpu_says_so(bench: NvmlNode) -> None:
    bench.scenario = double.Scenario(bench.scenario.path, gpus=0)
    with pytest.raises(SourceError) as caught:
        bench.open()
    assert caught.value.reason is Reason.NO_GPU
    assert bench.library.test_initialised() == 0


def test_closing_never_fails(bench: NvmlNode) -> None:
    probe = bench.began()
    probe.close()
    probe.close()
    bench.scenario.error("nvmlShutdown", 999)
    bench.source.close()
    bench.scenario.error("nvmlShutdown", 0)
    bench.library.nvmlShutdown()
    bench.source.close()
    driver.Source(driver.Options()).close()


def test_a_probe_whose_source_was_closed_says_there_is_no_driver(bench: NvmlNode) -> None:
    probe = bench.began()
    bench.source.close()
    bench.advance(1.0)
    assert failure(probe.read).reason is Reason.NO_DRIVER


# --- a GPU that cannot be measured -----------------------------------------------------------------


@pytest.mark.parametrize(
    "call", ["nvmlGpmSampleGet", "nvmlGpmMetricsGet", "nvmlDeviceGetClockInfo"]
)
def test_an_error_in_a_window_frees_what_was_held_and_begins_anew(
    bench: NvmlNode, call: str
) -> None:
    probe = bench.began()
    assert bench.samples_alive == 2
    bench.scenario.error(call, 999, gpu=0)
    bench.advance(1.0)
    assert failure(probe.read).reason is Reason.NO_DEVICE_FILES
    assert bench.samples_alive == 0
    bench.scenario.error(call, 0, gpu=0)
    bench.advance(1.0)
    assert probe.read() == ()
    assert bench.window(probe).start == START + 2.0


def test_no_memory_for_the_second_sample_frees_the_first(bench: NvmlNode) -> None:
    import pynvml

    (probe,) = bench.open()
    real, calls = pynvml.nvmlGpmSampleAlloc, iter([None, pynvml.NVMLError(20)])

    def alloc() -> object:
        error = next(calls)
        if error is not None:
            raise error
        return real()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pynvml, "nvmlGpmSampleAlloc", alloc)
        assert failure(probe.read).reason is Reason.FAILED
    assert bench.samples_alive == 0


def test_a_gpu_before_hopper_is_not_supported(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, gpm=0, name="NVIDIA A100-SXM4-80GB")
    (probe,) = bench.open()
    for _ in range(2):
        assert failure(probe.read).reason is Reason.NOT_SUPPORTED
    assert probe.gpus()[0].name == "NVIDIA A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("capability", "reason"),
    [((8, 9), Reason.NOT_SUPPORTED), ((9, 0), Reason.DRIVER_TOO_OLD)],
)
def test_a_driver_without_the_calls_of_gpm_is_too_old_for_hopper_alone(
    bench: NvmlNode, capability: tuple[int, int], reason: Reason
) -> None:
    bench.scenario.error("nvmlGpmQueryDeviceSupport", 13)
    bench.scenario.gpu(0, compute=capability)
    (probe,) = bench.open()
    assert failure(probe.read).reason is reason


def test_a_vgpu_without_counters_says_that_it_is_one(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, gpm=0, virtualization=2, name="NVIDIA Z999", device_id="1234")
    (probe,) = bench.open()
    error = failure(probe.read)
    assert error.reason is Reason.VGPU
    assert "is a vGPU" in error.detail
    assert probe.gpus()[0].is_vgpu


def test_a_vgpu_with_counters_is_measured(bench: NvmlNode) -> None:
    """One that owns a whole MIG instance has them."""
    bench.scenario.gpu(0, virtualization=2, tensor=0.5)
    assert bench.window(bench.began()).tensor_active == pytest.approx(0.5)


@pytest.mark.parametrize("mode", [0, 1, 3])
def test_a_gpu_passed_through_or_of_a_host_is_no_vgpu(bench: NvmlNode, mode: int) -> None:
    bench.scenario.gpu(0, gpm=0, virtualization=mode)
    assert failure(bench.open()[0].read).reason is Reason.NOT_SUPPORTED


def test_a_driver_that_does_not_tell_the_mode_costs_nothing(bench: NvmlNode) -> None:
    bench.scenario.error("nvmlDeviceGetVirtualizationMode", 3, gpu=0)
    assert not bench.began().gpus()[0].is_vgpu


def test_a_gpu_without_tensor_pipes_is_not_told_to_use_another_source(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, gpm=0, name="Tesla P100-PCIE-16GB", compute=[6, 0])
    assert failure(bench.open()[0].read).reason is Reason.NO_TENSOR_PIPES


def test_a_gpu_cut_into_instances_says_so(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, mig=1)
    error = failure(bench.open()[0].read)
    assert error.reason is Reason.NO_INSTANCE
    assert "MIG is on" in error.detail


def test_a_lost_gpu_costs_the_others_nothing_and_comes_back_by_itself(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, tensor=0.2)
    bench.scenario.gpu(1, tensor=0.8)
    lost, other = bench.open()
    lost.read(), other.read()
    bench.scenario.gpu(0, lost=1)
    for _ in range(2):
        assert bench.window(other).tensor_active == pytest.approx(0.8)
        assert failure(lost.read).reason is Reason.LOST
    lost.poll()  # nothing to poll, nothing to say
    bench.scenario.gpu(0, lost=0, tensor=0.6)
    assert lost.read() == ()
    back = bench.window(lost, 5.0)
    assert (back.start, back.end) == (START + 20.0, START + 25.0)
    assert back.tensor_active == pytest.approx(0.6)
    assert [event.gpu.index for event in other.read()] == ["1"]


def test_a_gpu_lost_from_the_start_gets_its_uuid_when_it_comes(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, lost=1, uuid="GPU-a")
    (probe,) = bench.open()
    assert failure(probe.read).reason is Reason.LOST
    assert probe.gpus()[0].uuid == "index-0"
    bench.scenario.gpu(0, lost=0)
    probe.read()
    assert probe.gpus()[0].uuid == "GPU-a"


def test_a_gpu_found_under_another_number_is_still_itself(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, uuid="GPU-a", tensor=0.1)
    bench.scenario.gpu(1, uuid="GPU-b", tensor=0.9)
    probe = bench.began()
    probe.close()
    bench.scenario.gpu(0, uuid="GPU-b")
    bench.scenario.gpu(1, uuid="GPU-a")
    assert probe.read() == ()
    reading = bench.window(probe)
    assert reading.gpu.uuid == "GPU-a"
    assert reading.tensor_active == pytest.approx(0.9)


def test_a_gpu_replaced_by_another_is_lost(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, uuid="GPU-a")
    probe = bench.began()
    probe.close()
    bench.scenario.gpu(0, uuid="GPU-c")
    assert failure(probe.read).reason is Reason.LOST


def test_a_gpu_that_hangs_costs_the_others_nothing(bench: NvmlNode) -> None:
    bench.scenario.gpu(1, tensor=0.8)
    stuck, other = bench.open()
    stuck.read(), other.read()
    bench.scenario.gpu(0, hang_seconds=60)
    bench.advance(10.0)
    answers: list[Sequence[Reading | Fault]] = []
    thread = threading.Thread(target=lambda: answers.append(stuck.read()))
    thread.start()
    (meanwhile,) = other.read()
    assert isinstance(meanwhile, Reading)
    assert meanwhile.tensor_active == pytest.approx(0.8)
    assert bench.window(other).end == START + 20.0
    assert thread.is_alive()
    bench.scenario.gpu(0, hang_seconds=0)
    thread.join(10.0)
    assert not thread.is_alive()
    assert isinstance(reading := answers[0][0], Reading)
    assert (reading.start, reading.end) == (START, START + 20.0)


# --- in a process of its own -----------------------------------------------------------------------


def run(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


OPEN = "from ofu_exporter.sources.nvml import driver as nvml; probe, = nvml.Source(nvml.Options()).open(); "


def test_the_module_can_be_imported_without_the_vendors_library(tmp_path: Path) -> None:
    code = "import ofu_exporter.sources.nvml.driver, sys; assert 'pynvml' not in sys.modules"
    assert run(code, {}).stderr == ""


def test_a_new_process_finds_the_stand_in_and_time_runs(tmp_path: Path) -> None:
    scenario = double.Scenario(tmp_path / "scenario")
    scenario.gpu(0, tensor=0.5)
    code = "import time; probe.read(); time.sleep(0.12); print(probe.read()[0].tensor_active)"
    done = run(OPEN + code, scenario.environment())
    assert done.stderr == ""
    assert float(done.stdout) == pytest.approx(0.5)


@pytest.mark.parametrize("misuse", ["nvmlGpmSampleFree(s)", "nvmlGpmSampleGet(h, s)"])
def test_the_stand_in_ends_a_program_that_uses_a_freed_sample(tmp_path: Path, misuse: str) -> None:
    code = (
        "from pynvml import *; nvmlInit(); h = nvmlDeviceGetHandleByIndex(0); "
        f"s = nvmlGpmSampleAlloc(); nvmlGpmSampleFree(s); {misuse}"
    )
    done = run(code, double.Scenario(tmp_path / "scenario").environment())
    assert done.returncode == -6
    assert "freed twice" in done.stderr


# --- what else the GPU did -------------------------------------------------------------------------


def test_a_window_has_what_else_the_gpu_did_between_the_same_samples(bench: NvmlNode) -> None:
    bench.scenario.gpu(
        0, tensor=0.3, sm=0.6, graphics=0.8, occupancy=0.4, dram=0.5, fp32=0.1, power=400
    )
    bench.scenario.gpu(0, pcie_sent=2e9, pcie_received=3e9, nvlink_sent=4e9, nvlink_received=5e9)
    found = bench.window(bench.began(), 10.0).activity
    assert found._asdict() == pytest.approx(
        {
            "engine": 0.8,
            "sm": 0.6,
            "occupancy": 0.4,
            "dram": 0.5,
            "fp64": 0.0,
            "fp32": 0.1,
            "fp16": 0.0,
            "integer": 0.0,
            "pcie_sent": 2e9,
            "pcie_received": 3e9,
            "nvlink_sent": 4e9,
            "nvlink_received": 5e9,
            "energy_joules": 4000.0,
        }
    )


def test_a_driver_without_an_energy_counter_measures_the_rest(bench: NvmlNode) -> None:
    bench.scenario.error("nvmlDeviceGetTotalEnergyConsumption", 3, gpu=0)
    probe = bench.began()
    bench.window(probe)
    bench.scenario.error("nvmlDeviceGetTotalEnergyConsumption", 0, gpu=0)
    assert bench.window(probe).activity.energy_joules is None, "there is no beginning"
    assert bench.window(probe).activity.energy_joules == pytest.approx(1000.0)


def test_the_joules_of_adjacent_windows_add_up(
    bench: NvmlNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counter never stands still: what is read for the end of a window is the begin of the next."""
    counter = (1000 * read**2 for read in itertools.count())
    call = "nvmlDeviceGetTotalEnergyConsumption"
    monkeypatch.setattr(pynvml, call, lambda _: next(counter))
    probe = bench.began()
    assert [bench.window(probe).activity.energy_joules for _ in range(3)] == [1.0, 3.0, 5.0]


def test_a_slow_first_sample_widens_its_window(bench: NvmlNode) -> None:
    """Nobody knows when in that time the counters were read."""
    bench.scenario.gpu(0, hang_seconds=0.3)
    source = driver.Source(driver.Options())
    (probe,) = source.open()
    assert probe.read() == ()
    bench.scenario.gpu(0, hang_seconds=0)
    bench.advance(10.0)
    found: list[Reading | Fault] = []

    def has_read() -> bool:
        found.extend(probe.read())
        return bool(found)

    until(has_read)
    probe.close()
    source.close()
    assert isinstance(found[0], Reading)
    assert found[0].edge_seconds >= 0.29


def test_an_instance_has_neither_links_nor_energy_which_are_the_cards(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, mig=1)
    bench.scenario.instance(0, 1, "3g.40gb", 60, tensor=0.5)
    found = bench.window(bench.began()).activity
    assert (found.engine, found.sm) == (0.5, 0.5)
    assert (found.pcie_sent, found.nvlink_sent, found.energy_joules) == (None, None, None)


@pytest.fixture
def divided(bench: NvmlNode) -> NvmlNode:
    """An H100 with an instance of 60 SMs that works and one of 16 that idles."""
    bench.scenario.gpu(0, mig=1, clock_mhz=[1400])
    bench.scenario.instance(0, 1, "3g.40gb", sms=60, tensor=0.8)
    bench.scenario.instance(0, 9, "1g.10gb", sms=16)
    return bench


def windows(node: NvmlNode, probe: GpuProbe, seconds: float = 10.0) -> dict[str, Reading]:
    """What each instance did over the next seconds."""
    node.advance(seconds)
    events = probe.read()
    readings = [event for event in events if isinstance(event, Reading)]
    assert len(readings) == len(events)
    return {reading.gpu.instance: reading for reading in readings}


def test_every_instance_is_measured_against_its_own_sms(divided: NvmlNode) -> None:
    found = windows(divided, divided.began())
    assert found["1"].tensor_active == pytest.approx(0.8)
    assert found["9"].tensor_active == 0.0
    assert [(r.gpu.sm_count, r.gpu.profile) for r in found.values()] == [
        (60, "3g.40gb"),
        (16, "1g.10gb"),
    ]


def test_the_parent_has_no_row_beside_its_instances(divided: NvmlNode) -> None:
    """Its time would be counted twice."""
    probe = divided.began()
    assert [(gpu.index, gpu.instance) for gpu in probe.gpus()] == [("0", "1"), ("0", "9")]
    assert windows(divided, probe).keys() == {"1", "9"}


def test_an_instance_has_its_gpus_uuid_and_a_mig_uuid(divided: NvmlNode) -> None:
    probe = divided.began()
    first, second = probe.gpus()
    assert first.uuid == second.uuid == "GPU-00000000-0000-0000-0000-000000000000"
    assert first.mig_uuid == "MIG-00000000-0000-0000-0001-000000000000"
    assert second.mig_uuid == "MIG-00000000-0000-0000-0009-000000000000"


def test_an_instances_clock_is_its_gpus(divided: NvmlNode) -> None:
    probe = divided.began()
    divided.advance(5.0)
    probe.poll()
    found = windows(divided, probe, 5.0)
    assert [sample.at - START for sample in found["1"].clocks] == [0.0, 5.0, 10.0]
    assert {sample.hz for sample in found["9"].clocks} == {1400e6}


def test_an_instance_has_no_cycle_counters(divided: NvmlNode) -> None:
    divided.scenario.driver("595.45")
    assert windows(divided, divided.began())["1"].cycles is None


def test_an_instance_of_several_compute_instances_has_no_one_mig_uuid(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, mig=1)
    bench.scenario.instance(0, 1, "4g.40gb", sms=64, parts=2)
    (gpu,) = bench.began().gpus()
    assert (gpu.mig_uuid, gpu.sm_count, gpu.profile) == ("", 64, "4g.40gb")


def test_compute_instances_that_leave_room_do_not_tell_how_many_sms_there_are(
    bench: NvmlNode,
) -> None:
    bench.scenario.gpu(0, mig=1)
    bench.scenario.instance(0, 1, "4g.40gb", sms=64, parts=1, slices=4)
    assert bench.began().gpus()[0].sm_count is None


def test_an_instance_that_comes_is_measured_from_its_first_whole_window(divided: NvmlNode) -> None:
    probe = divided.began()
    divided.advance(3.0)
    divided.scenario.instance(0, 5, "1g.10gb", sms=16, tensor=0.5)
    assert windows(divided, probe, 7.0).keys() == {"1", "9"}
    found = windows(divided, probe)
    assert found.keys() == {"1", "5", "9"}
    assert found["5"].start == START + 10.0
    assert found["5"].tensor_active == pytest.approx(0.5)


def test_an_instance_that_goes_costs_the_others_nothing(divided: NvmlNode) -> None:
    probe = divided.began()
    divided.advance(3.0)
    divided.scenario.instance_gone(0, 9)
    first = windows(divided, probe, 7.0)
    assert (first["1"].start, first["1"].end) == (START, START + 10.0)
    assert first.keys() == {"1"}
    assert divided.samples_alive == 2
    assert windows(divided, probe)["1"].tensor_active == pytest.approx(0.8)


def test_an_instance_that_goes_while_it_is_described_costs_the_others_nothing(
    divided: NvmlNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe, describe, described = divided.began(), pynvml.nvmlDeviceGetAttributes_v2, []

    def attributes(device: object) -> object:
        described.append(device)
        if len(described) == 2:
            divided.scenario.instance_gone(0, 9)
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return describe(device)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetAttributes_v2", attributes)
    assert windows(divided, probe).keys() == {"1"}


def test_an_id_that_was_given_to_another_instance_begins_anew(divided: NvmlNode) -> None:
    probe = divided.began()
    divided.scenario.instance_gone(0, 9)
    divided.scenario.instance(0, 9, "1g.20gb", sms=26, tensor=0.3)
    assert windows(divided, probe).keys() == {"1"}
    found = windows(divided, probe)["9"]
    assert (found.start, found.gpu.sm_count) == (START + 10.0, 26)
    assert found.tensor_active == pytest.approx(0.3)


def test_an_instance_made_anew_just_as_it_was_spans_no_window(divided: NvmlNode) -> None:
    """The driver cannot compare samples of two instances: that error ends the window."""
    probe = divided.began()
    divided.scenario.instance_gone(0, 9)
    divided.scenario.instance(0, 9, "1g.10gb", sms=16, tensor=0.3)
    divided.advance(10.0)
    kept, failed = probe.read()
    assert isinstance(kept, Reading)
    assert isinstance(failed, Fault)
    assert failed.gpu.instance == "9"
    assert windows(divided, probe).keys() == {"1"}
    assert windows(divided, probe)["9"].tensor_active == pytest.approx(0.3)


def test_an_instance_that_cannot_be_read_costs_the_others_nothing(divided: NvmlNode) -> None:
    probe = divided.began()
    divided.scenario.instance_code(0, 9, 4)
    divided.advance(10.0)
    kept, failed = probe.read()
    assert isinstance(kept, Reading)
    assert isinstance(failed, Fault)
    assert (failed.gpu.instance, failed.reason) == ("9", Reason.NO_PERMISSION)
    divided.scenario.instance_code(0, 9, 0)
    assert windows(divided, probe).keys() == {"1"}
    assert windows(divided, probe).keys() == {"1", "9"}


def test_a_gpu_without_any_instance_says_so_and_waits_for_one(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, mig=1)
    (probe,) = bench.open()
    error = failure(probe.read)
    assert (error.reason, error.detail) == (
        Reason.NO_INSTANCE,
        "MIG is on and there is no GPU instance",
    )
    assert [gpu.instance for gpu in probe.gpus()] == [""]
    bench.scenario.instance(0, 1, "7g.80gb", sms=132, tensor=0.5)
    assert probe.read() == ()
    assert windows(bench, probe)["1"].tensor_active == pytest.approx(0.5)


def test_mig_is_turned_on_and_off_at_run_time(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, tensor=0.25)
    probe = bench.began()
    bench.scenario.gpu(0, mig=1)
    bench.scenario.instance(0, 1, "7g.80gb", sms=132, tensor=0.5)
    assert windows(bench, probe) == {}
    assert windows(bench, probe).keys() == {"1"}
    bench.scenario.gpu(0, mig=0)
    assert windows(bench, probe) == {}
    assert windows(bench, probe)[""].tensor_active == pytest.approx(0.25)


def test_a_mode_that_the_driver_does_not_tell_is_as_it_was(divided: NvmlNode) -> None:
    probe = divided.began()
    divided.scenario.error("nvmlDeviceGetMigMode", 999, gpu=0)
    assert windows(divided, probe).keys() == {"1", "9"}
    divided.scenario.error("nvmlDeviceGetMigMode", 3, gpu=0)
    assert failure(lambda: windows(divided, probe)).reason is Reason.NOT_SUPPORTED


def test_a_gpu_whose_mode_was_never_told_is_read_as_a_whole(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, tensor=0.25)
    bench.scenario.error("nvmlDeviceGetMigMode", 999, gpu=0)
    assert windows(bench, bench.began()).keys() == {""}


def test_an_instance_has_no_evidence_of_the_whole_gpu(divided: NvmlNode) -> None:
    """Power is everybody's, and NVML has no utilization on a GPU with MIG."""
    divided.scenario.gpu(0, power=650, dead=1)
    for reading in windows(divided, divided.began()).values():
        known = reading.evidence
        assert known is not None
        assert (known.power, known.power_watts, known.utilization_ratio) == (None, None, None)


def test_a_lost_gpu_takes_all_of_its_instances(divided: NvmlNode) -> None:
    probe = divided.began()
    divided.scenario.gpu(0, lost=1)
    divided.advance(10.0)
    assert failure(probe.read).reason is Reason.LOST
    assert [gpu.instance for gpu in probe.gpus()] == ["1", "9"]
    assert divided.samples_alive == 0
    divided.scenario.gpu(0, lost=0)
    assert windows(divided, probe) == {}
    assert windows(divided, probe).keys() == {"1", "9"}
