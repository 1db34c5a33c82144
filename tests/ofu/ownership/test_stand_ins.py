"""A pod whose job is not known yet: its time becomes the job's, once, over restarts too."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ofu_exporter.jobs.totals import JobTotals, resumed_job, totals_of
from ofu_exporter.ofu.ownership.held_time import credited_before
from ofu_exporter.ofu.ownership.owners import OwnerState
from ofu_exporter.ofu.ownership.stand_ins import _added
from ofu_exporter.ofu.tick import State
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import Claim, GpuUsage, Job, Ownership
from ofu_exporter.values.losses import Loss, LossSums
from tests.helpers.node import EPOCH, Node, whole
from tests.helpers.values import gpu

POD = Job("kubernetes", "ns/web-1", name="web-1", namespace="ns")
JOB = Job(
    "kubernetes", "ns/web", name="web", user="ada", started=EPOCH, uid="u1", aliases=("ns/web-1",)
)


def restart(node: Node, now: float) -> None:
    """Another agent goes on with what the state file has of the jobs."""
    rows = [totals_of(view, "n1", simulated=False).model_dump_json() for view in node.last.jobs]
    at = Instant(now, EPOCH + now)
    jobs = [resumed_job(JobTotals.model_validate_json(row), at) for row in rows]
    by_key = {state.job.key: state for state in jobs}
    owners = OwnerState(by_key, watched_until=at.unix, credited=credited_before(jobs, at))
    node.state = State(owners=owners)
    node.tick(now)


def shown(node: Node) -> list[str]:
    return [view.job.job_id for view in node.last.jobs]


def held_of(node: Node, place: int) -> float:
    """The seconds of one GPU that all jobs together are said to have held."""
    return math.fsum(
        usage.held_seconds
        for view in node.last.jobs
        for usage in view.usage.values()
        if usage.key == gpu(place).key
    )


def test_all_that_the_pod_had_is_its_jobs_when_the_api_server_answers() -> None:
    """The window that ends with the answer, too, and the time before the pod stood there by its own name."""
    node = Node(1)
    node.run(0.0, 10.0)
    node.give(10.0, whole(POD, "0"))
    node.run(10.0, 60.0)
    node.tick(63.0, owners=(Ownership(63.0, (whole(JOB, "0"),)),))
    node.run(60.0, 63.0)
    node.run(63.0, 73.0)
    assert shown(node) == ["ns/web"]
    job = node.job("ns/web")
    assert job.job.user == "ada"
    assert job.held_seconds == pytest.approx(73.0)
    assert job.observed_seconds == pytest.approx(63.0)
    assert [run.uid for run in job.runs] == ["u1"]


def test_a_job_that_was_there_already_gets_its_pods_time_in_addition() -> None:
    node = Node(2)
    first = replace(JOB, aliases=("ns/web-0",))
    node.give(0.0, whole(first, "0"))
    node.run(0.0, 10.0)
    node.give(10.0, whole(first, "0"), whole(POD, "1"))
    node.run(10.0, 30.0)
    node.give(30.0, whole(replace(JOB, aliases=("ns/web-0", "ns/web-1")), "0", "1"))
    node.run(30.0, 40.0)
    assert shown(node) == ["ns/web"]
    seconds = {usage.index: usage.observed_seconds for usage in node.job("ns/web").usage.values()}
    assert seconds == {"0": pytest.approx(40.0), "1": pytest.approx(30.0)}


def test_of_a_gpu_that_both_had_every_sum_is_added() -> None:
    """What was lost adds up with what was used to what was observed, before and after."""
    key = gpu(0).key
    first = GpuUsage("0", key, 10, 8, 2, LossSums({Loss.IDLE: 6.0}, energy_joules=50.0))
    second = GpuUsage("0", key, 20, 16, 12, LossSums({Loss.IDLE: 4.0}, energy_joules=70.0))
    both = _added(replace(first, waiting_seconds=3.0), replace(second, shared_seconds=5.0))
    assert (both.held_seconds, both.observed_seconds, both.utilization_seconds) == (30, 24, 14)
    assert both.sums == LossSums({Loss.IDLE: 10.0}, energy_joules=120.0)
    assert (both.waiting_seconds, both.shared_seconds) == (3.0, 5.0)


def test_it_is_the_time_of_its_own_run() -> None:
    node = Node(1)
    node.give(0.0, whole(JOB, "0"))
    node.run(0.0, 10.0)
    node.give(10.0)
    node.give(20.0, whole(POD, "0"))
    node.run(20.0, 50.0)
    node.give(50.0, whole(replace(JOB, uid="u2", started=EPOCH + 15.0), "0"))
    node.run(50.0, 60.0)
    runs = node.job("ns/web").runs
    assert [run.uid for run in runs] == ["u1", "u2"]
    assert [run.observed_seconds for run in runs] == pytest.approx([10.0, 40.0])
    assert held_of(node, 0) <= 60.0 + 1e-6


def test_an_earlier_pod_of_that_name_stays_what_it_was() -> None:
    node = Node(1)
    node.give(0.0, whole(POD, "0"))
    node.run(0.0, 10.0)
    node.give(10.0)
    node.give(30.0, whole(replace(JOB, started=EPOCH + 20.0), "0"))
    node.run(30.0, 40.0)
    assert shown(node) == ["ns/web", "ns/web-1"]
    assert node.job("ns/web-1").held_seconds == pytest.approx(10.0)
    assert node.job("ns/web").held_seconds == pytest.approx(20.0)


def test_a_job_of_its_own_under_that_name_stays_one() -> None:
    node = Node(1)
    node.give(0.0, whole(replace(POD, uid="u9"), "0"))
    node.run(0.0, 10.0)
    node.give(10.0, whole(JOB, "0"))
    assert shown(node) == ["ns/web", "ns/web-1"]


def test_after_a_restart_a_pod_that_the_state_file_knows_stands_under_its_job() -> None:
    """And under no name of its own while the API server is away."""
    node = Node(2)
    node.give(0.0, whole(JOB, "0"))
    node.run(0.0, 100.0)
    restart(node, 110.0)
    other = Job("kubernetes", "ns/web-2", name="web-2")
    node.give(120.0, whole(POD, "0"), whole(other, "1"))
    node.run(120.0, 160.0)
    assert shown(node) == ["ns/web", "ns/web-2"]
    assert node.job("ns/web").held_seconds == pytest.approx(160.0)
    node.give(160.0, whole(JOB, "0"), whole(replace(other, uid="u2"), "1"))
    node.run(160.0, 170.0)
    assert node.job("ns/web").held_seconds == pytest.approx(170.0)
    assert node.job("ns/web").observed_seconds == pytest.approx(150.0)
    assert [run.uid for run in node.job("ns/web").runs] == ["u1"]


def test_so_it_does_beside_pods_whose_job_the_api_server_has_said_again() -> None:
    node = Node(2)
    node.give(0.0, whole(replace(JOB, aliases=("ns/web-0", "ns/web-1")), "0", "1"))
    node.run(0.0, 10.0)
    restart(node, 10.0)
    for at in (10.0, 20.0):  # what the claims say of the job does not let it forget the pod
        node.give(at, whole(replace(JOB, aliases=("ns/web-0",)), "0"), whole(POD, "1"))
        node.run(at, at + 10.0)
    assert shown(node) == ["ns/web"]
    assert [usage.held_seconds for usage in node.job("ns/web").usage.values()] == pytest.approx(
        [30.0] * 2
    )


def test_what_the_pod_did_while_kubelet_was_silent_too_is_the_jobs() -> None:
    node = Node(1)
    node.give(0.0, whole(POD, "0"))
    node.run(0.0, 10.0)
    silent = Ownership(10.0, (whole(POD, "0"),), unsure=frozenset({"kubernetes"}))
    node.tick(10.0, owners=(silent,))
    node.run(10.0, 20.0)
    node.give(20.0, whole(JOB, "0"))
    node.run(20.0, 30.0)
    job = node.job("ns/web")
    assert (job.held_seconds, job.observed_seconds) == pytest.approx((30.0, 30.0))


def test_so_it_is_where_the_job_was_there_already() -> None:
    node, pods = Node(2), ("ns/web-0", "ns/web-1")
    claims = whole(replace(JOB, aliases=pods[:1]), "0"), whole(POD, "1")
    node.give(0.0, *claims)
    node.tick(10.0, owners=(Ownership(10.0, claims, unsure=frozenset({"kubernetes"})),))
    node.run(10.0, 20.0)
    node.give(20.0, whole(replace(JOB, aliases=pods), "0", "1"))
    assert node.job("ns/web").observed_seconds == pytest.approx(2 * 10.0)


class Step(NamedTuple):
    """Who has each of two GPUs for some seconds, and what the API server says of it."""

    seconds: float
    holders: tuple[int, int]
    """By GPU, the number of the pod that has it; 0 = none."""
    is_known: tuple[bool, bool]
    """By GPU, whether the API server has said which job its pod is part of."""
    lag: float
    """How much earlier than it is seen a pod has started, as far as the API server says."""
    restarts: bool


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([0.5, 5.0, 20.0, 61.0]),
        st.tuples(st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.booleans(), st.booleans()),
        st.sampled_from([0.0, 3.0, 45.0, 1000.0]),
        st.booleans(),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(STEPS)
@example(  # an agent's first job had started before it was seen; after a restart its GPU goes to another
    [
        Step(0.5, (1, 0), (True, False), 3.0, False),
        Step(0.5, (0, 0), (False, False), 0.0, True),
        Step(0.5, (3, 1), (True, False), 3.0, False),
    ]
)
def test_no_gpu_is_held_longer_than_the_clock_went(steps: list[Step]) -> None:
    """Whatever the API server says and how late, of pods of one job or of several, and over restarts.

    The clock began to run for a GPU when the first job that had it started, as the scheduler says, here or on the
    other GPU: a job that comes back had its GPUs all the while, as far as anybody knows.
    """
    node, now = Node(2), 2000.0
    begins = {0: math.inf, 1: math.inf}
    firsts = {"one": math.inf, "other": math.inf}
    node.tick(now)
    for step in steps:
        if step.restarts:
            restart(node, now)
        claims = [
            claim_of(number, place, step, now)
            for place, number in enumerate(step.holders)
            if number and (place == 0 or number != step.holders[0])
        ]
        for claim in claims:
            place = int(claim.devices[0])
            name = job_of(step.holders[place])
            firsts[name] = min(firsts[name], now, (claim.job.started or math.inf) - EPOCH)
            begins[place] = min(begins[place], firsts[name])
        node.give(now, *claims)
        node.run(now, now + step.seconds)
        now += step.seconds
        for place, begin in begins.items():
            assert held_of(node, place) <= max(0.0, now - begin) + 1e-6


def claim_of(number: int, place: int, step: Step, now: float) -> Claim:
    """Pods 1 and 2 are of one job and pod 3 of another."""
    pod = f"ns/pod-{number}"
    if not step.is_known[place]:
        return whole(Job("kubernetes", pod), str(place))
    name = f"ns/{job_of(number)}"
    started = EPOCH + now - step.lag
    return whole(
        Job("kubernetes", name, started=started, uid=f"uid-{name}", aliases=(pod,)), str(place)
    )


def job_of(number: int) -> str:
    return "one" if number < 3 else "other"
