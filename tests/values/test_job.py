"""Which job is another, and which the same one told of later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.values.job import Job
from tests.helpers.node import EPOCH, Node, whole
from tests.helpers.values import reading
from tests.ofu.ownership.test_job_state import CLOCK, A


def test_an_id_that_another_user_gets_is_another_job() -> None:
    """A controller that lost its state begins with id 1 again."""
    node = Node(1)
    bobs = replace(A, user="bob", uid="2", started=EPOCH + 60)
    node.give(0.0, whole(replace(A, uid="1"), "0"))
    node.run(0.0, 50.0, tensor=0.8)
    node.give(50.0)
    node.give(60.0, whole(bobs, "0"))
    node.tick(60.2, reading(40.0, 50.0, 0.8))
    node.run(60.0, 80.0, tensor=0.1)
    job = node.job()
    assert (job.job.user, job.began, job.earlier) == ("bob", EPOCH + 60, ())
    assert job.held_seconds == pytest.approx(20.0)
    assert job.observed_seconds == pytest.approx(20.0)
    assert job.utilization_seconds == pytest.approx(20.0 * 0.1 * CLOCK)


def test_a_gpu_that_goes_on_to_another_user_under_the_same_id_is_credited_to_that_job() -> None:
    """A Deployment has one name and no uid, whoever's its pods are."""
    node = Node(1)
    chat = Job("kubernetes", "ns/chat", user="ada")
    node.give(0.0, whole(chat, "0"))
    node.run(0.0, 10.0)
    node.give(10.0, whole(replace(chat, user="bob"), "0"))
    node.run(10.0, 30.0)
    assert node.job("ns/chat").held_seconds == pytest.approx(20.0)
    assert node.job("ns/chat").observed_seconds == pytest.approx(20.0)


def test_a_job_whose_user_is_not_known_yet_goes_on() -> None:
    node = Node(1)
    node.give(0.0, whole(replace(A, user="", uid="1"), "0"))
    node.run(0.0, 10.0)
    node.give(10.0, whole(replace(A, uid="1"), "0"))
    node.run(10.0, 20.0)
    assert node.job().held_seconds == pytest.approx(20.0)


def test_a_job_whose_run_is_told_later_is_the_same_one() -> None:
    """Kubelet tells the pods, the API server their uids, and may be away for a while."""
    node = Node(1)
    for number, uid in enumerate(("", "u1", "", "u1")):
        node.give(10.0 * number, whole(Job("kubernetes", "ns/train", uid=uid), "0"))
        node.run(10.0 * number, 10.0 * number + 10.0)
    assert node.job("ns/train").observed_seconds == pytest.approx(40.0)
