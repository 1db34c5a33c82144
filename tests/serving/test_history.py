"""The last hour of GPUs and jobs: exact means, gaps that stay gaps, and a size that is bounded."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from ofu_exporter.ofu.track import HISTORY_SECONDS
from ofu_exporter.serving.history import GPU_STEP_SECONDS, MOST_TRACKS, History
from ofu_exporter.values.gpu import Share
from ofu_exporter.values.job import Job, JobKey
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import JobView
from tests.helpers.desk import CLOCK, Desk
from tests.helpers.node import Node, snapshot_of
from tests.helpers.values import fault, gpu, reading

KEY = gpu(0).key


def taken(node: Node, history: History, start: float, end: float, tensor: float) -> None:
    while start < end:
        node.tick(start + 5.0, reading(start, start + 5.0, tensor, [1400e6] * 10))
        history.take(node.last)
        start += 5.0


def test_each_step_has_the_mean_of_its_windows() -> None:
    node, history = Node(1), History()
    history.take(node.last)
    taken(node, history, 0.0, 10.0, 0.5)
    taken(node, history, 10.0, 20.0, 0.2)
    assert history.gpu(KEY)[-2:] == pytest.approx([0.5 * CLOCK, 0.2 * CLOCK])
    assert history.gpu(KEY)[:-2] == [None] * int(HISTORY_SECONDS / GPU_STEP_SECONDS - 2)


def test_time_without_a_window_is_a_gap() -> None:
    node, history = Node(1), History()
    history.take(node.last)
    taken(node, history, 0.0, 20.0, 0.5)
    for end in range(25, 45, 5):
        node.tick(float(end), fault(float(end), Reason.COUNTER_BUSY))
        history.take(node.last)
    taken(node, history, 40.0, 50.0, 0.5)
    last = history.gpu(KEY)[-5:]
    assert [value is None for value in last] == [False, False, True, True, False]
    assert last[-1] == pytest.approx(0.5 * CLOCK)


def test_a_window_longer_than_a_step_covers_all_of_its_steps() -> None:
    node, history = Node(1), History()
    history.take(node.last)
    node.tick(30.0, reading(0.0, 30.0, 0.5, [1400e6] * 10))
    history.take(node.last)
    assert history.gpu(KEY)[-3:] == pytest.approx([0.5 * CLOCK] * 3)


def test_a_window_of_an_instance_covers_the_time_until_it_ended() -> None:
    """A quarter of a GPU in 30 s is 7.5 GPU-seconds; the snapshot came two seconds after the window."""
    first, history = snapshot_of(reading()), History()
    begun = first.gpus[0]._replace(
        share=Share(0.25, "slices"), observed_seconds=0.0, utilization_seconds=0.0, sampled_at=0.0
    )
    ended = begun._replace(observed_seconds=7.5, utilization_seconds=3.75, sampled_at=30.0)
    for at, view in ((0.0, begun), (32.0, ended)):
        history.take(replace(first, at=at, gpus=(view,)))
    assert history.gpu(KEY)[-4:] == [0.5, 0.5, 0.5, None]


def test_an_hour_later_nothing_of_before_is_left() -> None:
    node, history = Node(1), History()
    history.take(node.last)
    taken(node, history, 0.0, 20.0, 0.5)
    node.tick(20.0 + HISTORY_SECONDS, fault(20.0 + HISTORY_SECONDS))
    history.take(node.last)
    assert set(history.gpu(KEY)) == {None}


def test_a_job_has_its_ofu_and_what_it_reported() -> None:
    desk, history = Desk(1), History()
    desk.give(Job("slurm", "1"), "0")
    history.take(desk.shown)
    for _ in range(10):
        desk.every(30.0, 1, mfu=0.5)
        history.take(desk.shown)
    ofu, mfu = history.job(JobKey("slurm", "1"))
    assert ofu[-5:] == pytest.approx([0.5 * CLOCK] * 5, rel=1e-4)
    reported = [each for each in mfu if each is not None]
    assert len(reported) > 5, "a report may cover parts of two steps"
    assert reported == pytest.approx([0.5] * len(reported), rel=0.02)
    assert history.job(JobKey("slurm", "2")) == ([], [])


def test_what_is_remembered_is_bounded() -> None:
    history, begun = History(), None
    first = snapshot_of(reading())
    for number in range(MOST_TRACKS + 50):
        view = first.gpus[0]._replace(gpu=gpu(number))
        lasting = view._replace(gpu=gpu(7))
        history.take(replace(first, gpus=(view, lasting)))
        begun = begun or history._gpus[lasting.gpu.key]
    assert len(history._gpus) == MOST_TRACKS
    assert history.gpu(gpu(MOST_TRACKS + 49).key)
    assert history._gpus[lasting.gpu.key] is begun, "it was seen all the while"
    assert history.gpu(KEY) == []
    track = next(iter(history._gpus.values()))
    eight = 8 * (sys.getsizeof(track._values) + sys.getsizeof(track._seconds))
    assert eight < 64 * 1024, "bytes for eight GPUs"
    jobs = tuple(JobView(Job("slurm", str(number)), 0.0) for number in range(MOST_TRACKS + 50))
    history.take(replace(first, jobs=jobs))
    assert len(history._jobs) == MOST_TRACKS
    history.take(first)
    assert not history._jobs, "they are over"
