"""One claim is made of all pods of a job on a node."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from ofu_exporter.schedulers.kubernetes.claims import JobPod, by_job
from ofu_exporter.schedulers.kubernetes.gpu_pods import GpuPod
from ofu_exporter.schedulers.kubernetes.workloads import Workload


def pod(name: str, device: str, uid: str, user: str, started: float | None) -> JobPod:
    workload = Workload("train", uid=uid, user=user, started=started)
    return JobPod(GpuPod(devices={device}), workload, name)


def test_uid_and_user_are_those_of_the_newest_pod() -> None:
    """A job of an earlier user with the same name may still be ending."""
    pods = [
        pod("a", "GPU-0", "old", "ada", 100.0),
        pod("b", "GPU-1", "new", "bob", 200.0),
        pod("c", "GPU-2", "new", "bob", 150.0),
        pod("d", "GPU-3", "none", "eve", None),
    ]
    for order in itertools.permutations(pods):
        named = {("ns", str(place)): each for place, each in enumerate(order)}
        (claim,) = by_job("kubernetes", named, {}, Counter())
        assert (claim.job.uid, claim.job.user, claim.job.started) == ("new", "bob", 150.0)
        assert claim.devices == ("GPU-0", "GPU-1", "GPU-2", "GPU-3")


@pytest.mark.parametrize(
    ("attempt", "counts", "restarts"),
    [
        (None, {}, None),
        (None, {"log-shipper": 70}, None),
        (None, {"worker": 2, "log-shipper": 70}, 2),
        (3, {}, 3),
        (3, {"worker": 2}, 5),
    ],
)
def test_restarts_are_those_of_the_job_and_of_the_container_with_the_gpu(
    attempt: int | None, counts: dict[str, int], restarts: int | None
) -> None:
    workload = Workload("train", attempt=attempt, restarts=counts)
    member = JobPod(GpuPod(devices={"GPU-0"}, containers={"worker"}), workload, "a")
    (claim,) = by_job("kubernetes", {("ns", "a"): member}, {}, Counter())
    assert claim.job.restarts == restarts
