"""One connection gives readings and faults: blanks, clocks that were set, samples in no order."""

from __future__ import annotations

import pytest

from ofu_exporter.sources.dcgm.fields import PIPES
from ofu_exporter.sources.dcgm.host_engine import HostEngine
from ofu_exporter.sources.dcgm.library import Library
from ofu_exporter.values.reading import Fault
from ofu_exporter.values.reasons import Reason
from tests.helpers.dcgm_node import A100, START, DcgmNode, faults, readings
from tests.helpers.nvml_node import failure


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


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert probe.read() == [], "no time has passed, so that there is no window to count for"
    assert node.source.rejected["field_missing"] == 2
    assert [r.message for r in caplog.records if "fields" in r.message] == [
        "GPU 0: fields 1014 do not cover the window and are left out"
    ]
