"""Recorded jobs report as they did, in every round, and nobody else is spoken for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.recordings import recording
from ofu_exporter.recordings.jobs import RecordedJob
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.recorded import RecordedReports
from ofu_exporter.values.job import Job
from tests.helpers.node import EPOCH, Node, whole
from tests.helpers.recorded_jobs import job_line
from tests.helpers.values import FakeClock, reading

START = 10.0
"""When the job begins in the recording."""
EVERY = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A job that reports every 20 s for 100 s."""
    file = tmp_path / "recording"
    writer = recording.RecordingWriter(file, recording.RecordingHeader("nvml", False, ""), 0.0)
    writer.put([job_line(RecordedJob(Job("replay", "7", "train"), ("0",), START, 110.0))])
    for number in range(5):
        start = START + EVERY * number
        body = {"job_id": "7", "mfu": 0.3, "start": start, "end": start + EVERY}
        writer.put([{"report": body}])
    writer.write([reading(0.0, 120.0)])
    writer.close()
    return file


class Replay:
    """A node with the recorded job, which began at 0 there."""

    def __init__(self, path: Path, scheduler: str = "replay", began: float = 0.0) -> None:
        self.node = Node(1)
        self.clock = FakeClock(0.0)
        self.book = ReportBook(
            lambda: self.node.last, clock=self.clock, unix=lambda: EPOCH + self.clock.now
        )
        self.reports = RecordedReports(
            lambda: self.node.last, self.book, path, unix=lambda: EPOCH + began
        )
        self.scheduler = scheduler

    def run(self, seconds: float, started: float = 0.0, job_id: str = "7") -> int:
        """Play so long; how many reports of the job were taken in."""
        job = Job(self.scheduler, job_id, "train", started=EPOCH + started, uid=str(started))
        self.node.give(self.clock.now, whole(job, "0"))
        for _ in range(int(seconds)):
            self.clock.now += 1.0
            self.node.run(self.clock.now - 1.0, self.clock.now)
            for view in self.node.last.jobs:
                self.reports.report(view)
        (view,) = self.book.reviewed(self.node.last).jobs
        return view.reports.outcomes["accepted"] if view.reports else 0


def test_a_report_comes_when_its_interval_ends(path: Path) -> None:
    replay = Replay(path)
    assert replay.run(19.0) == 0
    assert replay.run(1.0) == 1
    assert replay.run(19.0) == 1
    assert replay.run(200.0) == 5
    assert not replay.book.rejected


def test_the_compared_seconds_are_those_of_the_reports(path: Path) -> None:
    replay = Replay(path)
    replay.run(100.0)
    (view,) = replay.book.reviewed(replay.node.last).jobs
    assert view.reports
    assert view.reports.total.gpu_seconds == pytest.approx(100.0)
    assert view.reports.total.mfu_seconds == pytest.approx(30.0)


def test_another_round_reports_again(path: Path) -> None:
    replay = Replay(path)
    assert replay.run(120.0) == 5
    replay.run(120.0, started=120.0)
    assert replay.reports.until == {"7": EPOCH + 220.0}


def test_an_agent_that_starts_later_does_not_repeat_what_was_reported(path: Path) -> None:
    assert Replay(path, began=50.0).run(120.0) == 3


@pytest.mark.parametrize(("scheduler", "job_id"), [("slurm", "7"), ("replay", "8")])
def test_no_other_job_is_spoken_for(path: Path, scheduler: str, job_id: str) -> None:
    assert Replay(path, scheduler).run(120.0, job_id=job_id) == 0


def test_a_file_that_cannot_be_read_is_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.unlink()
    assert Replay(path).run(30.0) == 0
    (line,) = (r.getMessage() for r in caplog.records if r.levelname == "WARNING")
    assert str(path) in line
