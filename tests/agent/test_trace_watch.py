"""Which jobs are traced by themselves: slow ones that are not young, each once in six hours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ofu_exporter.agent import trace_watch
from ofu_exporter.agent.trace_watch import SlowJobs
from ofu_exporter.values.job import Job
from tests.helpers.node import Node, whole

MINUTE, BELOW = 60.0, 0.15
FULL_CLOCK = (1830e6,) * 4
"""The tensor clock: OFU is the tensor activity."""


@dataclass
class Watched:
    """A node of one GPU and one job, and who watches it."""

    node: Node = field(default_factory=lambda: Node(gpus=1))
    watch: SlowJobs = field(default_factory=lambda: SlowJobs(BELOW))
    now: float = 0.0

    def start(self, job_id: str = "7") -> None:
        self.node.give(self.now, whole(Job("slurm", job_id, user="ada"), "0"))

    def minutes(self, count: int, ofu: float) -> Iterator[tuple[int, str, str]]:
        """Let some minutes pass at an OFU; the minute, job and reason each time that one is named."""
        for _ in range(count):
            self.node.run(self.now, self.now + MINUTE, ofu, window=20.0, hz=FULL_CLOCK)
            self.now += MINUTE
            for named in self.watch.take(self.node.last):
                yield round(self.now / MINUTE), *named


@pytest.fixture
def watched() -> Watched:
    made = Watched()
    made.start()
    return made


def test_a_job_is_named_once_ten_minutes_are_below_and_never_before(watched: Watched) -> None:
    ((minute, job_id, why),) = watched.minutes(120, 0.149)
    assert (minute, job_id) == (11, "7")
    assert why == "its OFU of ten minutes is 14.9%, below 15.0%"


@pytest.mark.slow
def test_a_job_at_the_limit_is_none(watched: Watched) -> None:
    assert list(watched.minutes(400, 0.151)) == []


def test_half_of_the_hours_median_is_slow_whatever_the_limit(watched: Watched) -> None:
    assert list(watched.minutes(60, 0.6)) == []
    ((minute, _, why),) = watched.minutes(60, 0.2)
    # Seven minutes at 0.2 and three at 0.6 are 0.32 on average, eight and two 0.28.
    assert minute == 68
    assert why == "its OFU of ten minutes is 28.0%, below half of the hour's median, 60.0%"


def test_a_job_that_is_slower_than_before_but_not_by_half_is_none(watched: Watched) -> None:
    assert list(watched.minutes(60, 0.6)) == []
    assert list(watched.minutes(60, 0.31)) == []


def test_a_job_of_half_an_hour_has_no_usual_ofu_yet(watched: Watched) -> None:
    assert list(watched.minutes(19, 0.6)) == []
    assert list(watched.minutes(11, 0.2)) == []


@pytest.mark.slow
def test_it_is_named_again_after_six_hours(watched: Watched) -> None:
    named = [minute for minute, _, _ in watched.minutes(13 * 60, 0.05)]
    assert named == [11, 11 + 360, 11 + 720]


@pytest.mark.slow
def test_a_job_that_could_not_be_traced_is_named_again_after_ten_minutes(watched: Watched) -> None:
    found = []
    for minute, *_ in watched.minutes(400, 0.05):
        found.append(minute)
        if len(found) < 3:
            watched.watch.note_untraced("7")
    assert found == [11, 22, 33, 33 + 360]


def test_another_job_on_the_same_gpu_is_young_again(watched: Watched) -> None:
    ((minute, *_),) = watched.minutes(30, 0.05)
    watched.start("8")
    (named,) = watched.minutes(60, 0.05)
    assert (minute, named[0], named[1]) == (11, 30 + 11, "8")


def test_minutes_that_nobody_measured_are_no_low_ofu(watched: Watched) -> None:
    assert list(watched.minutes(20, 0.6)) == []
    for _ in range(60):
        watched.now += MINUTE
        assert watched.watch.take(watched.node.tick(watched.now)) == []


def test_after_a_pause_ten_minutes_have_to_be_measured_again(watched: Watched) -> None:
    """Eight minutes before it and one after it are not ten, and a median of an hour ago is none of this hour."""
    assert list(watched.minutes(50, 0.6)) == []
    assert list(watched.minutes(5, 0.05)) == []
    for _ in range(30):
        watched.now += MINUTE
        assert watched.watch.take(watched.node.tick(watched.now)) == []
    ((minute, _, why),) = watched.minutes(30, 0.14)
    # Its first window has ended in minute 86.
    assert minute == 86 + 10
    assert why == "its OFU of ten minutes is 14.0%, below 15.0%"
    assert list(watched.minutes(20, 0.6)) == []


def test_a_snapshot_that_comes_late_is_still_compared_by_its_time(watched: Watched) -> None:
    assert list(watched.minutes(40, 0.6)) == []
    named = []
    for _ in range(8):
        watched.node.run(watched.now, watched.now + 2 * MINUTE, 0.2, window=20.0, hz=FULL_CLOCK)
        watched.now += 2 * MINUTE
        named += [(round(watched.now / MINUTE), *e) for e in watched.watch.take(watched.node.last)]
    # Eight of its ten minutes at 0.2, two at 0.6.
    assert [minute for minute, *_ in named] == [48]


def test_of_too_many_jobs_no_more_are_watched_and_of_an_hour_no_more_is_remembered(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(watched.minutes(90, 0.6)) == []
    (samples,) = watched.watch._samples.values()
    assert samples[-1].at - samples[0].at == trace_watch.HOUR_SECONDS
    monkeypatch.setattr(trace_watch, "MOST_JOBS", 0)
    another = SlowJobs(BELOW)
    another.take(watched.node.last)
    assert another._samples == {}
