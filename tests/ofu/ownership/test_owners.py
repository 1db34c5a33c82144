"""Who holds which GPU from when on, change by change, and which claims are not believed."""

from __future__ import annotations

import pytest

from ofu_exporter.ofu.ownership.owners import OwnerState, count_unknown
from ofu_exporter.values.job import Claim, Job, Ownership
from ofu_exporter.values.reading import Window
from ofu_exporter.values.reasons import ClaimRejection
from ofu_exporter.values.snapshot import SchedulerHealth
from tests.helpers.node import EPOCH, Node, whole
from tests.helpers.values import gpu, reading

A, B = Job("slurm", "1", user="ada"), Job("slurm", "2")
CLOCK = 1400e6 / 1830e6


def test_two_jobs_in_turn_share_no_window() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 10.0, tensor=0.8)
    node.tick(12.0, reading(10.0, 12.0, 0.8), owners=(Ownership(11.9, (whole(B, "0"),)),))
    node.run(12.0, 22.0, tensor=0.1)
    assert node.job("1").utilization_seconds == pytest.approx(12.0 * 0.8 * CLOCK)
    assert node.job("2").utilization_seconds == pytest.approx(10.0 * 0.1 * CLOCK)


def test_a_window_that_was_not_cut_in_time_belongs_to_neither_job() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.give(12.0, whole(B, "0"))
    node.tick(15.0, reading(10.0, 15.0))
    assert node.job("1").observed_seconds == node.job("2").observed_seconds == 0.0
    assert node.last.gpus[0].observed_seconds == pytest.approx(5.0)


def test_every_change_between_two_ticks_counts() -> None:
    node = Node(1)
    changes = [Ownership(at, (whole(Job("slurm", str(at)), "0"),)) for at in (1, 2, 3)]
    node.tick(5.0, owners=tuple(changes))
    held = {view.job.job_id: view.held_seconds for view in node.last.jobs}
    assert held == {"1": pytest.approx(1.0), "2": pytest.approx(1.0), "3": pytest.approx(2.0)}


def test_a_shared_gpu_is_credited_to_none_and_names_its_holders() -> None:
    node = Node(1)
    node.give(0.0, Claim(A, ("GPU-0000::0",)), Claim(B, ("GPU-0000::1",)))
    node.run(0.0, 10.0)
    assert node.job("1").observed_seconds == node.job("2").observed_seconds == 0.0
    assert node.last.gpus[0].holders == (A, B)
    assert not node.last.schedulers[0].rejected


ONE, OTHER = Claim(A, ("GPU-0000::0",)), Claim(B, ("GPU-0000::1",))


@pytest.mark.parametrize("first", [ONE, OTHER], ids=["ada first", "ada last"])
@pytest.mark.parametrize("last", [ONE, OTHER], ids=["ada longer", "ada shorter"])
def test_each_job_holds_its_part_of_a_shared_gpu_whatever_the_order(
    first: Claim, last: Claim
) -> None:
    """10 s alone, 30 s together, 20 s alone: by hand 15 s of the 30 for each, and the rest for whoever was alone."""
    node = Node(1)
    node.give(0.0, first)
    node.run(0.0, 10.0)
    node.give(10.0, ONE, OTHER)
    node.run(10.0, 40.0)
    node.give(40.0, last)
    node.run(40.0, 60.0)
    for claim in (ONE, OTHER):
        alone = 10.0 * (claim is first) + 20.0 * (claim is last)
        view = node.job(claim.job.job_id)
        assert view.shared_seconds == pytest.approx(15.0)
        assert view.held_seconds == pytest.approx(alone + 15.0)
        assert view.observed_seconds == pytest.approx(alone)
    assert sum(view.held_seconds for view in node.last.jobs) == pytest.approx(60.0)


def test_a_job_that_has_its_gpus_alone_says_nothing_of_sharing() -> None:
    node = Node(1)
    node.give(0.0, ONE)
    node.run(0.0, 10.0)
    assert node.job().shared_seconds is None


def test_jobs_that_share_a_gpu_while_their_scheduler_is_silent_have_it_once_it_answers() -> None:
    node = Node(1)
    node.give(0.0, ONE, OTHER)
    node.tick(10.0, owners=(Ownership(10.0, (ONE, OTHER), frozenset({"slurm"})),))
    node.tick(30.0)
    assert node.job("1").held_seconds == node.job("2").held_seconds == pytest.approx(5.0)
    node.give(40.0, ONE, OTHER)
    node.tick(50.0)
    assert node.job("1").held_seconds == node.job("2").held_seconds == pytest.approx(25.0)


def test_two_jobs_claiming_one_gpu_harm_no_other_and_are_counted_once() -> None:
    """Of two schedulers, the first that claimed the GPU is asked."""
    node = Node(2)
    node.give(0.0, whole(A, "0", "1"), whole(Job("kubernetes", "2"), "0"))
    node.run(0.0, 10.0)
    assert node.job("1").observed_seconds == pytest.approx(10.0)
    assert node.job("2").observed_seconds == 0.0
    assert node.job("2").held_seconds == 0.0, "nobody knows who has it"
    assert node.last.schedulers[0].rejected == {ClaimRejection.CONTESTED.value: 1}


def test_a_device_that_is_not_here_is_counted_once_and_named() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0", "GPU-elsewhere"))
    node.run(0.0, 10.0)
    assert node.job().observed_seconds == pytest.approx(10.0)
    assert node.last.schedulers[0].rejected == {ClaimRejection.UNKNOWN_DEVICE.value: 1}
    assert node.last.unknown_devices == ((A.key, "GPU-elsewhere"),)


def test_a_device_is_not_called_unknown_before_every_gpu_has_said_which_it_is() -> None:
    """A driver tells a GPU's uuid with its first window only."""
    node = Node(2)
    node.give(0.0, whole(A, "GPU-later"))
    node.tick(5.0, reading(0.0, 5.0, device=gpu(0)))
    assert not node.last.schedulers[0].rejected
    node.gpus = [gpu(0), gpu(1, "GPU-later")]
    node.run(5.0, 15.0)
    assert not node.last.schedulers[0].rejected
    assert node.job().observed_seconds == pytest.approx(5.0), (
        "from the first window that it is known in"
    )


def test_a_gpu_that_is_found_after_its_job_is_the_jobs() -> None:
    node = Node(0)
    node.give(0.0, whole(A, "0"))
    assert not node.last.schedulers[0].rejected
    node.gpus = [gpu(0)]
    node.tick(5.0)
    node.run(5.0, 15.0)
    assert node.job().observed_seconds == pytest.approx(10.0)


def test_a_change_that_is_told_late_takes_nothing_back() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 10.0)
    node.tick(12.0, owners=(Ownership(8.0, ()),))
    assert node.job().held_seconds == pytest.approx(10.0)
    assert node.job().ended == EPOCH + 10.0


def test_claims_are_believed_until_others_are_told() -> None:
    node = Node(2)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 50.0)
    assert node.state.owners.holders(gpu(0).key) == (A,)
    assert node.state.owners.holders(gpu(1).key) == ()
    node.give(50.0)
    assert node.state.owners.holders(gpu(0).key) == ()
    assert node.job().held_seconds == pytest.approx(50.0)


def test_a_claim_is_contested_once_however_often_others_come_and_go_meanwhile() -> None:
    node = Node(3)
    both = (whole(A, "0"), whole(B, "0"))
    for at, job_id in enumerate(("3", "4", "5")):
        node.give(float(at), *both, whole(Job("slurm", job_id), "1"))
        assert node.last.schedulers[0].rejected == {ClaimRejection.CONTESTED.value: 1}
    node.give(10.0, *both, whole(Job("slurm", "6"), "1", "2"), whole(Job("slurm", "7"), "2"))
    assert node.last.schedulers[0].rejected == {ClaimRejection.CONTESTED.value: 2}, "another GPU"
    node.give(20.0, whole(A, "0"))
    node.give(30.0, *both)
    assert node.last.schedulers[0].rejected == {ClaimRejection.CONTESTED.value: 3}, (
        "the first again"
    )


def test_what_a_scheduler_refused_itself_is_added_to_what_is_refused_here() -> None:
    known = OwnerState(rejected={"slurm": {"contested": 2}, "kubernetes": {"contested": 7}})
    health = SchedulerHealth("slurm", rejected={"contested": 1, "expired": 3})
    assert known.with_rejected(health).rejected == {"contested": 3, "expired": 3}
    other = SchedulerHealth("k8s", rejected={"expired": 1})
    assert known.with_rejected(other).rejected == {"expired": 1}


def test_before_anything_is_known_nobody_holds_a_gpu() -> None:
    known = OwnerState()
    assert known.holders(gpu().key) == ()
    assert known.sole_holding(gpu().key, Window(0.0, 5.0, 0.5, {}, 1400e6, 0.4)) is None


def test_nothing_is_unknown_where_nothing_is_claimed() -> None:
    assert count_unknown(OwnerState()) == OwnerState()
