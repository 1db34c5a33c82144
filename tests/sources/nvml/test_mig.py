"""GPU instances: each a row of its own, the parent none, and what comes and goes at run time."""

from __future__ import annotations

import pytest

from ofu_exporter.sources.nvml.driver import GpuProbe
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason
from tests.helpers.nvml_node import START, NvmlNode, failure


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
