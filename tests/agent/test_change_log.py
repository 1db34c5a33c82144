"""The log of changes: one line each, as loud as the change is bad, with what happened as a field."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from ofu_exporter.agent.change_log import ChangeLog
from ofu_exporter.serving.faults import Faults
from ofu_exporter.support.logs import JsonLines
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import Reason, SchedulerReason
from ofu_exporter.values.snapshot import SchedulerHealth, Snapshot, SourceHealth
from tests.helpers.agent import SIMULATED, agent, until
from tests.helpers.desk import Desk
from tests.helpers.node import EPOCH, Node, snapshot_of, whole
from tests.helpers.values import fault, gpu, reading

ADA = Job("slurm", "7", "llama", "ada")
SOURCE = "the GPUs are read through nvml"


class Logged:
    """A log of changes, and the records that it made."""

    def __init__(self, caplog: pytest.LogCaptureFixture, began: float = EPOCH) -> None:
        caplog.set_level(logging.INFO)
        self._caplog = caplog
        self.faults = Faults()
        self._changes = ChangeLog(began, self.faults)

    def take(self, *snapshots: Snapshot) -> None:
        for snapshot in snapshots:
            self._changes.take(snapshot)

    def lines(self, *events: str) -> list[str]:
        """The lines of these events; of all without any."""
        records = self._caplog.records
        return [each.message for each in records if not events or _event(each) in events]

    @property
    def events(self) -> list[str]:
        return [_event(record) for record in self._caplog.records]


def _event(record: logging.LogRecord) -> str:
    return str(getattr(record, "event", ""))


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Logged:
    return Logged(caplog)


def at(node: Node, now: float, *devices: int) -> Snapshot:
    """The node at a time at which these GPUs have a new window."""
    return node.tick(now, *(reading(now - 5.0, now, device=gpu(index)) for index in devices))


@pytest.mark.parametrize(
    ("reason", "level"),
    [
        (SchedulerReason.NO_JOB_YET, logging.INFO),
        (SchedulerReason.UNTRUSTED, logging.WARNING),
        (SchedulerReason.ABSENT, logging.WARNING),
    ],
)
def test_a_scheduler_that_does_not_say_who_owns_what_is_logged_once(
    logged: Logged, caplog: pytest.LogCaptureFixture, reason: SchedulerReason, level: int
) -> None:
    """That no job has begun yet is no fault of the node."""
    down = SchedulerHealth("slurm", reason=reason, detail="/run/jobs: 1 of 2")
    before = snapshot_of(reading())
    after = replace(before, schedulers=(down,))
    logged.take(before)
    caplog.clear()
    other_numbers = replace(down, detail="/run/jobs: 2 of 9")
    logged.take(after, after, replace(after, schedulers=(other_numbers,)))
    (line,) = caplog.records
    assert line.levelno == level
    assert reason.advice in line.getMessage()
    assert "/run/jobs" in line.getMessage()


def test_a_job_that_begins_and_ends_has_two_lines(logged: Logged) -> None:
    node = Node(2)
    logged.take(node.last, node.give(10.0, whole(ADA, "0", "1")))
    for end in range(15, 315, 5):
        logged.take(at(node, float(end), 0, 1))
    logged.take(node.give(310.0), at(node, 315.0, 0, 1))
    assert logged.lines("source_changed", "job_began", "job_ended") == [
        SOURCE,
        "job 7 (llama, ada) holds GPU 0, 1",
        "job 7 (llama, ada) has ended after 5 min: OFU 38.3% over 0.17 GPU-hours",
    ]


def test_a_job_between_two_snapshots_has_both_lines(logged: Logged) -> None:
    node = Node(1)
    logged.take(node.last)
    node.give(11.0, whole(ADA, "0"))
    node.give(12.0)
    logged.take(at(node, 15.0, 0), at(node, 20.0, 0))
    assert logged.events[-2:] == ["job_began", "job_ended"]
    assert logged.lines("job_began") == ["job 7 (llama, ada) has begun"]


def test_a_job_that_an_earlier_agent_saw_begin_does_not_begin_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = Node(1)
    node.give(10.0, whole(ADA, "0"))
    logged = Logged(caplog, EPOCH + 100)
    logged.take(at(node, 105.0, 0))
    assert not logged.lines("job_began")
    logged.take(node.give(110.0))
    assert len(logged.lines("job_ended")) == 1


def test_a_job_that_was_found_late_says_since_when_it_runs(logged: Logged) -> None:
    node = Node(1)
    logged.take(node.last, node.give(7200.0, whole(replace(ADA, started=EPOCH), "0")))
    assert logged.lines("job_began") == [
        "job 7 (llama, ada) holds GPU 0; it began 2.0 h before it was seen"
    ]


def test_a_run_that_begins_anew_under_the_same_id_has_a_line(logged: Logged) -> None:
    node = Node(1)
    logged.take(node.last)
    for number, uid in ((1, "a"), (2, "b")):
        logged.take(node.give(10.0 * number, whole(replace(ADA, uid=uid), "0")))
    assert logged.lines("job_began") == [
        "job 7 (llama, ada) holds GPU 0",
        "job 7 (llama, ada) holds GPU 0, run 2",
    ]


def test_the_end_of_a_run_tells_of_that_run_alone(logged: Logged) -> None:
    node = Node(1)
    logged.take(node.last, node.give(10.0, whole(replace(ADA, uid="a"), "0")))
    for end in range(15, 165, 5):
        logged.take(at(node, float(end), 0))
    logged.take(node.give(160.0, whole(replace(ADA, uid="b"), "0")))
    for end in range(165, 205, 5):
        logged.take(node.tick(float(end), reading(end - 5, end, 0.0)))
    logged.take(node.give(200.0))
    assert logged.lines("job_ended") == [
        "job 7 (llama, ada) has ended after 40 s: OFU 0.0% over 0.01 GPU-hours"
    ]


def test_a_gpu_that_is_lost_and_comes_back_has_two_lines_however_long_it_is_away(
    logged: Logged,
) -> None:
    node = Node(2)
    logged.take(at(node, 5.0, 0, 1))
    for now in (10.0, 15.0, 20.0):
        logged.take(node.tick(now, fault(now, Reason.LOST, gpu(1)), reading(now - 5, now)))
    for now in (25.0, 30.0):
        logged.take(at(node, now, 0, 1))
    (lost,) = logged.lines("gpu_lost")
    assert lost.startswith("GPU 1 (GPU-0001) is not measured (lost: detail). ")
    assert logged.lines("gpu_back")[-1] == "GPU 1 (GPU-0001) is measured"
    assert len(logged.lines("gpu_back")) == 3


def test_a_gpu_that_is_gone_from_the_source_is_lost(logged: Logged) -> None:
    node = Node(2)
    both = at(node, 5.0, 0, 1)
    logged.take(both, *[replace(both, gpus=both.gpus[:1])] * 2)
    assert logged.lines("gpu_lost") == ["GPU 1 (GPU-0001) is no longer seen"]
    logged.take(both)
    assert logged.lines("gpu_back")[-1] == "GPU 1 (GPU-0001) is measured"


@pytest.mark.slow
def test_verdicts_have_a_line_when_they_turn_and_not_while_there_is_none(logged: Logged) -> None:
    desk = Desk(1)
    desk.give(ADA, "0")

    def go(seconds: float, mfu: float | None) -> None:
        for _ in range(int(seconds / 30)):
            desk.run(30.0, 0.5)
            if mfu is not None:
                desk.report("7", mfu=mfu, precision="bf16")
            desk.show()
            logged.take(desk.shown)

    go(900, 0.38)
    assert len(logged.lines("verdict_turned")) == 1
    go(1200, None)
    go(900, 0.38)
    assert len(logged.lines("verdict_turned")) == 1, "silence turns no verdict"
    go(1500, 0.9)
    agreed, above = logged.lines("verdict_turned")
    assert "agrees with OFU: reported MFU 38.0%, OFU 38.3%" in agreed
    assert "reports an MFU above OFU" in above


def test_a_source_has_a_line_when_another_one_reads(logged: Logged) -> None:
    shown = snapshot_of(reading())
    dcgm = snapshot_of(reading(), source=SourceHealth("dcgm", up=True, reason=None))
    none = snapshot_of(source=SourceHealth("dcgm", reason=Reason.UNREACHABLE))
    logged.take(replace(none, source=SourceHealth("dcgm", reason=Reason.STARTING)))
    logged.take(shown, shown, dcgm, none)
    logged.take(replace(none, source=replace(none.source, detail="another one")))
    assert logged.lines("source_changed") == [
        SOURCE,
        "the GPUs are read through dcgm",
        "no GPU can be read: source dcgm: unreachable",
    ]


def test_a_pause_has_a_line_when_it_begins_and_when_it_ends(logged: Logged) -> None:
    node = Node(1)
    logged.take(at(node, 5.0, 0))
    held = node.tick(10.0, fault(10.0, Reason.PAUSED))
    source = SourceHealth("nvml", reason=Reason.PAUSED)
    logged.take(replace(held, paused=True, source=source))
    logged.take(replace(held, paused=True, released=True, source=source))
    resumed = node.tick(15.0, fault(15.0, Reason.STALE))
    logged.take(replace(resumed, source=SourceHealth("nvml")))
    logged.take(at(node, 20.0, 0))
    assert logged.events == [
        "source_changed",
        "gpu_back",
        "scheduler_changed",
        "paused",
        "paused",
        "resumed",
        "gpu_back",
    ]


def test_what_cannot_be_described_costs_no_other_line(logged: Logged) -> None:
    logged.take(replace(snapshot_of(fault(5.0)), jobs=(None,)))  # type: ignore[arg-type]
    assert len(logged.lines("gpu_lost")) == 1
    assert logged.faults.counts() == {"log": 2}, "jobs and verdicts"


@pytest.mark.slow
def test_what_happens_is_a_field_of_a_line_and_the_page_shows_the_line() -> None:
    with agent(*SIMULATED, "--log-format", "json") as running:
        assert running.logs('"event": "job_began", "subject": "1001"')
        until(lambda: "holds GPU" in running.get("/")[1])
        page = running.get("/")[1]
    assert "What has happened" in page
    assert "serving on" not in page, "the page shows the log of changes, and no address or file"


def test_a_line_of_json_has_the_fields(logged: Logged, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(1)
    logged.take(node.give(10.0, whole(ADA, "0")))
    fields = json.loads(JsonLines().format(caplog.records[-1]))
    assert (fields["event"], fields["subject"]) == ("job_began", "7")
