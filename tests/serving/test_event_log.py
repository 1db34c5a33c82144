"""The ring of events: each change once, in words, with a number; bounded, and quiet where nothing has happened."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from ofu_exporter.serving.event_log import (
    MOST_BYTES,
    MOST_EVENTS,
    MOST_LOST,
    Event,
    EventKind,
    EventLog,
)
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import JobView, Snapshot, SourceHealth
from tests.helpers.desk import Desk
from tests.helpers.node import EPOCH, Node, snapshot_of, whole
from tests.helpers.values import fault, gpu, reading

ADA = Job("slurm", "7", "llama", "ada")
SOURCE = "the GPUs are read through nvml"


def said(log: EventLog, *kinds: EventKind) -> list[str]:
    """The sentences, of these kinds alone where any are given."""
    return [event.sentence for event in log.after(0)[0] if not kinds or event.kind in kinds]


def at(node: Node, now: float, *devices: int) -> Snapshot:
    """The node at a time at which these GPUs have a new window."""
    return node.tick(now, *(reading(now - 5.0, now, device=gpu(index)) for index in devices))


@pytest.fixture
def log() -> EventLog:
    return EventLog(EPOCH)


def test_a_job_that_begins_and_ends_is_two_events(log: EventLog) -> None:
    node = Node(2)
    log.take(node.last)
    log.take(node.give(10.0, whole(ADA, "0", "1")))
    for end in range(15, 315, 5):
        log.take(at(node, float(end), 0, 1))
    log.take(node.give(310.0))
    log.take(at(node, 315.0, 0, 1))
    events, newest = log.after(0)
    assert [(event.number, event.kind) for event in events] == [
        (1, EventKind.SOURCE_CHANGED),
        (2, EventKind.JOB_BEGAN),
        (3, EventKind.JOB_ENDED),
    ]
    assert newest == 3
    assert events[1].sentence == "job 7 (llama, ada) holds GPU 0, 1"
    assert events[2].sentence == (
        "job 7 (llama, ada) has ended after 5 min: OFU 38.3% over 0.17 GPU-hours"
    )
    assert [event.unix for event in events[1:]] == [EPOCH + 10, EPOCH + 310]


def test_a_job_between_two_snapshots_has_both_events(log: EventLog) -> None:
    node = Node(1)
    log.take(node.last)
    node.give(11.0, whole(ADA, "0"))
    node.give(12.0)
    log.take(at(node, 15.0, 0))
    log.take(at(node, 20.0, 0))
    assert [event.kind for event in log.after(1)[0]] == [EventKind.JOB_BEGAN, EventKind.JOB_ENDED]


def test_a_job_that_an_earlier_agent_saw_begin_does_not_begin_again() -> None:
    node = Node(1)
    node.give(10.0, whole(ADA, "0"))
    log = EventLog(EPOCH + 100)
    log.take(at(node, 105.0, 0))
    assert said(log) == [SOURCE]
    log.take(node.give(110.0))
    assert len(said(log, EventKind.JOB_ENDED)) == 1


def test_a_job_that_was_found_late_says_since_when_it_runs(log: EventLog) -> None:
    node = Node(1)
    log.take(node.last)
    log.take(node.give(7200.0, whole(replace(ADA, started=EPOCH), "0")))
    assert said(log, EventKind.JOB_BEGAN) == [
        "job 7 (llama, ada) holds GPU 0; it began 2.0 h before it was seen"
    ]


def test_a_run_that_begins_anew_under_the_same_id_is_an_event(log: EventLog) -> None:
    node = Node(1)
    log.take(node.last)
    log.take(node.give(10.0, whole(replace(ADA, uid="a"), "0")))
    log.take(node.give(20.0, whole(replace(ADA, uid="b"), "0")))
    assert said(log, EventKind.JOB_BEGAN) == [
        "job 7 (llama, ada) holds GPU 0",
        "job 7 (llama, ada) holds GPU 0, run 2",
    ]


def test_a_gpu_that_is_lost_and_comes_back_is_two_events_however_long_it_is_away(
    log: EventLog,
) -> None:
    node = Node(2)
    log.take(at(node, 5.0, 0, 1))
    for now in (10.0, 15.0, 20.0):
        log.take(node.tick(now, fault(now, Reason.LOST, gpu(1)), reading(now - 5, now)))
    for now in (25.0, 30.0):
        log.take(at(node, now, 0, 1))
    assert said(log, EventKind.GPU_LOST) == ["GPU 1 is not measured: lost (detail)"]
    assert said(log, EventKind.GPU_BACK) == ["GPU 1 is measured again"]


def test_a_gpu_that_is_gone_from_the_source_is_lost(log: EventLog) -> None:
    node = Node(2)
    both = at(node, 5.0, 0, 1)
    log.take(both)
    for _ in range(2):
        log.take(replace(both, gpus=both.gpus[:1]))
    assert said(log, EventKind.GPU_LOST) == ["GPU 1 is no longer seen"]
    log.take(both)
    assert said(log, EventKind.GPU_BACK) == ["GPU 1 is measured again"]


def test_the_start_of_an_agent_loses_and_finds_no_gpu(log: EventLog) -> None:
    node = Node(2)
    log.take(node.last)
    log.take(at(node, 5.0, 0, 1))
    assert said(log) == [SOURCE]


def test_verdicts_are_events_when_they_turn_and_not_while_there_is_none(log: EventLog) -> None:
    desk = Desk(1)
    desk.give(ADA, "0")

    def go(seconds: float, mfu: float | None) -> None:
        for _ in range(int(seconds / 30)):
            desk.run(30.0, 0.5)
            if mfu is not None:
                desk.report("7", mfu=mfu, precision="bf16")
            desk.show()
            log.take(desk.shown)

    go(900, 0.38)
    assert len(said(log, EventKind.VERDICT_TURNED)) == 1
    go(1200, None)
    go(900, 0.38)
    assert len(said(log, EventKind.VERDICT_TURNED)) == 1, "silence turns no verdict"
    go(1500, 0.9)
    agreed, above = said(log, EventKind.VERDICT_TURNED)
    assert "agrees with OFU: reported MFU 38.0%, OFU 38.3%" in agreed
    assert "reports an MFU above OFU" in above


def test_a_source_is_an_event_when_another_one_reads(log: EventLog) -> None:
    shown = snapshot_of(reading())
    log.take(shown)
    log.take(shown)
    log.take(snapshot_of(reading(), source=SourceHealth("dcgm", up=True, reason=None)))
    none = snapshot_of(source=SourceHealth("dcgm", reason=Reason.UNREACHABLE))
    log.take(none)
    log.take(replace(none, source=replace(none.source, detail="another one")))
    assert said(log, EventKind.SOURCE_CHANGED) == [
        SOURCE,
        "the GPUs are read through dcgm",
        "no GPU can be read: source dcgm: unreachable",
    ]


def test_a_pause_is_two_events_and_loses_no_gpu(log: EventLog) -> None:
    node = Node(2)
    log.take(at(node, 5.0, 0, 1))
    held = node.tick(10.0, *(fault(10.0, Reason.PAUSED, gpu(index)) for index in range(2)))
    starting = SourceHealth("nvml", reason=Reason.STARTING)
    log.take(replace(held, paused=True, source=SourceHealth("nvml", reason=Reason.PAUSED)))
    stale = node.tick(15.0, *(fault(15.0, Reason.STALE, gpu(index)) for index in range(2)))
    log.take(replace(stale, source=starting))
    log.take(at(node, 20.0, 0, 1))
    assert [event.kind for event in log.after(0)[0]] == [
        EventKind.SOURCE_CHANGED,
        EventKind.PAUSED,
        EventKind.RESUMED,
    ]


def test_only_what_is_new_is_given(log: EventLog) -> None:
    node = Node(1)
    log.take(at(node, 5.0, 0))
    log.take(node.give(10.0, whole(ADA, "0")))
    assert [event.number for event in log.after(1)[0]] == [2]
    assert log.after(2) == ([], 2)
    assert [event.number for event in log.after(999)[0]] == [1, 2], "a number of another agent"


def test_the_ring_is_bounded_in_number_and_bytes(log: EventLog) -> None:
    def jobs(snapshot: Snapshot, number: int, name: str) -> Snapshot:
        job = Job("slurm", f"{name}{number}", name, "\u4e2d" * 300)
        view = JobView(job, (), {}, began=EPOCH + number, ended=None, updated=EPOCH)
        return replace(snapshot, jobs=(view,))

    empty = snapshot_of(reading())
    for number in range(700):
        log.take(jobs(empty, number, "x"))
    events, newest = log.after(0)
    assert newest > MOST_EVENTS
    assert len(events) < MOST_EVENTS
    assert sum(_bytes(event) for event in events) <= MOST_BYTES
    assert [event.number for event in events] == list(range(events[0].number, newest + 1))
    assert all(len(event.sentence) <= 400 for event in events)
    short = EventLog(EPOCH)
    for number in range(700):
        short.take(replace(empty, jobs=jobs(empty, number, "y").jobs[:1]) if number % 2 else empty)
    assert len(short.after(0)[0]) <= MOST_EVENTS


def _bytes(event: Event) -> int:
    return len(event.sentence.encode()) + len(event.subject.encode())


def test_gpus_that_come_and_go_for_ever_take_no_memory(log: EventLog) -> None:
    for number in range(MOST_LOST + 300):
        log.take(snapshot_of(reading(device=gpu(0, uuid=f"GPU-{number}"))))
    assert len(log._lost) <= MOST_LOST
    assert len(log._gpus) == 1


def test_each_event_has_a_line_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log, node = EventLog(EPOCH), Node(1)
    log.take(node.last)
    log.take(node.give(10.0, whole(ADA, "0")))
    assert [record.message for record in caplog.records] == [SOURCE, said(log)[1]]
    assert {record.levelno for record in caplog.records} == {logging.INFO}


def test_a_job_that_cannot_be_told_of_costs_no_gpu_its_event(log: EventLog) -> None:
    shown = snapshot_of(fault(5.0))
    log.take(replace(shown, jobs=(None,)))  # type: ignore[arg-type]
    assert said(log, EventKind.GPU_LOST) == ["GPU 0 is not measured: lost (detail)"]


def test_names_of_others_are_shown_by_their_escapes(log: EventLog) -> None:
    node = Node(1)
    log.take(node.last)
    log.take(node.give(10.0, whole(Job("slurm", "7", "\x1b[2J", "a\nb"), "0")))
    (line,) = said(log, EventKind.JOB_BEGAN)
    assert line == r"job 7 (\x1b[2J, a\nb) holds GPU 0"
