"""A host engine's devices are described as the driver describes them, and instances come and go."""

from __future__ import annotations

import pytest

from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Fault
from ofu_exporter.values.reasons import Reason
from tests.helpers.dcgm_node import START, DcgmNode, faults, readings


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
    assert [g.instance for g in probe.gpus()] == ["1", ""]
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


def test_an_instance_that_gets_a_compute_instance_is_measured_at_once(node: DcgmNode) -> None:
    """And does not wait until what had none is tried again, which is more and more rarely."""
    node.scenario.instance(0, 1)
    node.scenario.set_instance(0, 1, "compute 0")
    probe = node.opened()
    for _ in range(10):
        node.events(probe)
    node.scenario.set_instance(0, 1, "compute 1")
    found = readings([*node.events(probe), *node.events(probe)])
    assert [reading.gpu.mig_uuid != "" for reading in found] == [True]
