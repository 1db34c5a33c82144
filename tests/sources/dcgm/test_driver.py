"""What the dcgm source promises, shown on a stand-in for libdcgm and the host engine behind it."""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Callable

import pytest

from ofu_exporter import sources
from ofu_exporter.errors import GpuError, SourceError
from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.ofu.gpu_state import GpuState, take_reading
from ofu_exporter.sources.dcgm import driver
from ofu_exporter.sources.dcgm.fields import (
    CLOCK_SECONDS,
    CYCLES_ELAPSED,
    CYCLES_TENSOR,
    PIPES,
    TENSOR,
)
from ofu_exporter.sources.dcgm.host_engine import HostEngine
from ofu_exporter.sources.dcgm.library import GPU, Entity, Library
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import CycleTotals, Evidence, Fault, Reading
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import GpuView
from tests.doubles.dcgm import Value
from tests.helpers.dcgm_node import START, DcgmNode, node

__all__ = ["node"]

FIRST, SECOND = Entity(GPU, 0), Entity(GPU, 1)


def failure(call: Callable[[], object]) -> GpuError:
    with pytest.raises(GpuError) as caught:
        call()
    return caught.value


def faults(events: object) -> list[tuple[str, Reason]]:
    assert isinstance(events, list)
    return [(e.gpu.index, e.reason) for e in events if isinstance(e, Fault)]


def readings(events: object) -> list[Reading]:
    assert isinstance(events, list)
    return [e for e in events if isinstance(e, Reading)]


# --- windows ---------------------------------------------------------------------------------------


def test_it_is_a_source_between_the_driver_and_the_exporters_page(node: DcgmNode) -> None:
    source: sources.Source = node.source
    probes: list[sources.Probe] = [*source.open()]
    assert (len(probes), source.simulated, dict(source.rejected)) == (1, False, {})
    assert sources.automatic() == ["nvml", "dcgm", "dcgm-exporter"]
    probes[0].close()


def test_every_sample_since_the_last_read_counts_with_its_time(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.2, hmma=0.1)
    probe = node.opened()
    node.advance(3.0)
    node.scenario.gpu(0, tensor=0.7, hmma=0.6)
    (reading,) = node.window(probe, 2.0)
    # Two samples of 0.2 and two of 0.7: the first sample of a watch has no value, the next begins.
    assert (reading.start, reading.end) == (START + 1.0, START + 6.0)
    assert reading.tensor_active == pytest.approx((3 * 0.2 + 2 * 0.7) / 5)
    assert reading.pipes == pytest.approx(
        {"hmma": (3 * 0.1 + 2 * 0.6) / 5, "imma": 0, "dfma": 0, "dmma": 0}
    )


def test_windows_tile_time_without_a_gap(node: DcgmNode) -> None:
    probe = node.opened(dcgm_interval=0.125)
    busy_seconds, found = 0.0, []
    for length, tensor in [(10.0, 0.9), (0.125, 0.1), (3.5, 0.0), (29.0, 1.0), (0.5, 0.25)]:
        node.scenario.gpu(0, tensor=tensor)
        found += node.window(probe, length)
        busy_seconds += length * tensor
    assert found[0].start == pytest.approx(START + 0.125)
    assert [r.end for r in found[:-1]] == [r.start for r in found[1:]]
    measured = sum((r.tensor_active or 0.0) * (r.end - r.start) for r in found)
    assert measured == pytest.approx(busy_seconds)


def test_a_read_before_the_next_sample_brings_nothing(node: DcgmNode) -> None:
    probe = node.opened()
    node.window(probe)
    assert node.events(probe, 0.5) == []
    (reading,) = node.window(probe, 0.5)
    assert reading.end - reading.start == pytest.approx(1.0)


def test_what_was_not_read_for_long_comes_in_windows_of_about_one_length(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.5)
    probe = node.opened()
    found = node.window(probe, 70.0)
    assert [r.end - r.start for r in found] == pytest.approx([35.0, 35.0])
    assert [r.end for r in found[:-1]] == [r.start for r in found[1:]]


def test_the_clock_is_sampled_six_times_a_second_up_to_the_edges_of_the_window(
    node: DcgmNode,
) -> None:
    node.scenario.gpu(0, clock_mhz=[1400, 1300, 1350])
    probe = node.opened()
    (reading,) = node.window(probe, 2.0)
    first, *_, last = reading.clocks
    assert first.at < reading.start
    assert reading.end - CLOCK_SECONDS < last.at
    assert [read.at for read in reading.clocks] == pytest.approx(
        [first.at + CLOCK_SECONDS * number for number in range(len(reading.clocks))]
    )
    assert {read.hz for read in reading.clocks} == {1400e6, 1300e6, 1350e6}
    assert reading.pace == 1.0


def test_each_sample_of_the_tensor_counter_is_a_part_of_the_window(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.2, hmma=0.1)
    probe = node.opened()
    node.advance(1.0)
    node.scenario.gpu(0, tensor=0.7, hmma=0.6)
    (reading,) = node.window(probe, 1.0)
    at = [START + second for second in (1.0, 1.5, 2.0, 2.5, 3.0)]
    assert [(part.start, part.end) for part in reading.parts] == list(itertools.pairwise(at))
    assert [p.tensor_active for p in reading.parts] == pytest.approx([0.2, 0.2, 0.7, 0.7])
    assert [p.pipes["hmma"] for p in reading.parts] == pytest.approx([0.1, 0.1, 0.6, 0.6])
    assert reading.pipes["hmma"] == pytest.approx(0.35)


def test_a_gpu_whose_clock_is_blank_has_no_clock_and_its_activity(node: DcgmNode) -> None:
    node.scenario.gpu(0, no_field=100, tensor=0.5)
    (reading,) = node.window(node.opened())
    assert (reading.clocks, reading.tensor_active) == ((), 0.5)


def test_an_impossible_sample_costs_its_own_time_and_hides_in_no_mean(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.1)
    probe = node.opened()
    node.advance(2.0)
    node.scenario.gpu(0, value=3.0)
    node.advance(1.0)
    node.scenario.gpu(0, value="off")
    found = node.window(probe, 2.0)
    assert [r.tensor_active for r in found] == pytest.approx([0.1, 3.0, 3.0, 0.1])
    assert [r.end - r.start for r in found] == pytest.approx([2.0, 0.5, 0.5, 2.0])


def test_a_value_that_is_not_a_number_is_passed_on_to_be_counted(node: DcgmNode) -> None:
    node.scenario.gpu(0, value="nan")
    assert all(math.isnan(r.tensor_active or 0.0) for r in node.window(node.opened()))


# --- cycle counters --------------------------------------------------------------------------------


def test_the_cycle_counters_are_given_as_they_stand_at_the_end_of_the_window(
    node: DcgmNode,
) -> None:
    node.scenario.gpu(0, tensor=0.25, clock_mhz=[1000])
    probe = node.opened()
    (first,), (second,) = node.window(probe), node.window(probe)
    assert first.cycles == CycleTotals(1e12 + 6e9, 0.5e12 + 1.5e9)
    assert second.cycles == CycleTotals(1e12 + 11e9, 0.5e12 + 2.75e9)


def test_a_counter_beyond_the_sentinel_of_ratios_is_no_blank(node: DcgmNode) -> None:
    node.scenario.gpu(0, cycles_before=2.0**50)
    (reading,) = node.window(node.opened())
    assert reading.cycles is not None
    assert reading.cycles.elapsed == 2.0**50 + 6 * 1500e6


def test_counters_that_bring_nothing_are_watched_no_longer(node: DcgmNode) -> None:
    """The host engine logs an error for each of them at every interval."""
    node.scenario.gpu(0, cycles=0, no_field=PIPES["dfma"], tensor=0.5)
    node.scenario.gpu(1, tensor=0.5)
    probe = node.opened()
    node.window(probe)
    first, second = node.window(probe)
    assert [node.is_watched(field, FIRST) for field in (CYCLES_ELAPSED, CYCLES_TENSOR)] == [0, 0]
    assert not node.is_watched(PIPES["dfma"], FIRST)
    assert node.is_watched(PIPES["hmma"], FIRST)
    assert all(node.is_watched(f, SECOND) for f in (CYCLES_ELAPSED, *PIPES.values()))
    assert first.cycles is None
    assert set(first.pipes) == {"hmma", "imma"}
    assert second.cycles is not None
    (first, second) = node.window(probe)
    assert (first.tensor_active, second.tensor_active) == (0.5, 0.5)


def test_a_gpu_whose_tensor_counter_has_no_value_is_tried_more_and_more_rarely(
    node: DcgmNode,
) -> None:
    """The host engine logs an error at every poll of each field, for all of its users to read."""
    node.scenario.gpu(0, blank=1)
    probe = node.opened()
    watched = []
    for _ in range(400):
        for fault in node.events(probe):
            assert isinstance(fault, Fault)
            assert fault.reason is Reason.BLANK
            assert "no value" in fault.detail
        watched.append(node.is_watched(TENSOR))
    rests = [len(list(group)) for on, group in itertools.groupby(watched) if not on]
    assert rests[:4] == [6, 12, 24, 48]
    assert sum(watched[100:]) <= 6
    node.scenario.gpu(0, blank=0, tensor=0.5)
    back = [event for _ in range(105) for event in node.events(probe)]
    assert isinstance(back[-1], Reading)
    assert node.is_watched(TENSOR)
    assert back[-1].tensor_active == pytest.approx(0.5)


def test_what_else_shows_of_the_work_is_told_of_whole_gpus(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.5, graphics=0.75, integer=0.125, power=350, power_limit=700)
    node.scenario.instance(1, 1)
    probe = node.opened()
    whole, part = node.window(probe)
    assert whole.evidence == Evidence(None, 0.125, 0.5, 0.75, None, 5.0)
    assert part.evidence is None
    node.scenario.gpu(0, no_field=1016)
    assert node.window(probe)[0].evidence == Evidence(None, None, 0.5, 0.75, None, 5.0)


def test_what_else_the_gpu_did_is_told_of_the_same_seconds(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.3, sm=0.6, graphics=0.8, dram=0.5, fp32=0.1, power=400.0)
    probe = node.opened()
    node.window(probe)
    (reading,) = node.window(probe)
    found = reading.activity
    assert (found.engine, found.sm, found.dram, found.fp32) == pytest.approx((0.8, 0.6, 0.5, 0.1))
    assert (found.fp64, found.pcie_sent, found.nvlink_received) == (0.0, 0.0, 0.0)
    assert found.energy_joules == pytest.approx(400.0 * (reading.end - reading.start), rel=0.01)
    assert all(part.sm == pytest.approx(0.6) for part in reading.parts)


def test_an_instance_has_no_links_and_no_energy(node: DcgmNode) -> None:
    node.scenario.instance(0, 1)
    node.scenario.set_instance(0, 1, "tensor 0.5")
    probe = node.opened()
    node.window(probe)
    found = node.window(probe)[0].activity
    assert (found.engine, found.sm) == pytest.approx((0.5, 0.5))
    assert (found.pcie_sent, found.nvlink_sent, found.energy_joules) == (None, None, None)


def test_dead_counters_are_never_an_ofu_of_zero(node: DcgmNode) -> None:
    """All profiling counters are 0, the driver's utilization and the power draw are not: from the first window on."""
    node.scenario.gpu(0, tensor=0.0, integer=0.0, graphics=1.0, power=650, power_limit=700)
    probe = node.opened()
    state = GpuState(GpuView(probe.gpus()[0], rate(probe.gpus()[0])))
    for _ in range(3):
        state, counted = take_reading(state, node.window(probe)[0], 5.0)
        assert (state.view.window, state.view.reason, counted) == (None, Reason.IMPLAUSIBLE, None)
    assert state.view.observed_seconds == 0


@pytest.mark.parametrize("seconds", [5, 30])
@pytest.mark.parametrize("begins", range(9))
def test_dead_counters_hide_no_work_that_comes_and_goes(
    node: DcgmNode, seconds: int, begins: int
) -> None:
    """2 s on and 7 s off: at the end of most windows the GPU is idle, and half of a window is never busy."""
    node.scenario.gpu(0, tensor=0.0, integer=0.0, graphics=0.0, power=90, power_limit=700)
    probe = node.opened()
    state = GpuState(GpuView(probe.gpus()[0], rate(probe.gpus()[0])))
    work = hidden = 0.0
    for second in range(2 * seconds + 30):
        is_on = (second + begins) % 9 < 2
        node.scenario.gpu(0, graphics=float(is_on), power=650 if is_on else 90)
        work += is_on
        node.advance(1.0)
        for each in probe.read() if second % seconds == seconds - 1 else ():
            assert isinstance(each, Reading)
            state, counted = take_reading(state, each, seconds)
            hidden += work if counted is not None else 0.0
            work = 0.0
    assert state.view.reason is Reason.IMPLAUSIBLE
    assert hidden <= 2.0


def test_work_beside_the_tensor_pipes_is_an_ofu_of_zero(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.0, integer=0.2, graphics=1.0, power=650, power_limit=700)
    probe = node.opened()
    state = GpuState(GpuView(probe.gpus()[0], rate(probe.gpus()[0])))
    _, counted = take_reading(state, node.window(probe)[0], 5.0)
    assert counted is not None
    assert counted.utilization == 0.0


@pytest.mark.parametrize("version", ["3.1", "4.0", "4.5"])
def test_a_host_engine_without_cycle_counters_has_all_the_rest(
    node: DcgmNode, version: str
) -> None:
    node.scenario.add(f"version {version}")
    node.scenario.gpu(0, tensor=0.5, hmma=0.5)
    (reading,) = node.window(node.opened())
    assert reading.cycles is None
    assert reading.tensor_active == pytest.approx(0.5)
    assert reading.pipes["hmma"] == pytest.approx(0.5)


# --- what a GPU is ---------------------------------------------------------------------------------


def test_a_gpu_is_described_as_the_driver_describes_it(node: DcgmNode) -> None:
    node.scenario.gpu(0, device_file=3)
    assert node.open().gpus() == [
        Gpu(
            index="0",
            uuid="GPU-00000000-0000-0000-0000-000000000000",
            name="NVIDIA H100 80GB HBM3",
            pci_bus_id="00000000:1B:00.0",
            pci_device_id="2330",
            driver="595.45.04",
            compute_capability=(9, 0),
            max_sm_clock_hz=1980e6,
            memory_bytes=81559 << 20,
            minor=3,
        )
    ]


def test_a_field_without_an_answer_takes_no_other_with_it(node: DcgmNode) -> None:
    node.scenario.gpu(0, mute_field=250)
    (gpu,) = node.open().gpus()
    assert (gpu.name, gpu.memory_bytes) == ("NVIDIA H100 80GB HBM3", None)


def test_a_gpu_that_did_not_say_who_it_is_is_asked_again(node: DcgmNode) -> None:
    node.scenario.error("dcgmEntitiesGetLatestValues", -3)
    probe = node.open()
    assert [gpu.uuid for gpu in probe.gpus()] == ["index-0"]
    node.scenario.error("dcgmEntitiesGetLatestValues", 0)
    node.events(probe)
    assert [r.gpu.name for r in node.window(probe)] == ["NVIDIA H100 80GB HBM3"]


def test_a_gpu_that_is_not_told_of_for_once_stays_who_it_was(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.5)
    probe = node.opened()
    (before,) = node.window(probe)
    node.scenario.error("dcgmEntitiesGetLatestValues", -3)
    node.scenario.gpu(1)
    node.events(probe)
    events = node.events(probe)
    assert faults(events) == [("1", Reason.BLANK)]
    assert [r.gpu for r in readings(events)] == [before.gpu]


# --- opening ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "code", "reason"),
    [
        ("dcgmInit", -7, Reason.FAILED),
        ("dcgmConnect_v2", -21, Reason.UNREACHABLE),
        ("dcgmConnect_v2", -12, Reason.DRIVER_MISMATCH),
        ("dcgmGetAllDevices", -17, Reason.NO_PERMISSION),
        ("dcgmGetAllDevices", -54, Reason.COUNTER_BUSY),
        ("dcgmGetAllDevices", -56, Reason.NO_DRIVER),
        ("dcgmGetAllDevices", -57, Reason.HUNG),
    ],
)
def test_a_host_engine_that_cannot_be_used_says_why_and_can_be_tried_again(
    node: DcgmNode, call: str, code: int, reason: Reason
) -> None:
    node.scenario.error(call, code)
    for _ in range(2):
        with pytest.raises(SourceError) as caught:
            node.open()
        assert (caught.value.reason, node.held) == (reason, (0, 0, 0, 0))
        assert "127.0.0.1:5555" in caught.value.detail
    node.scenario.error(call, 0)
    assert node.window(node.opened())


def test_a_node_without_a_gpu_says_so(node: DcgmNode) -> None:
    node.library.test_reset()
    node = DcgmNode(node.scenario.path, node.library, gpus=0)
    with pytest.raises(SourceError) as caught:
        node.open()
    assert caught.value.reason is Reason.NO_GPU


def test_a_unix_socket_is_an_address(node: DcgmNode) -> None:
    node.scenario.add("address unix:/tmp/nv-hostengine")
    with pytest.raises(SourceError):
        node.open()
    assert node.window(node.opened(dcgm_address="unix:/tmp/nv-hostengine"))


@pytest.mark.parametrize("address", ["[::1]:5555", "[fd00::1]", "node1"])
def test_an_address_of_ipv6_and_one_without_a_port_are_handed_on(
    node: DcgmNode, address: str
) -> None:
    node.scenario.add(f"address {address}")
    assert node.window(node.opened(dcgm_address=address))


@pytest.mark.parametrize("address", ["", "host:port", "unix:", "a b:1", "::1", "[::1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="dcgm_address"):
        driver.Options(dcgm_address=address)


def test_a_host_engine_of_its_own_is_started_where_none_runs(node: DcgmNode) -> None:
    node.scenario.add("engine 0")
    node.scenario.gpu(0, tensor=0.5)
    (reading,) = node.window(node.opened(dcgm_address="embedded"))
    assert reading.tensor_active == pytest.approx(0.5)


@pytest.mark.parametrize("address", ["127.0.0.1:5555", "unix:/tmp/nv-hostengine"])
def test_none_is_started_beside_one_that_runs(node: DcgmNode, address: str) -> None:
    node.scenario.add(f"address {address}")
    with pytest.raises(SourceError) as caught:
        node.open(dcgm_address="embedded")
    assert caught.value.reason is Reason.COUNTER_BUSY
    assert address in caught.value.detail
    assert node.held == (0, 0, 0, 0)


def test_closing_leaves_nothing_behind_and_never_fails(node: DcgmNode) -> None:
    probe = node.opened()
    node.window(probe)
    assert node.held[0] > 0
    probe.close()
    probe.close()
    assert node.held[:3] == (0, 0, 0)
    node.source.close()
    node.source.close()
    driver.Source(driver.Options()).close()


def test_closing_after_the_host_engine_ended_is_quiet(node: DcgmNode) -> None:
    node.window(node.opened())
    node.scenario.add("engine 0")
    node.close()
    assert node.held == (0, 0, 0, 0)


# --- the host engine goes and comes back -----------------------------------------------------------


def test_after_a_restart_all_is_watched_anew_and_no_older_value_comes(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.9)
    probe = node.opened()
    node.window(probe)
    node.advance(3.0)
    node.scenario.add("restart")
    node.scenario.gpu(0, tensor=0.1)
    assert failure(lambda: node.events(probe, 2.0)).reason is Reason.UNREACHABLE
    restarted = node.now
    (reading,) = node.window(probe)
    assert reading.start >= restarted
    assert reading.tensor_active == pytest.approx(0.1)


def test_a_host_engine_that_stays_away_is_said_so_at_each_read(node: DcgmNode) -> None:
    probe = node.opened()
    node.window(probe)
    known = probe.gpus()
    node.scenario.add("engine 0")
    for _ in range(3):
        assert failure(lambda: node.events(probe)).reason is Reason.UNREACHABLE
        assert probe.gpus() == known
    node.scenario.add("engine 1")
    back = node.now
    assert node.events(probe) == []
    (reading,) = node.window(probe)
    assert reading.start >= back
    assert reading.end - back <= 2 * 5.0 + 1.0


def test_a_host_engine_that_lets_a_question_time_out_is_asked_no_further(node: DcgmNode) -> None:
    """Each question would take as long again."""
    for index in range(3):
        node.scenario.gpu(index, tensor=0.5)
    probe = node.opened()
    node.scenario.error("dcgmGetGpuStatus", -11, gpu=0)
    assert failure(lambda: node.events(probe)).reason is Reason.HUNG
    node.scenario.error("dcgmGetGpuStatus", 0, gpu=0)
    assert [r.gpu.index for r in node.window(probe)] == ["0", "1", "2"]


def test_watches_that_the_host_engine_forgot_are_made_anew(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.5)
    probe = node.opened()
    node.window(probe)
    node.scenario.add("forget")
    assert faults(node.events(probe)) == [("0", Reason.STALE)]
    node.events(probe)
    (reading,) = node.window(probe)
    assert (reading.end, reading.tensor_active) == (node.now, 0.5)
    assert len(reading.clocks) > 0.9 * 5.0 / CLOCK_SECONDS


# --- blanks ----------------------------------------------------------------------------------------


def test_the_first_sample_of_a_watch_is_blank_and_no_fault(node: DcgmNode) -> None:
    probe = node.open()
    assert probe.read() == []
    assert node.events(probe, 0.5) == []


def test_two_blanks_at_the_beginning_are_no_fault_either(node: DcgmNode) -> None:
    """Some versions use no window that begins with the first sample (DcgmGpmManager.cpp, GetLatestSample)."""
    node.scenario.gpu(0, tensor=0.5, blank=1)
    probe = node.open()
    assert node.events(probe, 1.0) == []
    node.scenario.gpu(0, blank=0)
    assert node.events(probe, 1.0) == []
    (reading,) = node.window(probe)
    assert reading.tensor_active == pytest.approx(0.5)


def test_a_blank_ends_the_window_before_it_and_the_next_begins_after(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.5)
    probe = node.opened()
    node.window(probe)
    node.advance(2.0)
    node.scenario.gpu(0, blank=1)
    node.advance(1.0)
    node.scenario.gpu(0, blank=0)
    before, after = node.window(probe, 3.0)
    assert (before.start, before.end) == pytest.approx((START + 6.0, START + 8.0))
    assert (after.start, after.end) == pytest.approx((START + 9.5, START + 12.0))


def test_a_blank_that_stays_is_a_fault_of_this_gpu_only(node: DcgmNode) -> None:
    node.scenario.gpu(1, tensor=0.5)
    probe = node.opened()
    node.window(probe)
    node.scenario.gpu(0, blank=1)
    for number in range(120):
        events = node.events(probe)
        assert faults(events) == [("0", Reason.BLANK)]
        (other,) = readings(events)
        assert (other.gpu.index, other.end) == ("1", START + 6.0 + 5.0 * (number + 1))
    node.scenario.gpu(0, blank=0)
    assert [r.gpu.index for r in node.window(probe)] == ["0", "1"]


def test_a_gpu_that_never_has_a_value_is_blank_when_its_time_is_over(node: DcgmNode) -> None:
    node.scenario.gpu(0, blank=1)
    probe = node.open()
    assert node.events(probe, 3.0) == []
    assert faults(node.events(probe, 3.0)) == [("0", Reason.BLANK)]


# --- a GPU that is lost ----------------------------------------------------------------------------


def test_a_lost_gpu_costs_the_others_nothing_and_comes_back_by_itself(node: DcgmNode) -> None:
    for index in range(8):
        node.scenario.gpu(index, tensor=0.5)
    probe = node.opened()
    assert len(node.window(probe)) == 8
    node.scenario.gpu(3, status=4)
    observed = dict.fromkeys("0124567", 0.0)
    for _ in range(24):
        events = node.events(probe)
        assert faults(events) == [("3", Reason.LOST)]
        for reading in readings(events):
            observed[reading.gpu.index] += reading.end - reading.start
    assert observed == pytest.approx(dict.fromkeys("0124567", 120.0))
    assert [gpu.index for gpu in probe.gpus()] == [str(index) for index in range(8)]
    node.scenario.gpu(3, status=1)
    node.events(probe)
    back = node.window(probe)
    assert [reading.gpu.index for reading in back] == [str(index) for index in range(8)]
    assert back[3].clocks


@pytest.mark.parametrize(
    ("status", "reason"),
    [(2, Reason.NOT_SUPPORTED), (3, Reason.NO_PERMISSION), (4, Reason.LOST), (7, Reason.NO_DRIVER)],
)
def test_a_gpu_that_is_not_well_says_why(node: DcgmNode, status: int, reason: Reason) -> None:
    node.scenario.gpu(1, status=status)
    probe = node.opened()
    events = node.events(probe)
    assert faults(events) == [("1", reason)]
    assert [r.gpu.index for r in readings(events)] == ["0"]


def test_a_gpu_lost_from_the_start_gets_its_name_when_it_comes(node: DcgmNode) -> None:
    node.scenario.gpu(1, status=4, uuid="GPU-b")
    probe = node.opened()
    assert [gpu.uuid for gpu in probe.gpus()][1] == "index-1"
    node.scenario.gpu(1, status=1)
    node.events(probe)
    assert [r.gpu.uuid for r in node.window(probe)][1] == "GPU-b"


def test_a_gpu_that_cannot_be_watched_says_why_and_is_tried_again(node: DcgmNode) -> None:
    node.scenario.gpu(1)
    node.scenario.error("dcgmGroupAddEntity", -19, gpu=1)
    probe = node.opened()
    for _ in range(3):
        events = node.events(probe)
        assert faults(events) == [("1", Reason.LOST)]
        assert [r.gpu.index for r in readings(events)] == ["0"]
    node.scenario.error("dcgmGroupAddEntity", 0, gpu=1)
    node.events(probe, 30.0)
    assert {r.gpu.index for r in node.window(probe)} == {"0", "1"}


def test_a_gpu_that_is_refused_in_a_read_costs_the_others_nothing(node: DcgmNode) -> None:
    """The host engine ends the whole read there."""
    for index in range(3):
        node.scenario.gpu(index, tensor=0.25 * (index + 1))
    probe = node.opened()
    node.window(probe)
    node.scenario.error("dcgmGetValuesSince_v2", -19, gpu=1)
    for _ in range(3):
        events = node.events(probe)
        assert faults(events) == [("1", Reason.LOST)]
        assert [(r.gpu.index, r.end - r.start) for r in readings(events)] == [("0", 5), ("2", 5)]
    node.scenario.error("dcgmGetValuesSince_v2", 0, gpu=1)
    for _ in range(8):
        events = node.events(probe)
    found = {r.gpu.index: r.tensor_active for r in readings(events)}
    assert found == pytest.approx({"0": 0.25, "1": 0.5, "2": 0.75})


def test_a_gpu_that_cannot_be_watched_does_not_keep_the_others_from_it(node: DcgmNode) -> None:
    for index in range(3):
        node.scenario.gpu(index, tensor=0.5)
    node.scenario.error("dcgmWatchFields", -34, gpu=1)
    probe = node.opened()
    events = node.events(probe)
    assert faults(events) == [("1", Reason.COUNTER_BUSY)]
    assert [r.gpu.index for r in readings(events)] == ["0", "2"]
    assert all(len(r.clocks) > 3 for r in readings(events))


# --- MIG -------------------------------------------------------------------------------------------


def test_each_instance_has_a_row_and_the_whole_gpu_has_none(node: DcgmNode) -> None:
    node.scenario.instance(0, 1, "3g.40gb")
    node.scenario.instance(0, 2, "1g.10gb")
    node.scenario.set_instance(0, 1, "tensor 0.75")
    node.scenario.gpu(0, clock_mhz=[1200])
    node.scenario.gpu(1, tensor=0.1)
    found = node.window(node.opened())
    assert [(r.gpu.index, r.gpu.instance, r.gpu.profile) for r in found] == [
        ("0", "1", "3g.40gb"),
        ("0", "2", "1g.10gb"),
        ("1", "", ""),
    ]
    assert [r.tensor_active for r in found] == pytest.approx([0.75, 0.0, 0.1])
    first = found[0]
    assert first.gpu.uuid == "GPU-00000000-0000-0000-0000-000000000000"
    assert first.gpu.mig_uuid == "MIG-00000000-0000-0000-0000-000000000001"
    assert {clock.hz for clock in first.clocks} == {1200e6}
    assert first.cycles is None


def test_instances_come_and_go_and_cost_the_others_no_sample(node: DcgmNode) -> None:
    node.scenario.instance(0, 1)
    node.scenario.instance(0, 2)
    node.scenario.gpu(1, tensor=0.5)
    probe = node.opened()
    kept = {("0", "1"): node.now, ("1", ""): node.now}
    node.window(probe)
    node.scenario.set_instance(0, 2, "gone")
    assert [g.instance for g in probe.gpus()] == ["1", "2", ""]
    found = node.window(probe)
    assert [r.gpu.instance for r in found] == ["1", ""]
    node.scenario.instance(0, 3, "2g.20gb")
    node.scenario.set_instance(0, 3, "tensor 0.5")
    node.events(probe)
    found = node.window(probe)
    assert [(r.gpu.instance, r.gpu.profile) for r in found] == [
        *(("1", "1g.10gb"), ("3", "2g.20gb"), ("", ""))
    ]
    assert found[1].tensor_active == pytest.approx(0.5)
    assert {r.end for r in found} == {node.now}
    for reading in found[::2]:
        assert reading.start == pytest.approx(node.now - 5.0)
        assert kept[reading.gpu.index, reading.gpu.instance] == START + 1.0


def test_a_number_given_out_again_is_another_instance(node: DcgmNode) -> None:
    node.scenario.instance(0, 1)
    node.scenario.set_instance(0, 1, "tensor 0.9")
    probe = node.opened()
    node.window(probe)
    node.scenario.set_instance(0, 1, "gone")
    node.scenario.instance(0, 7, "2g.20gb")
    replaced = node.now
    events = [*node.events(probe), *node.events(probe)]
    seven = readings(events)
    assert {r.gpu.instance for r in seven} == {"7"}
    assert min(r.start for r in seven) >= replaced
    assert {r.tensor_active for r in seven} == {0.0}


def test_instances_that_cannot_be_counted_for_once_are_still_there(node: DcgmNode) -> None:
    node.scenario.instance(0, 1)
    probe = node.opened()
    node.window(probe)
    node.scenario.error("dcgmGetGpuInstanceHierarchy", -11)
    assert [r.gpu.instance for r in node.window(probe)] == ["1"]


def test_an_instance_without_a_compute_instance_says_so(node: DcgmNode) -> None:
    node.scenario.instance(0, 1)
    node.scenario.set_instance(0, 1, "compute 0")
    (event,) = node.events(node.opened())
    assert isinstance(event, Fault)
    assert (event.reason, event.gpu.mig_uuid) == (Reason.BLANK, "")
    assert "no compute instance" in event.detail


def test_a_divided_gpu_without_an_instance_says_so(node: DcgmNode) -> None:
    node.scenario.gpu(0, mig=1)
    (event,) = node.events(node.opened())
    assert isinstance(event, Fault)
    assert event.reason is Reason.NO_INSTANCE
    assert "no GPU instance" in event.detail


# --- before Hopper ---------------------------------------------------------------------------------

A100: dict[str, Value] = {"gpm": 0, "cycles": 0, "compute": [8, 0], "name": "NVIDIA A100-SXM4-80GB"}


def test_a_gpu_before_hopper_is_left_alone_unless_asked_for(node: DcgmNode) -> None:
    node.scenario.add("module 1")
    node.scenario.gpu(1, **A100)
    probe = node.opened()
    events = node.events(probe)
    assert faults(events) == [("1", Reason.NOT_SUPPORTED)]
    assert "--dcgm-pre-hopper" in next(e.detail for e in events if isinstance(e, Fault))
    assert [r.gpu.index for r in readings(events)] == ["0"]
    assert not node.is_watched(TENSOR, SECOND)


@pytest.mark.parametrize("version", ["3.3", "4.6"])
def test_asked_for_it_is_measured_with_the_one_counter_that_takes_no_turns(
    node: DcgmNode, version: str
) -> None:
    node.scenario.add("module 1", f"version {version}")
    node.scenario.gpu(1, **A100, tensor=0.4)
    node.scenario.gpu(2, gpm=0, compute=[8, 6], name="NVIDIA A10", tensor=0.3)
    found = node.window(node.opened(dcgm_pre_hopper=True))
    assert [r.tensor_active for r in found] == pytest.approx([0.0, 0.4, 0.3])
    assert [dict(r.pipes) for r in found[1:]] == [{}, {}]
    assert not node.is_watched(PIPES["hmma"], SECOND)


def test_without_the_profiling_module_the_reason_is_shown(node: DcgmNode) -> None:
    node.scenario.gpu(1, **A100)
    probe = node.opened(dcgm_pre_hopper=True)
    assert faults(node.events(probe)) == [("1", Reason.NOT_SUPPORTED)]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (-29, Reason.NO_PERMISSION),
        (-34, Reason.COUNTER_BUSY),
        (-54, Reason.COUNTER_BUSY),
        (-36, Reason.NOT_SUPPORTED),
        (-37, Reason.FAILED),
    ],
)
def test_a_profiler_that_has_the_counters_is_a_reason_and_not_a_zero(
    node: DcgmNode, code: int, reason: Reason
) -> None:
    node.scenario.add("module 1")
    node.scenario.gpu(1, **A100, tensor=0.4)
    node.scenario.error("dcgmWatchFields", code, gpu=1)
    probe = node.opened(dcgm_pre_hopper=True)
    assert faults(node.events(probe)) == [("1", reason)]
    node.scenario.error("dcgmWatchFields", 0, gpu=1)
    node.events(probe, 30.0)
    assert {r.gpu.index for r in node.window(probe)} == {"0", "1"}


def test_while_profiling_is_paused_there_is_a_reason_and_no_value(node: DcgmNode) -> None:
    node.scenario.add("module 1")
    node.scenario.gpu(0, **A100, tensor=0.4)
    probe = node.opened(dcgm_pre_hopper=True)
    node.window(probe)
    library = Library()
    engine = HostEngine(library, "127.0.0.1:5555")
    engine.pause()
    (event,) = node.events(probe)
    assert isinstance(event, Fault)
    assert event.reason is Reason.BLANK
    assert "ofu-exporter resume" in event.detail
    engine.resume()
    node.events(probe)
    assert node.window(probe)[0].tensor_active == pytest.approx(0.4)
    engine.close()
    library.close()


# --- time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [3600.0, 0.5, -0.5, -2.0])
def test_no_window_reaches_over_an_instant_at_which_the_clock_was_set(
    node: DcgmNode, step: float
) -> None:
    node.scenario.gpu(0, tensor=0.5)
    probe = node.opened()
    node.window(probe)
    node.clock_was_set_by = step
    was_set = node.now
    node.advance(2.0)
    assert node.window(probe, 3.0) == []
    for _ in range(3):
        for reading in node.window(probe):
            assert reading.start >= was_set
            assert reading.end <= node.now
            assert reading.tensor_active == pytest.approx(0.5)
    assert reading.end == pytest.approx(node.now, abs=1.0)
    assert node.source.rejected["clock_set"] == 1


@pytest.mark.parametrize("elsewhere", [0.5, 0.9])
def test_a_clock_that_was_set_back_brings_nothing_from_before_until_its_time_is_over(
    node: DcgmNode, elsewhere: float
) -> None:
    """The host engine takes no samples meanwhile, and those from before come to light one by one."""
    node.scenario.gpu(0, tensor=0.9)
    probe = node.opened()
    node.window(probe)
    node.clock_was_set_by = -60.0
    node.scenario.gpu(0, tensor=elsewhere)
    for _ in range(12):
        (event,) = node.events(probe)
        assert isinstance(event, Fault)
        assert event.reason is Reason.STALE
        assert "clock was set back" in event.detail
    was_there = node.now + 5.0
    assert node.window(probe) == []
    node.window(probe)
    (reading,) = node.window(probe)
    assert reading.start >= was_there
    assert reading.tensor_active == pytest.approx(elsewhere)
    assert node.source.rejected["clock_set"] == 1


def test_a_host_engine_that_was_started_after_the_clock_was_set_is_believed(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.5)
    probe = node.opened()
    node.clock_was_set_by = -3600.0
    assert faults(node.events(probe)) == [("0", Reason.STALE)]
    node.scenario.add("restart")
    assert failure(lambda: node.events(probe)).reason is Reason.UNREACHABLE
    assert node.window(probe)[0].tensor_active == pytest.approx(0.5)


def test_samples_that_run_backwards_are_counted_and_not_used(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.5)
    probe = node.opened()
    node.window(probe)
    node.advance(3.0)
    node.scenario.add("disorder 1")
    found = node.window(probe, 3.0)
    assert node.source.rejected["timestamp_backwards"] >= 1
    ends = [r.end for r in found]
    assert ends == sorted(ends)
    assert sum(r.end - r.start for r in found) <= 6.0 + 1e-6


def test_samples_from_the_future_are_counted_and_not_used(node: DcgmNode) -> None:
    node.scenario.add("ahead 10")
    probe = node.opened()
    assert faults(node.events(probe)) == [("0", Reason.STALE)]
    assert node.source.rejected["timestamp_in_future"] > 0


def test_a_host_engine_that_samples_no_more_is_stale_and_is_asked_anew(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.5)
    probe = node.opened()
    node.window(probe)
    for _ in range(9):  # time passes here; the host engine stands still
        node.now += 5.0
        event = probe.read()[-1]
        assert isinstance(event, Fault)
        assert event.reason is Reason.STALE
    node.events(probe)
    assert node.window(probe)[-1].end == pytest.approx(node.now, abs=1.0)


def test_a_gpu_that_brings_nothing_for_long_is_watched_anew(node: DcgmNode) -> None:
    probe = node.opened()
    node.window(probe)
    node.scenario.error("dcgmWatchFields", -34, gpu=0)  # shows when it is tried
    reasons = []
    for _ in range(10):
        node.now += 5.0  # the host engine stands still
        reasons.append(faults(probe.read())[-1][1])
    assert reasons == [Reason.STALE] * 5 + [Reason.COUNTER_BUSY] * 5


# --- others on the same host engine ----------------------------------------------------------------


def test_another_client_that_watches_faster_makes_more_samples_and_no_other_mean(
    node: DcgmNode,
) -> None:
    node.scenario.gpu(0, tensor=0.5)
    probe = node.opened()
    library = Library()
    engine = HostEngine(library, "127.0.0.1:5555", node.unix)
    watch = engine.watch([FIRST], [TENSOR], 0.125)
    node.advance(2.0)
    node.scenario.gpu(0, tensor=0.9)
    (reading,) = node.window(probe, 2.0)
    assert reading.tensor_active == pytest.approx((2 * 0.5 + 2 * 0.9) / 4)
    watch.close()
    engine.close()
    library.close()
    assert node.window(probe)[-1].tensor_active == pytest.approx(0.9)


def test_another_client_that_watches_slower_delays_the_first_window_only(node: DcgmNode) -> None:
    library = Library()
    engine = HostEngine(library, "127.0.0.1:5555", node.unix)
    watch = engine.watch([FIRST], [TENSOR], 20.0)
    node.scenario.gpu(0, tensor=1.0)
    node.advance(10.0)
    probe = node.open()
    node.advance(9.0)
    node.scenario.gpu(0, tensor=0.5)
    probe.read()
    (reading,) = readings(node.events(probe, 6.0))
    assert reading.start == pytest.approx(START + 20.0)
    assert reading.tensor_active == pytest.approx(0.5)
    watch.close()
    engine.close()
    library.close()


class OtherClient:
    """Another client of the host engine, that has a field sampled of every GPU."""

    def __init__(self, node: DcgmNode, field: int) -> None:
        self._node, self._field = node, field

    def watch(self, seconds: float) -> None:
        self._node.scenario.add(f"watch {self._field} {seconds}")

    def leave(self) -> None:
        self._node.scenario.add(f"watch {self._field} 0")


class Work:
    """Activity that changes every tenth of a second, and its integral."""

    def __init__(self, node: DcgmNode) -> None:
        self._node = node
        self._chance = random.Random(5)
        self._at, self._done = [node.now], [0.0]

    def go_on(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            tensor = round(self._chance.random(), 3)
            self._node.scenario.gpu(0, tensor=tensor, hmma=tensor, dmma=tensor / 4)
            self._node.advance(0.1)
            self._at.append(self._node.now)
            self._done.append(self._done[-1] + 0.1 * tensor)

    def mean(self, start: float, end: float) -> float:
        return (self._until(end) - self._until(start)) / (end - start)

    def _until(self, time: float) -> float:
        after = min(bisect.bisect_right(self._at, time), len(self._at) - 1)
        share = (time - self._at[after - 1]) / (self._at[after] - self._at[after - 1])
        return self._done[after - 1] + share * (self._done[after] - self._done[after - 1])


def found_in(node: DcgmNode, work: Work, probe: driver.Probe) -> list[Reading]:
    """The windows of half a minute, read as the agent does."""
    found: list[Reading] = []
    for _ in range(6):
        work.go_on(5.0)
        found += readings(probe.read())
    return found


@pytest.mark.parametrize("field", [1001, TENSOR, PIPES["imma"], PIPES["hmma"], CYCLES_TENSOR])
@pytest.mark.parametrize("leaves", [False, True])
def test_whatever_phase_a_field_has_every_number_is_of_the_windows_own_time(
    node: DcgmNode, field: int, leaves: bool
) -> None:
    """Seen on a real host engine beside a client: 1004 at .352 of each second, 1013 at .558, for good."""
    other, work = OtherClient(node, field), Work(node)
    other.watch(1.0)
    work.go_on(3.3)
    probe = node.open()
    if leaves:
        work.go_on(7.4)
        other.leave()
    first, *found = found_in(node, work, probe)
    assert len(found) >= 4
    assert all(a.end == b.start for a, b in itertools.pairwise([first, *found]))
    for reading in found:
        for part in reading.parts:
            assert part.tensor_active == pytest.approx(work.mean(part.start, part.end), abs=1e-6)
        # Of a field that ends elsewhere than the window, a sample is cut at each end.
        cut = 0.03 if field == PIPES["hmma"] else 1e-6
        assert reading.pipes["hmma"] == pytest.approx(
            work.mean(reading.start, reading.end), abs=cut
        )
    evidence = [reading.evidence for reading in found]
    assert all(e is not None and None not in (e.busy_ratio, *e[1:3]) for e in evidence)
    assert node.source.rejected.get("field_missing", 0) == 0
    if (
        field != CYCLES_TENSOR
    ):  # where its totals are of other instants than 1084's, nothing is made of them
        assert_cycles_are_true([first, *found], work)
    other.leave()


def assert_cycles_are_true(found: list[Reading], work: Work) -> None:
    totals = [reading.cycles for reading in found if reading.cycles is not None]
    assert len(totals) == len(found)
    for reading, (before, after) in zip(found[1:], itertools.pairwise(totals), strict=True):
        truth = work.mean(reading.start, reading.end)
        share = (after.tensor - before.tensor) / (after.elapsed - before.elapsed)
        assert share == pytest.approx(truth, abs=1e-6)
        assert reading.pipes["dmma"] == pytest.approx(truth / 4, abs=1e-6)


def test_a_client_that_watches_faster_for_a_while_and_leaves_costs_no_field(node: DcgmNode) -> None:
    """Pipes and evidence were gone after that until a restart."""
    work, other = Work(node), OtherClient(node, TENSOR)
    probe = node.open()
    work.go_on(6.0)
    probe.read()
    other.watch(0.3)
    work.go_on(2.0)
    other.leave()
    found_in(node, work, probe)
    for reading in found_in(node, work, probe):
        assert reading.tensor_active == pytest.approx(work.mean(reading.start, reading.end))
        assert reading.pipes["hmma"] == pytest.approx(reading.tensor_active)
        assert reading.evidence is not None
        assert None not in (reading.evidence.busy_ratio, *reading.evidence[1:3])


def test_a_field_that_is_missing_is_counted_and_named(
    node: DcgmNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.scenario.gpu(0, tensor=0.5, hmma=0.5)
    probe = node.opened()
    node.window(probe)
    node.window(probe)
    assert node.source.rejected.get("field_missing", 0) == 0
    node.scenario.gpu(0, no_field=PIPES["hmma"])
    for _ in range(2):
        (reading,) = node.window(probe)
        assert "hmma" not in reading.pipes
    assert node.source.rejected["field_missing"] == 2
    assert [r.message for r in caplog.records if "fields" in r.message] == [
        "GPU 0: fields 1014 do not cover the window and are left out"
    ]
