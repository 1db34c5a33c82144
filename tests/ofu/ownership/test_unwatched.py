"""What jobs held while nobody watched is held and not observed: of jobs that went on, ended, or came and went."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.ofu.ownership.job_state import GRACE_SECONDS, JobState
from ofu_exporter.ofu.ownership.owners import OwnerState
from ofu_exporter.ofu.tick import State
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import Claim, GpuUsage, Job, Ownership
from tests.helpers.node import EPOCH, Node, whole
from tests.helpers.values import gpu, reading

LEFT, BACK = 30.0, 100.0
"""The agent was away in between."""
A = Job("slurm", "1", uid="run", started=EPOCH)


def node_after_a_gap(*gpus: GpuKey, watched: bool = True) -> Node:
    """A node whose agent is back. Job A had these GPUs from 0 on, and was watched until LEFT."""
    node = Node(2)
    usage = {key: GpuUsage(str(place), key, LEFT, LEFT, LEFT / 2) for place, key in enumerate(gpus)}
    state = JobState(
        A,
        EPOCH,
        usage=usage,
        ended=EPOCH + LEFT,
        ended_at=BACK,
        unseen_since=EPOCH + LEFT,
        held_since=EPOCH,
    )
    node.state = State(
        owners=OwnerState(
            jobs={A.key: state} if gpus else {},
            watched_until=EPOCH + LEFT if watched else None,
        ),
    )
    return node


def past(job: Job, ended: float, *devices: str) -> Claim:
    return Claim(job, devices, ended=EPOCH + ended)


def first_tick(node: Node, *claims: Claim) -> None:
    """The first window of every GPU, with what the scheduler said before it."""
    events = [reading(BACK, BACK + 5.0, device=device) for device in node.gpus]
    node.tick(BACK + 5.0, *events, owners=(Ownership(BACK, claims),))


def share(node: Node, job_id: str = "1") -> float:
    """The observed share, as it is told."""
    view = node.job(job_id)
    return view.observed_seconds / view.held_seconds


def test_a_job_that_goes_on_held_its_gpus_all_the_while() -> None:
    node = node_after_a_gap(gpu(0).key, gpu(1).key)
    first_tick(node, whole(A, "0", "1"))
    assert [usage.held_seconds for usage in node.job().usage.values()] == pytest.approx(
        [105.0, 105.0]
    )
    assert share(node) == pytest.approx(35.0 / 105.0)
    assert node.job().held_since == EPOCH


def test_so_it_is_with_gpus_that_are_found_one_after_the_other() -> None:
    """A driver tells each GPU's uuid with its first window. Otherwise 30 % would pass for far more."""
    node = node_after_a_gap(gpu(0, "GPU-a").key, gpu(1, "GPU-b").key)
    node.gpus = [gpu(0), gpu(1)]
    first = reading(BACK, BACK + 5.0, device=gpu(0, "GPU-a"))
    node.tick(BACK, owners=(Ownership(BACK, (whole(A, "GPU-a", "GPU-b"),)),))
    node.tick(BACK + 5.0, first, present=[gpu(0, "GPU-a"), gpu(1)])
    node.gpus = [gpu(0, "GPU-a"), gpu(1, "GPU-b")]
    node.run(BACK + 5.0, BACK + 15.0)
    held = {usage.index: usage.held_seconds for usage in node.job().usage.values()}
    assert held == {"0": pytest.approx(115.0), "1": pytest.approx(115.0)}


def test_a_gpu_that_a_job_gets_later_was_not_held_before() -> None:
    node = node_after_a_gap(gpu(0).key)
    first_tick(node, whole(A, "0"))
    node.give(BACK + 5.0, whole(A, "0", "1"))
    node.run(BACK + 5.0, BACK + 15.0)
    held = {usage.index: usage.held_seconds for usage in node.job().usage.values()}
    assert held == {"0": pytest.approx(115.0), "1": pytest.approx(10.0)}


def test_a_job_that_ended_meanwhile_held_its_gpus_to_its_end() -> None:
    node = node_after_a_gap(gpu(0).key, gpu(1).key)
    first_tick(node, past(A, 90.0, "0", "1"))
    assert node.job().ended == EPOCH + 90.0
    assert [usage.held_seconds for usage in node.job().usage.values()] == pytest.approx(
        [90.0, 90.0]
    )
    assert share(node) == pytest.approx(LEFT / 90.0)


def test_a_job_that_came_and_went_meanwhile_is_known_and_unobserved() -> None:
    node = node_after_a_gap()
    job = Job("slurm", "2", user="ada", uid="x", started=EPOCH + 40.0)
    first_tick(node, past(job, 60.0, "1"))
    view = node.job("2")
    assert (view.began, view.ended, view.job.user) == (EPOCH + 40.0, EPOCH + 60.0, "ada")
    assert view.held_seconds == pytest.approx(20.0)
    assert view.observed_seconds == 0.0
    node.tick(BACK + 5.0 + GRACE_SECONDS)
    assert not node.last.jobs, "as any job that ended"


def test_nothing_is_counted_twice_however_often_it_is_told() -> None:
    node = node_after_a_gap(gpu(0).key)
    first_tick(node, past(A, 90.0, "0"))
    node.give(BACK + 10.0)
    node.give(BACK + 15.0, past(A, 90.0, "0"))
    assert node.job().held_seconds == pytest.approx(90.0)
    node.tick(BACK + 20.0 + GRACE_SECONDS)
    node.give(BACK + 25.0 + GRACE_SECONDS)
    node.give(BACK + 30.0 + GRACE_SECONDS, past(A, 90.0, "0"))
    assert not node.last.jobs


def test_a_job_that_was_watched_to_its_end_is_complete() -> None:
    node = Node(1)
    node.state = replace(node.state, owners=OwnerState(watched_until=EPOCH))
    node.give(5.0, whole(replace(A, started=EPOCH + 5.0), "0"))
    node.run(5.0, 15.0)
    ended = past(replace(A, started=EPOCH + 5.0), 15.0, "0")
    node.give(15.2, ended)
    assert node.job().held_seconds == pytest.approx(10.2)
    node.tick(20.0 + GRACE_SECONDS)
    assert not node.last.jobs


@pytest.mark.parametrize(("ended", "watched"), [(LEFT - 1.0, True), (60.0, False)])
def test_a_job_that_an_earlier_agent_may_have_watched_is_not_called_unobserved(
    ended: float, watched: bool
) -> None:
    node = node_after_a_gap(watched=watched)
    first_tick(node, past(Job("slurm", "2", started=EPOCH + 10.0), ended, "0"))
    assert not node.last.jobs


def test_an_end_before_the_agent_left_adds_nothing() -> None:
    """The end is told in whole seconds."""
    node = node_after_a_gap(gpu(0).key)
    first_tick(node, past(A, LEFT - 0.9, "0"))
    assert node.job().held_seconds == pytest.approx(LEFT)
    assert node.job().ended == EPOCH + LEFT


def test_shares_of_a_gpu_are_held_by_nobody() -> None:
    node = node_after_a_gap()
    first_tick(node, past(Job("slurm", "2", started=EPOCH + 40.0), 60.0, "0::1"))
    assert node.job("2").held_seconds == 0.0


def test_another_run_of_a_job_that_runs_takes_nothing_from_it() -> None:
    node = node_after_a_gap()
    again = Job("slurm", "1", uid="run 2", started=EPOCH + 80.0)
    first_tick(node, whole(again, "0"), past(A, 60.0, "0"))
    assert node.job().held_seconds == pytest.approx(25.0)
    assert node.job().ended is None


def test_a_run_that_ended_meanwhile_is_complete_where_the_job_runs_again() -> None:
    node = node_after_a_gap(gpu(0).key)
    again = Job("slurm", "1", uid="run 2", started=EPOCH + 80.0)
    for _ in range(2):
        first_tick(node, whole(again, "1"), past(A, 60.0, "0"))
    before, now = node.job().runs
    assert (before.ended, before.held_seconds) == pytest.approx((EPOCH + 60.0, 60.0))
    assert now.held_seconds == pytest.approx(25.0)
    assert [usage.held_seconds for usage in node.job().usage.values()] == pytest.approx([60, 25])
    assert [usage.in_last_run for usage in node.job().usage.values()] == [False, True]


def test_before_every_gpu_is_known_nothing_is_settled() -> None:
    node = node_after_a_gap()
    job = Job("slurm", "2", started=EPOCH + 40.0)
    node.tick(BACK, owners=(Ownership(BACK, (past(job, 60.0, "GPU-b"),)),))
    node.gpus = [gpu(0), gpu(1, "GPU-b")]
    node.run(BACK, BACK + 5.0)
    assert [usage.key for usage in node.job("2").usage.values()] == [gpu(1, "GPU-b").key]
