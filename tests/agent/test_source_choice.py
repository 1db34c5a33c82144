"""Which source each GPU is read by."""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.agent.source_choice import MOST_ANSWERS, SourceChoice, chosen, identified
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reasons import Reason
from tests.helpers.values import fault, gpu, reading

H100, A30 = gpu(0), gpu(1)
NAMED = {"nvml": [H100, A30], "page": [H100, A30]}


def mixed() -> SourceChoice:
    choice = SourceChoice()
    choice.take("nvml", [reading(device=H100), fault(5, Reason.NOT_SUPPORTED, A30)])
    return choice


def test_before_anything_is_known_the_first_source_reads_all() -> None:
    assert set(SourceChoice().readers(NAMED).values()) == {"nvml"}


def test_a_gpu_is_handed_on_when_its_source_is_unable() -> None:
    assert mixed().readers(NAMED) == {H100.uuid: "nvml", A30.uuid: "page"}


def test_it_is_waited_for_until_the_next_has_spoken() -> None:
    choice = mixed()
    assert choice.waits(NAMED)
    choice.take("page", [reading(device=A30)])
    assert not choice.waits(NAMED)
    assert choice.unmeasured(NAMED) == []


def test_when_none_can_the_first_gives_its_reason() -> None:
    choice = mixed()
    choice.take("page", [fault(5, Reason.NO_TENSOR_COUNTER, A30)])
    assert choice.readers(NAMED)[A30.uuid] == "nvml"
    assert choice.unmeasured(NAMED) == [A30.uuid]


def test_trouble_that_passes_hands_nothing_on() -> None:
    choice = SourceChoice()
    for reason in (Reason.LOST, Reason.HUNG, Reason.COUNTER_BUSY, Reason.BLANK, Reason.FAILED):
        choice.take("nvml", [fault(5, reason, H100)])
        assert choice.readers(NAMED)[H100.uuid] == "nvml"


def test_what_is_known_of_gpus_that_were_not_heard_of_for_longest_is_forgotten() -> None:
    choice = mixed()
    others = [replace(A30, uuid=f"GPU-{number}") for number in range(MOST_ANSWERS - 1)]
    choice.take("nvml", [fault(5, Reason.NOT_SUPPORTED, each) for each in others])
    assert choice.readers(NAMED)[A30.uuid] == "page"
    choice.take("nvml", [fault(5, Reason.NOT_SUPPORTED, replace(A30, uuid="GPU-new"))])
    assert choice.readers(NAMED)[A30.uuid] == "nvml"
    last = [H100, others[0]]
    assert set(choice.readers({"nvml": others[:1], "page": last}).values()) == {"page"}


def test_a_gpu_that_only_one_source_names_is_read_by_that() -> None:
    assert SourceChoice().readers({"nvml": [H100], "page": [A30]}) == {
        H100.uuid: "nvml",
        A30.uuid: "page",
    }


def test_instances_and_their_gpu_are_one() -> None:
    """The first source sees an A100 as a whole it cannot read, the second its instances."""
    parts = [gpu(1, instance=part) for part in ("1", "2")]
    named: dict[str, list[Gpu]] = {"nvml": [H100, A30], "dcgm": [H100, *parts]}
    choice = mixed()
    choice.take("dcgm", [reading(device=parts[0]), fault(5, Reason.NOT_SUPPORTED, parts[1])])
    readers = choice.readers(named)
    assert chosen(named, readers) == [H100, *parts]


def test_what_a_closed_source_said_is_forgotten() -> None:
    choice = mixed()
    assert choice.has_answered("nvml", [H100, A30])
    choice.forget("nvml")
    assert not choice.has_answered("nvml", [H100])


def test_a_gpu_that_is_handed_on_keeps_the_names_that_schedulers_call_it_by() -> None:
    """Only the first source knows /dev/nvidiaN and MIG uuids; what the second does not name stays unknown."""
    whole, part, other = replace(A30, minor=3), gpu(1, instance="1"), gpu(1, instance="2")
    named: dict[str, list[Gpu]] = {
        "nvml": [whole, replace(part, minor=3, mig_uuid="MIG-1")],
        "page": [part, other],
    }
    assert chosen(named, {A30.uuid: "page"}) == [
        replace(part, minor=3, mig_uuid="MIG-1"),
        replace(other, minor=3),
    ]
    assert chosen({"page": [part]}, {A30.uuid: "page"}) == [part]
    assert chosen({"nvml": [whole]}, {A30.uuid: "nvml"}) == [whole]


def test_a_gpu_that_one_source_knows_by_its_number_alone_is_another_sources() -> None:
    """The driver lets the agent count a GPU but not reach it, and the host engine measures it."""
    unnamed, lost = Gpu("1", "index-1"), Gpu("2", "index-2")
    named: dict[str, list[Gpu]] = {"nvml": [H100, unnamed, lost], "dcgm": [H100, A30]}
    assert identified(named) == {"nvml": [H100, lost], "dcgm": [H100, A30]}
