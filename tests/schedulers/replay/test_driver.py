"""Recorded jobs come and go as they did, over and over where the recording is played so."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter import schedulers
from ofu_exporter.errors import SchedulerError
from ofu_exporter.recordings import Options, recording
from ofu_exporter.recordings.jobs import RecordedJob
from ofu_exporter.schedulers.replay.driver import Scheduler
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import SchedulerReason
from tests.helpers.recorded_jobs import job_line
from tests.helpers.values import FakeClock, reading

FIRST = RecordedJob(Job("replay", "101", "first"), ("0",), 1.0, 4.0)
SECOND = RecordedJob(Job("replay", "102", "second"), ("0", "1"), 5.0, 10.0)
BEGUN = 5000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Ten seconds with two jobs."""
    file = tmp_path / "recording"
    writer = recording.RecordingWriter(file, recording.RecordingHeader("nvml", False, ""), 0.0)
    writer.put([job_line(FIRST), job_line(SECOND), {"job": {}}])
    writer.write([reading(0.0, 5.0), reading(5.0, 10.0)])
    writer.close()
    return file


class Player:
    """A scheduler, and its clock."""

    def __init__(self, path: Path, loop: bool) -> None:
        self.clock = FakeClock(100.0)
        self.scheduler = Scheduler(Options(path=path, loop=loop), self.clock, lambda: BEGUN)

    def at(self, seconds: float) -> list[tuple[str, float | None]]:
        """The ids of the jobs after that time, and when they began."""
        self.clock.now = 100.0 + seconds
        return [(claim.job.job_id, claim.job.started) for claim in self.scheduler.claims()]


def test_it_is_never_used_unasked() -> None:
    assert "replay" in schedulers.names()
    assert "replay" not in schedulers.automatic()


def test_a_job_holds_its_gpus_from_its_start_to_its_end(path: Path) -> None:
    player = Player(path, loop=False)
    assert player.at(0.9) == []
    assert player.at(1.0) == player.at(3.9) == [("101", BEGUN + 1.0)]
    assert player.at(4.0) == []
    assert player.at(9.9) == [("102", BEGUN + 5.0)]
    (claim,) = player.scheduler.claims()
    assert (claim.job.name, claim.devices) == ("second", ("0", "1"))


def test_it_is_over_with_the_recording(path: Path) -> None:
    assert Player(path, loop=False).at(11.5) == []


def test_in_a_loop_every_round_runs_every_job_again(path: Path) -> None:
    player = Player(path, loop=True)
    runs = set()
    for round_ in range(3):
        assert player.at(10.0 * round_ + 1.5) == [("101", BEGUN + 10.0 * round_ + 1.0)]
        runs.add(player.scheduler.claims()[0].job.uid)
    assert len(runs) == 3


def test_what_cannot_be_read_is_counted(path: Path) -> None:
    player = Player(path, loop=False)
    assert player.scheduler.rejected == {}
    player.at(0.0)
    assert player.scheduler.rejected == {"malformed": 1}


def test_a_file_that_is_no_recording_is_said_when_asked(path: Path) -> None:
    path.write_text("hello\n")
    with pytest.raises(SchedulerError) as caught:
        Player(path, loop=False).at(0.0)
    assert caught.value.reason is SchedulerReason.BAD_ANSWER
    assert str(path) in str(caught.value)


def test_a_scheduler_that_is_built_later_is_at_the_same_place(path: Path) -> None:
    """As at a reload of the settings: the source has begun to play before."""
    clock = FakeClock(100.0)
    options = Options(path=path)
    Scheduler(options, clock, lambda: BEGUN)
    clock.now = 106.0
    (claim,) = Scheduler(options, clock, lambda: BEGUN + 6.0).claims()
    assert (claim.job.job_id, claim.job.started) == ("102", BEGUN + 5.0)
