"""`--trace-below`: an agent whose clock runs fast sees a recorded job fall, and traces one process of it by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ofu_exporter.recordings import recording
from ofu_exporter.values.reading import Reading
from tests.doubles.fast_clock import FastClock
from tests.end_to_end.test_trace import Process
from tests.helpers.agent import Agent, agent, until
from tests.helpers.values import gpu, reading

MINUTE, WINDOW = 60.0, 30.0
FAST, SLOW, CAREFUL = 900.0, 20.0, 2.0
"""How fast the agent's clock runs while nothing is to happen, while something is, and while a trace is taken: the
agent's own limits, such as 30 s for a process to ask, pass as fast."""
FALLING = [(60, 0.6), (30, 0.2), (500, 0.05)]
"""Minutes, and OFU in them, of job 1001."""
LOW = [(60, 0.08)]
"""Of job 1002, which ends."""


def record(path: Path) -> None:
    """Two jobs on a GPU each, at the tensor clock, so that OFU is the tensor activity."""
    header = recording.RecordingHeader("nvml", False, "2026-01-01T00:00:00+00:00", {})
    writer = recording.RecordingWriter(path, header, 0.0)
    events: list[Reading] = []
    for device, course in enumerate((FALLING, LOW)):
        at = 0.0
        for minutes, ofu in course:
            for _ in range(round(minutes * MINUTE / WINDOW)):
                window = (at, at + WINDOW, ofu, (1830e6,) * 2)
                events.append(reading(*window, device=gpu(device)))
                at += WINDOW
        job = {"job_id": str(1001 + device), "gpus": [str(device)], "start": 0.0, "end": at}
        writer.put([{"job": job}])
    events.sort(key=lambda each: each.end)
    writer.write(events)
    writer.close()


@contextmanager
def watched(folder: Path, clock: FastClock) -> Iterator[Agent]:
    record(folder / "recording")
    flags = (
        *("demo", "--source", "replay", "--path", str(folder / "recording")),
        *("--interval", "30s", "--clock-interval", "15s", "--trace-below", "0.15", "--traces"),
        *("--trace-socket-folder", str(folder / "s"), "--trace-folder", str(folder / "t")),
    )
    with agent(*flags, env=clock.env) as running:
        yield running


class Course:
    """Where the agent's clock stands, in minutes since it began."""

    def __init__(self, clock: FastClock) -> None:
        self._clock, self._began = clock, clock.now()

    def reach(self, minute: float, then: float = SLOW) -> None:
        """Let the time pass until then, ever slower, so that the agent keeps up; and then slowly."""
        for before, fast in ((26, 3 * FAST), (5, FAST), (0, FAST / 6)):
            self._clock.run_to(self._began + (minute - before) * MINUTE, fast, then)


def named(running: Agent) -> list[str]:
    """Which jobs were traced by themselves, and why."""
    lines = (line for line in running.log if line.endswith(": one process is traced"))
    said = re.compile(r".* job (\d+): its OFU of ten minutes is (.*): one.*")
    return [said.sub(r"\1 \2", line) for line in lines]


def taken(running: Agent, clock: FastClock, count: int, reasons: int) -> None:
    """Wait until the agent has found so many reasons for a trace, and has taken so many."""
    until(lambda: len(named(running)) == reasons)
    clock.run_at(CAREFUL)
    until(lambda: running.value("ofu_exporter_traces_total", outcome="done") == count)
    clock.run_at(SLOW)


def test_who_becomes_slow_is_traced_once(tmp_path: Path) -> None:
    clock = FastClock(tmp_path / "clock")
    with watched(tmp_path, clock) as running:
        course = Course(clock)
        clock.run_at(SLOW)
        until(lambda: len(running.values("ofu_job_info")) == 2)
        some = [Process(tmp_path, 1001, pid) for pid in range(4710, 4712)]
        course.reach(9)
        assert named(running) == [], "both are young"
        running.logs("job 1002 cannot be traced: no process of job 1002 has asked")
        some += [Process(tmp_path, 1002, pid) for pid in range(4712, 4714)]
        course.reach(19)
        taken(running, clock, 1, reasons=2)
        assert named(running) == 2 * ["1002 8.0%, below 15.0%"]
        course.reach(66, then=SLOW / 3)  # a third of an hour later its fall is long past
        assert len(named(running)) == 2, "1001 is what it always was, and 1002 was traced"
        taken(running, clock, 2, reasons=3)
        assert named(running)[2].startswith("1001 2")
        assert named(running)[2].endswith("%, below half of the hour's median, 60.0%")
        course.reach(426)
        assert len(named(running)) == 3, "at 5 % for hours, but traced within the last six"
        taken(running, clock, 3, reasons=4)
        assert named(running)[3] == "1001 5.0%, below 15.0%"
        assert sum("1 processes of job" in line for line in running.log) == 3, "one of two"
        reported = json.loads(running.get("/v1/jobs/1001")[1])["reported"]
        assert reported["trace"]["findings"][0]["finding"] == "data_loader"
        for each in some:
            each.ends = True
