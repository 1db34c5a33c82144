"""What the dcgm source promises, shown on a stand-in for libdcgm and the host engine behind it."""

from __future__ import annotations

import itertools
import math

import pytest

from ofu_exporter import sources
from ofu_exporter.errors import SourceError
from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.ofu.gpu_state import GpuState, take_reading
from ofu_exporter.sources.dcgm import driver
from ofu_exporter.sources.dcgm.fields import CLOCK_SECONDS, PIPES, TENSOR
from ofu_exporter.values.reading import CycleTotals, Evidence, Fault, Reading
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import GpuView
from tests.helpers.dcgm_node import A100, SECOND, START, DcgmNode, faults, readings
from tests.helpers.nvml_node import failure

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
    probe = node.opened(dcgm_interval=0.5)
    busy_seconds, found = 0.0, []
    for length, tensor in [(10.0, 0.9), (0.5, 0.1), (3.5, 0.0), (29.0, 1.0), (0.5, 0.25)]:
        node.scenario.gpu(0, tensor=tensor)
        found += node.window(probe, length)
        busy_seconds += length * tensor
    assert found[0].start == pytest.approx(START + 0.5)
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
    assert [(part.start, part.end) for part in reading.samples] == list(itertools.pairwise(at))
    assert [p.tensor_active for p in reading.samples] == pytest.approx([0.2, 0.2, 0.7, 0.7])
    assert [p.pipes["hmma"] for p in reading.samples] == pytest.approx([0.1, 0.1, 0.6, 0.6])
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
    assert all(part.sm == pytest.approx(0.6) for part in reading.samples)


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


# --- before Hopper ---------------------------------------------------------------------------------


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
