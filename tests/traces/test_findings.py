"""Each finding claims the seconds that it is about, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter.traces.families import Kind
from ofu_exporter.traces.findings import TraceFacts, Waiting, findings_of
from ofu_exporter.traces.host import Idle, Scope
from ofu_exporter.traces.seconds import IDLE_PART, TimeCell
from ofu_exporter.values.trace import Finding
from tests.traces.trace_maker import (
    ADD,
    ALL_REDUCE,
    AMPERE,
    FLASH,
    FUSED_ADAM,
    NHWC,
    NORM,
    PRODUCT,
    SEND_RECEIVE,
    SGEMM,
    SOFTMAX,
    TO_GPU,
)

PAGEABLE = "Memcpy HtoD (Pageable -> Device)"


def cell(kind: int, name: str, operator: str = "", seconds: float = 20.0, **of: Any) -> TimeCell:
    known = {"scope": Scope.NONE, "idle": None, "is_small": False, "launches": 200} | of
    return TimeCell(kind, name, operator, seconds=seconds, **known)


def idle(why: Idle, seconds: float = 20.0) -> TimeCell:
    return cell(IDLE_PART, "call", "aten::mm", seconds, idle=why)


def found(*cells: TimeCell, **facts: Any) -> tuple[Finding, ...]:
    """Of cells of a trace of 100 seconds on an H100, of which sound products took the rest."""
    rest = 100.0 - sum(each.seconds for each in cells)
    known: dict[str, Any] = {
        "steps": 2,
        "cpu_collectives": {},
        "capability": 90,
        "padding": {},
        "waiting": None,
    }
    every = [*cells, cell(Kind.TENSOR, PRODUCT, "aten::mm", rest)]
    return findings_of(TraceFacts(every, 100.0, **known | facts))


@pytest.mark.parametrize(
    ("one", "finding"),
    [
        (cell(Kind.OTHER, SGEMM), "fp32_products"),
        (cell(Kind.TENSOR, AMPERE), "older_instructions"),
        (cell(Kind.TENSOR, PRODUCT, scope=Scope.RECOMPUTE), "recompute"),
        (cell(Kind.OTHER, NORM, scope=Scope.RECOMPUTE), "recompute"),
        (cell(Kind.COMMUNICATION, ALL_REDUCE, scope=Scope.RECOMPUTE), "all_reduce_not_hidden"),
        (cell(Kind.COPY, TO_GPU, scope=Scope.RECOMPUTE), None),
        (cell(Kind.OTHER, NHWC), "layout_copies"),
        (cell(Kind.OTHER, NORM, "aten::contiguous"), "layout_copies"),
        (cell(Kind.COPY, "Memcpy DtoD (Device -> Device)", "aten::contiguous"), None),
        (cell(Kind.OTHER, NORM), None),
        (cell(Kind.OTHER, NORM, scope=Scope.OPTIMIZER), None),
        (cell(Kind.OTHER, ADD, scope=Scope.OPTIMIZER, launches=100), "optimizer_per_tensor"),
        (cell(Kind.OTHER, ADD, scope=Scope.OPTIMIZER, launches=99), "unfused_elementwise"),
        (cell(Kind.OTHER, FUSED_ADAM, scope=Scope.OPTIMIZER), None),
        (cell(Kind.TENSOR, PRODUCT, is_small=True), "small_products"),
        (cell(Kind.TENSOR, FLASH, is_small=True), None),
        (cell(Kind.OTHER, ADD), "unfused_elementwise"),
        (cell(Kind.COPY, PAGEABLE), "pageable_copies"),
        (cell(Kind.COPY, TO_GPU), None),
        (cell(Kind.COMMUNICATION, SEND_RECEIVE, "nccl:all_to_all"), "all_to_all"),
        (cell(Kind.COMMUNICATION, SEND_RECEIVE), "all_to_all"),
        (cell(Kind.COMMUNICATION, SEND_RECEIVE, "nccl:send 0->1"), None),
        (cell(Kind.COMMUNICATION, SEND_RECEIVE, "nccl:recv 0<-1"), None),
        (cell(Kind.COMMUNICATION, ALL_REDUCE), "all_reduce_not_hidden"),
        (idle(Idle.CHECKPOINT), "checkpoint"),
        (idle(Idle.GARBAGE_COLLECTION), "garbage_collection"),
        (idle(Idle.DATA_LOADER), "data_loader"),
        (idle(Idle.SYNCHRONISATION), "synchronisation"),
        (idle(Idle.ALLOCATION), "synchronisation"),
        (idle(Idle.OPERATOR), "host_bound"),
        (idle(Idle.OTHER_HOST), "host_bound"),
        (idle(Idle.STALLED), "host_bound"),
        (idle(Idle.OTHER_STREAM), None),
        (idle(Idle.BETWEEN_LAUNCHES), None),
        (idle(Idle.UNKNOWN), None),
    ],
)
def test_what_a_fifth_of_the_time_was_lost_to(one: TimeCell, finding: str | None) -> None:
    assert [(each.finding, each.share) for each in found(one)] == (
        [(finding, 0.2)] if finding else []
    )


@pytest.mark.parametrize(
    ("one", "least"),
    [
        (idle(Idle.DATA_LOADER), 2.0),
        (cell(Kind.OTHER, NHWC), 2.0),
        (cell(Kind.OTHER, SGEMM), 3.0),
        (cell(Kind.COMMUNICATION, ALL_REDUCE), 3.0),
        (idle(Idle.OPERATOR), 5.0),
        (cell(Kind.OTHER, ADD), 15.0),
    ],
)
def test_what_every_job_has_a_little_of_is_told_where_it_is_much(
    one: TimeCell, least: float
) -> None:
    for seconds, is_told in ((least, True), (least - 0.1, False)):
        one.seconds = seconds
        assert len(found(one)) == is_told


def test_no_finding_costs_more_than_all_of_the_time() -> None:
    """The sum of floats may be a little more, and an agent refuses it."""
    cells = [cell(Kind.OTHER, SGEMM, seconds=0.1) for _ in range(6)]
    facts = TraceFacts(cells, 0.6 - 1e-15, 0, {}, 90, {}, None)
    assert [each.share for each in findings_of(facts)] == [1.0]


def test_kernels_for_an_older_gpu_are_slower_where_a_newer_one_has_others() -> None:
    (older,) = found(cell(Kind.TENSOR, AMPERE))
    assert older.evidence.startswith("200 (100 a step) launches on compute capability 9.0 of cutl")
    for capability in (80, 86, None):
        assert found(cell(Kind.TENSOR, AMPERE), capability=capability) == ()


def test_attention_is_unfused_where_products_and_a_softmax_ran_for_it() -> None:
    softmax, product = (
        cell(Kind.OTHER, SOFTMAX, "aten::_softmax"),
        cell(Kind.TENSOR, PRODUCT, "aten::bmm"),
    )
    scaled = cell(Kind.OTHER, NORM, scope=Scope.ATTENTION)
    others = (cell(Kind.OTHER, NORM), cell(Kind.COPY, TO_GPU, scope=Scope.ATTENTION))
    (unfused,) = found(softmax, product, scaled, *others)
    assert unfused.finding == "unfused_attention"
    assert unfused.share == pytest.approx(0.6)
    assert found(softmax, scaled) == found(product, scaled) == ()
    assert found(cell(Kind.OTHER, SOFTMAX, "aten::_log_softmax"), product) == ()


def test_tiles_cost_the_share_that_they_add_to_tensor_work() -> None:
    (padded,) = found(padding={PRODUCT: 0.25, SGEMM: 0.5})
    assert (padded.finding, padded.share) == ("padding", 0.25)


def test_the_waits_for_a_rank_are_no_cost_of_communication() -> None:
    waiting = Waiting(7, 0.75, 3, 4)
    slow, rest = found(cell(Kind.COMMUNICATION, ALL_REDUCE), waiting=waiting)
    assert (slow.finding, rest.finding) == ("slow_rank", "all_reduce_not_hidden")
    assert (slow.share, rest.share) == pytest.approx((0.15, 0.05))
    assert "rank 7 came last to 3 of 4 collectives" in slow.evidence


def test_cpus_that_communicate_are_named_with_how_often() -> None:
    waits = idle(Idle.CPU_COLLECTIVE)
    (told,) = found(waits, cpu_collectives={"gloo:send": 1200})
    assert told.evidence == "nothing ran on the GPU while CPUs communicated: 1,200 gloo:send"
    assert found(waits) == ()


def test_what_a_collective_was_launched_by_is_told_where_it_is_known() -> None:
    during = f"nothing computed during 200 (100 a step) launches of {ALL_REDUCE[:80]}"
    for operator, by in (("nccl:all_reduce", ", by nccl:all_reduce"), ("", "")):
        (told,) = found(cell(Kind.COMMUNICATION, ALL_REDUCE, operator))
        assert told.evidence == during + by


def test_what_the_host_was_to_launch_and_where_it_stood_are_told() -> None:
    unknown = cell(IDLE_PART, "", idle=Idle.OTHER_HOST, seconds=10.0)
    (told,) = found(unknown)
    assert told.evidence == "10 s with nothing queued"
    (told,) = found(unknown, idle(Idle.OPERATOR), idle(Idle.STALLED, 5.0))
    assert told.evidence == (
        "30 s with nothing queued, on the way to launches of aten::mm; "
        "5 s in which the queued work waited and the host, in call, launched nothing else"
    )


@pytest.mark.parametrize(("length", "end"), [(80, ""), (81, "...")])
def test_a_name_is_told_up_to_eighty_letters(length: int, end: str) -> None:
    (told,) = found(cell(IDLE_PART, "x" * length, idle=Idle.DATA_LOADER))
    assert told.evidence == f"nothing ran on the GPU during {'x' * 80}{end}"


def test_the_three_that_took_most_are_named() -> None:
    loads = [cell(IDLE_PART, f"load {n}", idle=Idle.DATA_LOADER, seconds=n) for n in range(1, 6)]
    (told,) = found(*loads, cell(IDLE_PART, "load 2", idle=Idle.DATA_LOADER, seconds=9.0))
    named = "load 2, load 5, load 4 and 2 more"
    assert told.evidence == f"nothing ran on the GPU during {named}"
