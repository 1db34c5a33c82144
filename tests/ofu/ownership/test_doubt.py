"""A job whose scheduler does not answer: nothing is shown, lost or credited wrongly, whatever turns out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.jobs.totals import resumed_job, totals_of
from ofu_exporter.ofu.ownership import doubt
from ofu_exporter.ofu.ownership.owners import OwnerState
from ofu_exporter.ofu.tick import State
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import Claim, Job, Ownership
from tests.helpers.node import EPOCH, Node, whole
from tests.helpers.values import gpu, reading

POD = Job("kubernetes", "ns/1", uid="u", started=EPOCH)
OTHER = Job("kubernetes", "ns/2", uid="v")
SLURM = Job("slurm", "3")
UNSURE = frozenset({"kubernetes"})
CLOCK = 1400e6 / 1830e6


def running(node: Node, *claims: Claim) -> None:
    """The claims from 0 on, and 10 s of windows."""
    node.give(0.0, *claims)
    node.run(0.0, 10.0)


def silent(node: Node, at: float, *claims: Claim) -> None:
    """The scheduler kubernetes stops to answer."""
    node.tick(at, owners=(Ownership(at, claims, UNSURE),))


def left_in_doubt(gpus: int = 1) -> Node:
    """A node with a job on GPU 0, whose scheduler falls silent after 10 s."""
    node = Node(gpus)
    running(node, whole(POD, "0"))
    silent(node, 10.0, whole(POD, "0"))
    return node


def seconds(node: Node, job: str = "ns/1") -> tuple[float, float]:
    """Held and observed."""
    view = node.job(job)
    return view.held_seconds, view.observed_seconds


def test_while_nobody_answers_the_totals_stand_still_and_the_job_goes_on() -> None:
    node = left_in_doubt()
    node.run(10.0, 60.0)
    assert seconds(node) == pytest.approx((10.0, 10.0))
    assert (node.job("ns/1").ended, node.job("ns/1").updated) == (None, EPOCH + 10.0)
    assert node.last.gpus[0].observed_seconds == pytest.approx(60.0)
    assert node.last.gpus[0].holders == (POD,)


def test_a_job_that_is_still_there_has_lost_nothing() -> None:
    node = left_in_doubt()
    node.run(10.0, 60.0, tensor=0.9)
    node.give(60.0, whole(POD, "0"))
    node.run(60.0, 70.0)
    assert seconds(node) == pytest.approx((70.0, 70.0))
    assert node.job("ns/1").utilization_seconds == pytest.approx((20 * 0.5 + 50 * 0.9) * CLOCK)
    recent = next(iter(node.job("ns/1").usage.values())).recent
    assert [stretch.start for stretch in recent] == sorted(stretch.start for stretch in recent)


def test_a_job_that_ended_meanwhile_ended_when_it_was_last_known() -> None:
    node = left_in_doubt()
    node.run(10.0, 65.0, tensor=0.0)
    node.give(65.0)
    assert seconds(node) == pytest.approx((10.0, 10.0))
    assert node.job("ns/1").ended == EPOCH + 10.0


def test_a_job_that_ended_before_its_scheduler_fell_silent_stays_as_it_ended() -> None:
    node, over = Node(1), Claim(POD, ("0",), ended=EPOCH + 10.0)
    running(node, whole(POD, "0"))
    node.give(10.0, over)
    node.run(10.0, 20.0)
    silent(node, 20.0, over)
    node.run(20.0, 60.0)
    node.give(60.0, over)
    assert seconds(node) == pytest.approx((10.0, 10.0))
    assert node.job("ns/1").ended == EPOCH + 10.0


def test_the_window_in_which_it_turns_out_is_not_the_jobs() -> None:
    node = left_in_doubt()
    node.run(10.0, 60.0)
    node.tick(65.0, reading(60.0, 65.0), owners=(Ownership(65.0, ()),))
    assert seconds(node) == pytest.approx((10.0, 10.0))


@pytest.mark.parametrize("answer", [replace(POD, uid="w", started=EPOCH + 12.0), POD])
def test_nor_is_it_where_its_name_goes_on_elsewhere_or_in_another_run(answer: Job) -> None:
    """Each window is read after the answer that cut it, or later."""
    node = left_in_doubt(2)
    node.run(10.0, 15.0)
    device = "1" if answer is POD else "0"
    node.tick(17.0, reading(15.0, 17.0), owners=(Ownership(17.0, (whole(answer, device),)),))
    (usage,) = [one for one in node.job("ns/1").usage.values() if one.index == "0"]
    assert usage.observed_seconds == pytest.approx(10.0)


def test_what_the_next_job_did_meanwhile_is_nobodys() -> None:
    node = left_in_doubt()
    node.run(10.0, 60.0, tensor=0.9)
    node.give(60.0, whole(OTHER, "0"))
    node.run(60.0, 70.0)
    assert seconds(node) == pytest.approx((10.0, 10.0))
    assert seconds(node, "ns/2") == pytest.approx((10.0, 10.0))


def test_another_run_under_the_same_name_gets_nothing_of_what_was_set_aside() -> None:
    node = left_in_doubt()
    node.run(10.0, 60.0)
    node.give(60.0, whole(replace(POD, uid="w", started=EPOCH + 55.0), "0"))
    assert seconds(node) == pytest.approx((15.0, 10.0))
    (run,) = node.job("ns/1").earlier
    assert (run.uid, run.ended) == ("u", EPOCH + 10.0)
    assert (run.held_seconds, run.observed_seconds) == pytest.approx((10.0, 10.0))


def test_of_a_job_that_lost_a_gpu_only_the_other_one_counts() -> None:
    node = Node(2)
    running(node, whole(POD, "0", "1"))
    silent(node, 10.0, whole(POD, "0", "1"))
    node.run(10.0, 60.0)
    node.give(60.0, whole(POD, "1"))
    held = {usage.index: usage.held_seconds for usage in node.job("ns/1").usage.values()}
    observed = {usage.index: usage.observed_seconds for usage in node.job("ns/1").usage.values()}
    assert held == observed == {"0": pytest.approx(10.0), "1": pytest.approx(60.0)}


def test_a_job_that_moved_to_another_gpu_is_in_doubt_no_more() -> None:
    node = left_in_doubt(2)
    node.run(10.0, 20.0)
    node.give(20.0, whole(POD, "1"))
    node.run(20.0, 30.0)
    assert seconds(node) == pytest.approx((20.0, 20.0))


def test_the_jobs_of_another_scheduler_go_on() -> None:
    node = Node(2)
    running(node, whole(POD, "0"), whole(SLURM, "1"))
    silent(node, 10.0, whole(POD, "0"), whole(SLURM, "1"))
    node.run(10.0, 20.0)
    assert seconds(node, "3") == pytest.approx((20.0, 20.0))


def test_a_silence_that_outlasts_belief_ends_the_job_and_its_return_tells_the_gap() -> None:
    node = left_in_doubt()
    node.run(10.0, 100.0)
    node.give(100.0)
    assert node.job("ns/1").ended == EPOCH + 10.0
    node.run(100.0, 120.0)
    node.give(120.0, whole(POD, "0"))
    node.run(120.0, 130.0)
    assert seconds(node) == pytest.approx((130.0, 20.0))


def test_an_agent_that_ends_in_between_counts_the_gap_as_held_and_not_observed() -> None:
    node = left_in_doubt()
    node.run(10.0, 40.0)
    left = totals_of(node.job("ns/1"), "n1", simulated=False)
    after = Node(1)
    jobs = {POD.key: resumed_job(left, Instant(0.0, EPOCH + 50.0))}
    after.state = State(owners=OwnerState(jobs=jobs))
    after.epoch = EPOCH + 50.0
    after.give(0.0, whole(POD, "0"))
    after.run(0.0, 10.0)
    assert seconds(after) == pytest.approx((60.0, 20.0))


def test_gpus_that_change_meanwhile_do_not_end_the_doubt() -> None:
    node = left_in_doubt(2)
    node.tick(15.0, reading(10.0, 15.0), present=[gpu(0)])
    node.tick(20.0, reading(15.0, 20.0))
    assert seconds(node) == pytest.approx((10.0, 10.0))
    node.give(20.0, whole(POD, "0"))
    assert seconds(node) == pytest.approx((20.0, 20.0))


def test_what_is_set_aside_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubt, "MOST_ASIDE", 3)
    node = left_in_doubt()
    node.run(10.0, 60.0)
    node.give(60.0, whole(POD, "0"))
    assert seconds(node) == pytest.approx((60.0, 25.0))


def vouched(answers: list[tuple[bool, bool]]) -> float:
    """Seconds of the steps of 5 s in which the job had the GPU by the scheduler's word, before and after silences."""
    steps, has, is_silent = 0, True, False
    for number, (answered, still) in enumerate(answers):
        later = [said for heard, said in answers[number:] if heard]
        steps += has and (not is_silent or bool(later and later[0]))
        has, is_silent = (still, False) if answered else (has, True)
    return 5.0 * steps


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_what_counts_is_what_the_scheduler_vouched_for_and_it_never_falls(
    answers: list[tuple[bool, bool]],
) -> None:
    """Each answer: whether there is one, and whether the job still has the GPU by it."""
    node = Node(1)
    node.give(0.0, whole(POD, "0"))
    now, has, before = 0.0, True, (0.0, 0.0)
    for answered, still in answers:
        node.run(now, now + 5.0)
        now += 5.0
        has = still if answered else has
        claims = (whole(POD, "0"),) if has else ()
        node.tick(now, owners=(Ownership(now, claims, frozenset() if answered else UNSURE),))
        after = seconds(node)
        assert after[0] >= before[0]
        assert after[1] >= before[1]
        assert after[1] <= after[0] + 1e-6
        before = after
    assert before[1] == pytest.approx(vouched(answers))


def test_a_job_that_ended_in_the_silence_has_all_that_it_did_if_its_scheduler_knows_the_end() -> (
    None
):
    node = left_in_doubt()
    node.run(10.0, 60.0)
    node.give(60.0, replace(whole(POD, "0"), ended=EPOCH + 45.0))
    view = node.job("ns/1")
    assert view.ended == EPOCH + 45.0
    assert seconds(node) == pytest.approx((45.0, 45.0))
    node.run(60.0, 70.0)
    assert seconds(node) == pytest.approx((45.0, 45.0)), "what comes later is nobody's"


@pytest.mark.parametrize(("ended", "counted"), [(5.0, 10.0), (1e9, 60.0)])
def test_an_end_before_the_silence_or_to_come_is_cut_to_the_silence(
    ended: float, counted: float
) -> None:
    node = left_in_doubt()
    node.run(10.0, 60.0)
    node.give(60.0, replace(whole(POD, "0"), ended=EPOCH + ended))
    assert seconds(node) == pytest.approx((counted, counted))
    assert node.job("ns/1").ended == EPOCH + counted
