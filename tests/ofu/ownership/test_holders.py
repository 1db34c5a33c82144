"""Who held which GPU when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.ofu.ownership.holders import (
    HANDOVER_SECONDS,
    MEMORY_SECONDS,
    MOST_CHANGES,
    Holding,
    Holdings,
    changed,
    resolve,
    sole_holding,
)
from ofu_exporter.values.job import Claim, Job
from tests.helpers.values import gpu

A, B = Job("slurm", "1"), Job("slurm", "2")
GPUS = [gpu(0), gpu(1), gpu(2)]


def sole_holder(held: Holdings, start: float, end: float) -> Job | None:
    holding = sole_holding(held, start, end)
    return holding.jobs[0] if holding else None


def history(*changes: tuple[float, tuple[Job, ...]]) -> Holdings:
    made: Holdings = ()
    for at, jobs in changes:
        made = changed(made, Holding(at, jobs))
    return made


def test_claims_are_made_out_against_the_gpus() -> None:
    resolved = resolve([Claim(A, ("GPU-0000", "1")), Claim(B, ("nvidia2",))], GPUS)
    assert resolved.holders == {GPUS[0].key: (A,), GPUS[1].key: (A,), GPUS[2].key: (B,)}
    assert not resolved.unknown
    assert not resolved.contested


def test_a_device_that_is_not_here_is_named() -> None:
    resolved = resolve([Claim(A, ("0", "GPU-elsewhere"))], GPUS)
    assert resolved.holders == {GPUS[0].key: (A,)}
    assert resolved.unknown == ((A, "GPU-elsewhere"),)


def test_two_jobs_that_claim_a_whole_gpu_contest_it() -> None:
    resolved = resolve([Claim(A, ("0",)), Claim(B, ("GPU-0000",))], GPUS)
    assert resolved.holders == {GPUS[0].key: (A, B)}
    assert resolved.contested == (GPUS[0].key,)


def test_shares_of_a_gpu_are_not_contested() -> None:
    resolved = resolve([Claim(A, ("GPU-0000::0",)), Claim(B, ("GPU-0000::1",))], GPUS)
    assert resolved.holders == {GPUS[0].key: (A, B)}
    assert not resolved.contested


def test_a_gpu_of_which_one_job_uses_a_share_waits_no_more() -> None:
    waits = Claim(A, ("GPU-0000::0", "1"), waiting=frozenset({"GPU-0000::0", "1"}))
    resolved = resolve([waits, Claim(B, ("GPU-0000::1",))], GPUS)
    assert resolved.waiting == {GPUS[1].key}


def test_a_job_with_two_shares_of_one_gpu_has_it_alone() -> None:
    resolved = resolve([Claim(A, ("GPU-0000::0", "GPU-0000::1"))], GPUS)
    assert resolved.holders == {GPUS[0].key: (A,)}


def test_a_window_belongs_to_who_held_the_gpu_for_all_of_it() -> None:
    held = history((0.0, ()), (10.0, (A,)), (20.0, ()), (30.0, (B,)))
    assert sole_holder(held, 10.0, 15.0) == A
    assert sole_holder(held, 15.0, 20.0) == A
    assert sole_holder(held, 30.0, 99.0) == B
    assert sole_holder(held, 2.0, 5.0) is None
    assert sole_holder(held, 20.0, 25.0) is None


def test_a_window_that_two_owners_share_belongs_to_neither() -> None:
    held = history((0.0, (A,)), (10.0, (B,)))
    assert sole_holder(held, 8.0, 12.0) is None


def test_a_window_that_began_before_the_job_is_not_its() -> None:
    assert sole_holder(history((0.0, ()), (10.0, (A,))), 9.9, 15.0) is None


def test_the_window_that_a_change_cut_belongs_to_the_owner_before() -> None:
    held = history((0.0, (A,)), (10.0, (B,)))
    assert sole_holder(held, 5.0, 10.0 + HANDOVER_SECONDS) == A
    assert sole_holder(held, 5.0, 10.0 + 1.1 * HANDOVER_SECONDS) is None


def test_a_gpu_that_several_jobs_have_is_nobodys() -> None:
    assert sole_holder(history((0.0, (A, B))), 1.0, 2.0) is None


def test_before_anything_is_known_nobody_has_it() -> None:
    assert sole_holder((), 1.0, 2.0) is None
    assert sole_holder(history((5.0, (A,))), 4.0, 6.0) is None


def test_the_same_owner_again_is_no_change() -> None:
    assert len(history((0.0, (A,)), (5.0, (A,)))) == 1
    assert len(history((0.0, (A,)), (5.0, (Job("slurm", "1", name="renamed"),)))) == 1
    one, other = Job("slurm", "1", uid="one run"), Job("slurm", "1", uid="another run")
    assert len(history((0.0, (A,)), (5.0, (one,)))) == 1, "which run it is was not known yet"
    assert len(history((0.0, (one,)), (5.0, (other,)))) == 2


@given(st.lists(st.tuples(st.floats(0.01, 50.0), st.sampled_from([(), (A,), (B,), (A, B)]))))
def test_the_memory_is_bounded_and_reaches_far_enough(
    steps: list[tuple[float, tuple[Job, ...]]],
) -> None:
    held: Holdings = ()
    told: list[tuple[float, tuple[Job, ...]]] = []
    now = 0.0
    for pause, jobs in steps:
        now += pause
        held = changed(held, Holding(now, jobs))
        told.append((now, jobs))
    assert len(held) <= MOST_CHANGES
    if 0 < len(told) < MOST_CHANGES:
        back = max(now - MEMORY_SECONDS, told[0][0])
        then = [jobs for at, jobs in told if at <= back][-1]
        assert sole_holder(held, back, back) == (then[0] if len(then) == 1 else None)
