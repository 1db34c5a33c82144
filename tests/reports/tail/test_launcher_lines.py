"""Restarts in the lines of NVRx's launcher: recordings/nvrx/README.md says how they were made."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from ofu_exporter.client.intervals import Call, IntervalReport
from ofu_exporter.flops.readers import JobFacts
from ofu_exporter.reports.tail.launcher_lines import Restarts
from ofu_exporter.reports.tail.lines import TailLine
from ofu_exporter.reports.tail.statements import LogTail

LOG = (Path(__file__).parents[2] / "recordings/nvrx/launcher.log").read_text().splitlines()
DAY = datetime(2026, 11, 27, 9, 13, tzinfo=timezone.utc).timestamp()
BEGUN = "rendezvous_completed"
FAILED = [(35.924, 35.990), (36.316, 36.377), (37.330, 37.391)]
"""Seconds of that minute: of each failure, and of the rendezvous after it, as the log has them."""


def test_each_failure_until_its_workers_start_again_is_a_restart() -> None:
    restarts = Restarts()
    told = [restart for line in LOG if (restart := restarts.line(line))]
    assert [(begun - DAY, ended - DAY) for begun, ended in told] == [
        pytest.approx(each) for each in FAILED
    ]


def test_lines_of_two_nodes_are_one_restart() -> None:
    both = [line for each in LOG for line in (each, each.replace("n1_7_0", "n2_9_1"))]
    restarts = Restarts()
    assert sum(restarts.line(line) is not None for line in both) == len(FAILED)


def test_a_failure_after_which_nothing_starts_is_no_restart() -> None:
    restarts = Restarts()
    assert not any(restarts.line(line) for line in LOG if "failure_detected" in line)


def line(cycle: int, event: str, second: float) -> str:
    return f"  - Cycle: {cycle} Event: {event} Node: n Rank: 0 Time: 2026-11-27 09:13:{second:06.3f} UTC"


def test_of_two_failures_of_a_cycle_the_first_began_the_restart() -> None:
    restarts = Restarts()
    told = [
        restarts.line(line(1, event, second))
        for event, second in (("failure_detected", 1), ("failure_detected", 2), (BEGUN, 9))
    ]
    assert told == [None, None, (DAY + 1, DAY + 9)]


def test_a_failure_that_is_told_late_or_by_a_clock_ahead_is_no_restart() -> None:
    restarts = Restarts()
    lines = [(1, "failure_detected", 1), (1, BEGUN, 9), (1, "failure_detected", 2)]
    lines += [(1, "worker_start_started", 10), (2, "failure_detected", 30), (2, BEGUN, 29)]
    told = [restarts.line(line(*each)) for each in lines]
    assert told == [None, (DAY + 1, DAY + 9), None, None, None, None]


def test_a_launcher_that_counts_anew_tells_its_restarts_whatever_was_before() -> None:
    restarts = Restarts()
    for each in (line(4, "failure_detected", 1), line(4, BEGUN, 2), line(5, "failure_detected", 3)):
        restarts.line(each)
    told = [restarts.line(each) for each in (line(0, BEGUN, 10), line(1, "failure_detected", 20))]
    assert [*told, restarts.line(line(1, BEGUN, 30))] == [None, None, (DAY + 20, DAY + 30)]


@pytest.mark.parametrize("text", ["", "2026-13-40 10:00:00.000", "x" * 4000])
def test_a_line_with_another_time_is_none(text: str) -> None:
    restarts = Restarts()
    restarts.line(f"  - Cycle: 1 Event: failure_detected Node: n Rank: 0 Time: {text} UTC")
    assert restarts.line(line(1, BEGUN, 9)) is None


def test_tail_tells_a_restart_among_the_steps_of_a_log() -> None:
    said: list[str] = []
    now = DAY + 40.0
    log = LogTail("megatron", JobFacts(), said.append, lambda: now)
    step = " iteration       90/ 100 | elapsed time per iteration (ms): 2000.0 | per "
    stated = [log.take(TailLine(line, is_new=True)) for line in (*LOG[:7], step)]
    restart, reached = (each for each in stated if each is not None)
    assert isinstance(restart, IntervalReport)
    assert restart.fields() == {
        "start": pytest.approx(DAY + 35.924),
        "end": pytest.approx(DAY + 35.990),
        "event": "restart",
    }
    behind = LogTail("megatron", JobFacts(), said.append, lambda: DAY)
    found = [behind.take(TailLine(line, is_new=True)) for line in LOG[:7]]
    (ahead,) = (each for each in found if isinstance(each, IntervalReport))
    assert ahead.end == DAY, "its clock is ahead"
    assert ahead.start == pytest.approx(DAY - 0.066)
    assert reached == Call(now, {}, 90, now - 2.0)
    now += 3600.0
    log.take(TailLine(LOG[9], is_new=False))
    assert log.take(TailLine(LOG[12], is_new=False)) is None
    assert said
    assert said[-1].startswith("too_old")
