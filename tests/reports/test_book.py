"""The report book: reports of every job beside the OFU of its GPUs, over the horizon and since the first one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from ofu_exporter.errors import ReportError
from ofu_exporter.flops import dense_peak
from ofu_exporter.jobs.totals import totals_of
from ofu_exporter.ofu.ownership.job_state import GRACE_SECONDS
from ofu_exporter.reports.book import MOST_UNOWNED, REPORTS_AT_ONCE, ReportBook
from ofu_exporter.reports.entry import Policy
from ofu_exporter.values.gpu import Rating
from ofu_exporter.values.job import Job, JobKey
from ofu_exporter.values.reasons import ReportRejection
from ofu_exporter.values.reported import Verdict
from tests.helpers.desk import CLOCK, OFU, WITHOUT_NOISE, A, B, Desk, anybody, refused, said
from tests.helpers.node import EPOCH, whole
from tests.helpers.values import H100, gpu


def test_a_report_is_answered_with_the_ofu_of_its_own_seconds(desk: Desk) -> None:
    answer = desk.report(mfu=0.4, start=EPOCH + 60, end=EPOCH + 120)
    assert answer.interval is not None
    assert answer.interval.ofu == pytest.approx(OFU)
    assert answer.interval.observed_seconds == pytest.approx(2 * 60)
    assert answer.interval.difference == pytest.approx(0.4 - OFU)
    assert answer.interval.verdict is Verdict.AGREE
    assert answer.interval.relative == pytest.approx(abs(0.4 - OFU) / OFU)
    assert 0.0 < (answer.interval.stderr or 0.0) < 2e-4, "the clock did not change"
    assert (answer.interval.start, answer.interval.end) == (EPOCH + 60, EPOCH + 120)
    assert answer.horizon is not None
    assert (answer.horizon.start, answer.horizon.end) == (EPOCH + 120 - 600, EPOCH + 120)
    assert answer.mfu == 0.4
    assert answer.peak_flops == pytest.approx(dense_peak(H100, "bf16"))


def test_a_first_report_covers_nothing_from_before_its_job() -> None:
    desk = Desk()
    desk.run(100.0)
    desk.give(A, "0", "1")
    desk.run(20.0)
    answer = desk.report(mfu=0.4)
    assert answer.interval is not None
    assert (answer.interval.start, answer.interval.end) == (EPOCH + 100, EPOCH + 120)


def test_an_agent_that_has_measured_nothing_yet_knows_no_job() -> None:
    unborn = ReportBook(lambda: None)
    with pytest.raises(ReportError, match="'1' holds no GPU") as error:
        unborn.report(said(mfu=0.4), anybody)
    assert error.value.reason is ReportRejection.UNKNOWN_JOB


def test_a_report_of_the_agents_own_making_is_read_as_any_other(desk: Desk) -> None:
    assert desk.book.submit({"job_id": "1", "mfu": 0.4}).mfu == 0.4
    wrong = {"job_id": "1", "mfu": 0.4, "precision": {"bf17": 1.0}}
    with pytest.raises(ReportError, match="'bf17' is not known") as error:
        desk.book.submit(wrong)
    assert error.value.reason is ReportRejection.MALFORMED
    assert error.value.field == "precision.bf17.[key]"
    assert desk.book.rejected == {"malformed": 1}


def test_what_a_job_says_is_shown_with_it(desk: Desk) -> None:
    desk.every(30.0, 4, mfu=0.4)
    desk.run(70.0)
    reports = desk.job().reports
    assert reports is not None
    assert reports.recent_mfu_ratio == pytest.approx(0.4)
    assert reports.horizon.gpu_seconds == pytest.approx(2 * (120 + 30))  # the first covers a minute
    assert reports.settled == pytest.approx(reports.total)
    assert reports.outcomes == {"accepted": 4}
    assert reports.last == EPOCH + 240
    assert reports.recent_verdict is reports.verdict is Verdict.AGREE
    assert reports.card == "H100-SXM5-80GB"


def test_only_what_a_report_covers_is_compared(desk: Desk) -> None:
    """The job waited for data in the first half, with an OFU of nothing."""
    desk.report(mfu=0.4)
    desk.run(60.0, tensor=0.0)
    desk.run(60.0, tensor=0.5)
    answer = desk.report(mfu=0.4, start=EPOCH + 180, end=EPOCH + 240)
    assert answer.interval is not None
    assert answer.interval.ofu == pytest.approx(OFU)


def test_too_little_observed_time_makes_no_verdict() -> None:
    desk = Desk()
    desk.give(A, "0", "1")
    desk.run(55.0)
    answer = desk.report(mfu=0.9)
    assert answer.horizon is not None
    assert answer.horizon.verdict is Verdict.INSUFFICIENT_DATA
    assert answer.horizon.difference == pytest.approx(0.9 - OFU)
    assert answer.causes == ()
    desk.run(10.0)
    assert desk.report(mfu=0.9).horizon.verdict is Verdict.MFU_ABOVE_OFU  # type: ignore[union-attr]


def test_a_job_of_which_nothing_was_observed_yet_is_answered_all_the_same() -> None:
    desk = Desk()
    desk.give(A, "0")
    desk.clock.now = 3.0
    answer = desk.report(mfu=0.4)
    assert answer.interval is not None
    assert answer.interval.ofu is None
    assert answer.interval.observed_seconds == 0.0
    desk.node.tick(3.0)
    desk.show()
    reports = desk.job().reports
    assert reports is not None
    assert reports.recent_mfu_ratio == pytest.approx(0.4)


def test_windows_that_come_later_complete_a_report(desk: Desk) -> None:
    """A report is compared as it comes in with what is known then, and later with all of it."""
    desk.clock.now += 4.0
    answer = desk.report(mfu=0.4, start=EPOCH + 114)
    assert answer.interval is not None
    assert answer.interval.observed_seconds == pytest.approx(2 * 6)
    desk.node.run(120.0, 125.0)
    desk.clock.now = 125.0
    desk.show()
    reports = desk.job().reports
    assert reports is not None
    assert reports.total.gpu_seconds == pytest.approx(2 * 10)


def test_windows_that_come_later_complete_every_report_that_they_belong_to(desk: Desk) -> None:
    for _ in range(3):
        desk.clock.now += 6.0  # longer than two reports that are kept as one
        desk.report(mfu=0.4)
    desk.node.run(120.0, 138.0, window=18.0)
    desk.show()
    reports = desk.job().reports
    assert reports is not None
    assert reports.total.gpu_seconds == pytest.approx(2 * (60 - 6 + 18))


def test_a_window_that_comes_after_a_restart_completes_the_last_report_of_the_run_before() -> None:
    """What is settled never falls meanwhile, and the minutes of the new run are its own."""
    desk = Desk(1)
    desk.give(replace(A, uid="r1"), "0")
    desk.run(60.0)
    desk.clock.now = 65.0
    desk.report(mfu=0.4, start=EPOCH, end=EPOCH + 65)
    settled = []
    for at, restarted in ((65.0, "r2"), (66.0, "r2"), (70.0, "r3")):
        desk.node.give(at, whole(replace(A, uid=restarted), "0"))
        desk.show()
        settled.append(desk.job().reports.settled.gpu_seconds)  # type: ignore[union-attr]
        if at == 65.0:
            desk.node.run(60.0, 65.0)
    desk.clock.now = 70.0
    for _ in range(20):
        desk.run(5.0)
        reports = desk.job().reports
        assert reports is not None
        assert reports.horizon.gpu_seconds == 0.0
        assert reports.total.gpu_seconds == pytest.approx(65.0)
        settled.append(reports.settled.gpu_seconds)
    assert settled == sorted(settled)
    assert settled[-1] == pytest.approx(65.0)


def test_a_model_that_cannot_be_counted_costs_the_comparison_nothing(desk: Desk) -> None:
    answer = desk.report(mfu=2 * OFU, model={"config": {"architectures": ["Nobody"]}, "seq_len": 8})
    assert answer.horizon is not None
    assert answer.horizon.verdict is Verdict.MFU_ABOVE_OFU
    assert answer.warnings[0].startswith("model: ")
    assert "Nobody" in answer.warnings[0]
    assert answer.causes, "what needs no model is looked for"


def test_a_peak_that_was_said_is_not_looked_for_among_the_causes(desk: Desk) -> None:
    """MFU is half of OFU, as with twice the peak: the agent has converted it to the right one."""
    unsaid = desk.report(mfu=OFU / 2, precision="bf16")
    assert "sparse_peak" in {each.cause for each in unsaid.causes}
    desk.run(5.0)
    told = desk.report(mfu=OFU / 2, precision="bf16", peak_tflops=dense_peak(H100, "bf16") / 1e12)
    assert "sparse_peak" not in {each.cause for each in told.causes}


def test_a_report_of_a_job_that_is_not_here_is_refused(desk: Desk) -> None:
    error = refused(desk, "9", mfu=0.4)
    assert (error.reason, error.field) == (ReportRejection.UNKNOWN_JOB, "job_id")
    assert "'9' holds no GPU" in str(error)
    assert desk.book.rejected == {"unknown_job": 1}
    assert desk.book._entries == {}


def test_before_the_first_snapshot_no_job_is_here() -> None:
    desk = Desk()
    error = refused(desk, mfu=0.4)
    assert error.reason is ReportRejection.UNKNOWN_JOB


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"mfu": 0.4, "end": EPOCH + 1000}, ReportRejection.IN_FUTURE),
        ({"mfu": 0.4, "start": EPOCH - 2000}, ReportRejection.TOO_OLD),
        ({"mfu": 0.4, "precision": "fp4"}, ReportRejection.OUT_OF_RANGE),
        ({"tokens_per_second": 5.0}, ReportRejection.OUT_OF_RANGE),
    ],
)
def test_what_is_refused_is_counted_and_leaves_nothing(
    desk: Desk, fields: dict[str, Any], reason: ReportRejection
) -> None:
    assert refused(desk, **fields).reason is reason
    desk.run(5.0)
    reports = desk.job().reports
    assert reports is not None
    assert reports.outcomes == {reason.value: 1}
    assert (reports.last, reports.recent_mfu_ratio, reports.peak_flops) == (None, None, None)
    refused(desk, **fields)
    desk.run(5.0)
    assert desk.job().reports.outcomes == {reason.value: 2}  # type: ignore[union-attr]
    assert desk.book.rejected == {reason.value: 2}
    answer = desk.report(mfu=0.4)
    assert answer.warnings == ()


def test_the_same_report_twice_is_refused(desk: Desk) -> None:
    desk.report(mfu=0.4, start=EPOCH + 100, end=EPOCH + 110)
    error = refused(desk, mfu=0.4, start=EPOCH + 100, end=EPOCH + 110)
    assert (error.reason, error.field) == (ReportRejection.OVERLAP, "end")


def test_the_same_report_twice_is_known_by_its_own_clock_when_the_nodes_clocks_shift(
    desk: Desk,
) -> None:
    """A time server moves the node's clock by a millisecond between the two."""
    moved = [0.0]
    desk.book = ReportBook(
        lambda: desk.node.last, clock=desk.clock, unix=lambda: EPOCH + desk.clock.now + moved[0]
    )
    desk.report(mfu=0.4, start=EPOCH + 109.5, end=EPOCH + 110)
    moved[0] = -0.001
    error = refused(desk, mfu=0.4, start=EPOCH + 109.5, end=EPOCH + 110)
    assert error.reason is ReportRejection.OVERLAP


def test_who_may_not_speak_for_a_job_changes_nothing_of_it(desk: Desk) -> None:
    def nobody(job: Job | None) -> None:
        assert job == A
        raise ReportError(ReportRejection.NOT_YOURS, "job_id")

    with pytest.raises(ReportError):
        desk.book.report(said(mfu=0.4), nobody)
    desk.run(5.0)
    assert desk.job().reports.outcomes == {"not_yours": 1}  # type: ignore[union-attr]
    assert desk.job().reports.recent_mfu_ratio is None  # type: ignore[union-attr]


def test_one_job_may_report_so_often_and_no_more(desk: Desk) -> None:
    desk.node.give(120.0, whole(A, "0"), whole(B, "1"))
    for number in range(REPORTS_AT_ONCE):
        desk.report(mfu=0.4, start=EPOCH + 100 + number / 100, end=EPOCH + 100.01 + number / 100)
    error = refused(desk, mfu=0.4)
    assert (error.reason, error.field) == (ReportRejection.TOO_MANY, "job_id")
    assert error.detail == "the job reports more than 200 times a second"
    assert error.retry_after is not None
    assert 0 < error.retry_after < 1
    desk.clock.now += 0.001
    assert desk.report("2", mfu=0.4).mfu == 0.4, "another job is not held up"
    desk.clock.now += 1.0
    assert desk.report(mfu=0.4).mfu == 0.4


def test_a_pod_speaks_for_its_job() -> None:
    desk = Desk()
    job = Job("kubernetes", "ml/train", aliases=("ml/train-0", "ml/train-1"))
    desk.give(job, "0")
    desk.run(120.0)
    assert desk.report("ml/train-1", mfu=0.4).job_id == "ml/train"
    desk.run(5.0)
    assert desk.report("ml/train", mfu=0.4).job_id == "ml/train"
    desk.run(5.0)
    assert desk.job("ml/train").reports.outcomes == {"accepted": 2}  # type: ignore[union-attr]


def test_of_two_schedulers_jobs_of_one_id_the_one_that_runs_is_meant() -> None:
    desk = Desk()
    desk.give(Job("slurm", "7"), "0")
    desk.run(60.0)
    desk.give(Job("kubernetes", "7"), "0")
    desk.run(60.0)
    desk.report("7", mfu=0.4)
    desk.run(5.0)
    shown = {view.job.scheduler: view.reports for view in desk.shown.jobs}
    assert shown["slurm"] is None
    assert shown["kubernetes"] is not None


def test_a_job_that_has_ended_may_still_say_its_last(desk: Desk) -> None:
    desk.every(30.0, 2, mfu=0.4)
    desk.run(20.0)
    desk.node.give(200.0)
    desk.clock.now = 203.0
    answer = desk.report(mfu=0.4, end=EPOCH + 200)
    assert answer.interval is not None
    assert answer.interval.ofu == pytest.approx(OFU)
    assert answer.interval.observed_seconds == pytest.approx(2 * 20)
    desk.run(70.0)
    assert desk.job().ended is not None
    assert desk.job().reports.settled.gpu_seconds == pytest.approx(2 * (60 + 30 + 20))  # type: ignore[union-attr]


def test_of_a_report_about_seconds_after_the_end_of_its_job_this_is_said(desk: Desk) -> None:
    desk.every(30.0, 2, mfu=0.4)
    desk.run(20.0)
    desk.node.give(desk.clock.now)
    desk.run(30.0)
    ended = desk.job().ended
    assert ended is not None
    answer = desk.report(mfu=0.4)
    assert answer.interval is not None
    late = answer.interval.end - ended
    assert late > 1
    said = f"the job has ended: the last {late:.0f} s of this report are compared with nothing"
    assert said in answer.warnings
    desk.run(20.0)
    assert "the last 20 s" in desk.report(mfu=0.4).warnings[-1], "it is as long as that"


def test_facts_of_a_job_that_has_ended_are_refused_since_they_change_nothing(desk: Desk) -> None:
    desk.every(30.0, 2, mfu=0.4)
    desk.node.give(desk.clock.now)
    desk.run(5.0)
    assert desk.job().ended is not None
    error = refused(desk, tile_overhead=0.1)
    assert error.reason is ReportRejection.ENDED
    assert "'1' has ended" in str(error)
    desk.run(5.0)
    assert desk.job().reports.adjusted is None  # type: ignore[union-attr]
    assert desk.job().reports.outcomes["ended"] == 1  # type: ignore[union-attr]


def test_a_job_that_left_the_page_is_forgotten(desk: Desk) -> None:
    desk.report(mfu=0.4)
    desk.node.give(120.0)
    desk.run(GRACE_SECONDS + 5.0)
    assert desk.shown.jobs == ()
    assert desk.book._entries == {}
    assert refused(desk, mfu=0.4).reason is ReportRejection.UNKNOWN_JOB


def test_a_restarted_agent_goes_on_with_what_it_knew(desk: Desk) -> None:
    desk.every(30.0, 4, mfu=0.4)
    desk.show()
    left = totals_of(desk.job(), "n1", simulated=False).reported
    assert left is not None
    known = left.gpu_seconds
    desk.book = desk.opened(WITHOUT_NOISE)
    desk.book.resume(A.key, A.uid, left)
    desk.show()
    reports = desk.job().reports
    assert reports is not None
    assert reports.total.gpu_seconds == pytest.approx(known)
    assert reports.outcomes == {"accepted": 4}
    assert reports.last == EPOCH + 240
    assert reports.peak_flops == pytest.approx(dense_peak(H100, "bf16"))
    again = refused(desk, mfu=0.4, start=EPOCH + 200, end=EPOCH + 230)
    assert again.reason is ReportRejection.OVERLAP
    desk.run(30.0)
    desk.report(mfu=0.4)
    desk.run(70.0)
    after = desk.job().reports
    assert after is not None
    assert after.settled.gpu_seconds == pytest.approx(known + 2 * 30)


@pytest.mark.parametrize("is_another_agent", [False, True])
def test_a_job_of_another_user_under_the_same_id_goes_on_with_nothing(
    desk: Desk, is_another_agent: bool
) -> None:
    desk.every(30.0, 4, mfu=0.4, step=7)
    desk.show()
    if is_another_agent:
        left = totals_of(desk.job(), "n1", simulated=False).reported
        assert left is not None
        desk.book = desk.opened()
        desk.book.resume(A.key, A.uid, left, desk.job().began)
    desk.give(replace(A, user="eve"), "0", "1")
    assert desk.job().reports is None
    desk.run(30.0)
    desk.report(mfu=0.9)
    desk.run(70.0)
    after = desk.job().reports
    assert after is not None
    assert (after.outcomes, after.progress) == ({"accepted": 1}, None)
    assert after.settled.gpu_seconds == after.total.gpu_seconds == pytest.approx(2 * 30)


def test_what_an_earlier_agent_knew_waits_for_its_job(desk: Desk) -> None:
    left = totals_of(desk.job(), "n1", simulated=False)
    desk.report(mfu=0.4)
    desk.run(5.0)
    left = totals_of(desk.job(), "n1", simulated=False)
    assert left.reported is not None
    desk.book = desk.opened()
    desk.book.resume(JobKey("slurm", "77"), "", left.reported)
    desk.run(GRACE_SECONDS - 5.0)
    assert ("slurm", "77") in desk.book._entries
    desk.run(20.0)
    assert ("slurm", "77") not in desk.book._entries


KEEPING = Policy(unowned=True)


def test_where_the_site_says_so_a_job_without_a_gpu_here_is_kept() -> None:
    desk = Desk(policy=KEEPING)
    answer = desk.report("head", mfu=0.4)
    assert answer.mfu == 0.4
    assert answer.peak_flops is None
    assert answer.interval is not None
    assert answer.interval.verdict is Verdict.INSUFFICIENT_DATA
    desk.run(5.0)
    ((job_id, reports),) = desk.shown.unowned_reports
    assert (job_id, reports.outcomes) == ("head", {"accepted": 1})
    assert reports.recent_mfu_ratio == pytest.approx(0.4)
    desk.run(KEEPING.horizon - 10)
    assert desk.shown.unowned_reports != ()
    desk.run(15)
    assert desk.shown.unowned_reports == ()


def test_only_so_many_of_them_are_kept() -> None:
    desk = Desk(policy=KEEPING)
    for number in range(MOST_UNOWNED):
        desk.report(f"job-{number}", mfu=0.4)
    error = refused(desk, "one-more", mfu=0.4)
    assert (error.reason, error.field) == (ReportRejection.TOO_MANY_JOBS, "job_id")
    assert error.detail == "256 jobs without a GPU here have reported already"
    desk.clock.now += 1.0
    assert desk.report("job-0", mfu=0.4).mfu == 0.4
    desk.clock.now += KEEPING.horizon
    assert desk.report("one-more", mfu=0.4).mfu == 0.4


@pytest.mark.slow
def test_ten_thousand_job_ids_are_kept_by_none() -> None:
    desk = Desk()
    desk.give(A, "0")
    desk.run(60.0)
    for number in range(10_000):
        refused(desk, f"x{number}", mfu=0.4)
    assert desk.book._entries == {}
    assert desk.book.rejected == {"unknown_job": 10_000}
    assert len(desk.book._pace) == 0
    assert desk.report(mfu=0.4).mfu == 0.4


@pytest.mark.parametrize("name", [B.job_id, "ns/pod-0"])
def test_a_job_that_gets_its_first_gpu_begins_anew(desk: Desk, name: str) -> None:
    desk.book = desk.opened(KEEPING)
    receipt = desk.book.take(said(name, mfu=0.4), anybody)
    desk.node.give(120.0, whole(A, "0"), whole(replace(B, aliases=("ns/pod-0",)), "1"))
    desk.run(5.0)
    assert desk.shown.unowned_reports == ()
    answer = desk.book.answer(receipt)  # it was taken in before, and is answered now
    assert answer.mfu == 0.4
    assert answer.horizon is not None
    assert answer.horizon.mfu is None


def test_one_jobs_odd_numbers_cost_no_other_job_its_own() -> None:
    """With a wrong row in the configuration a GPU shows an OFU of 2: that is what is compared."""
    desk = Desk(policy=WITHOUT_NOISE)
    desk.node.give(0.0, whole(A, "0"), whole(B, "1"))
    desk.run(5.0)
    key = desk.node.gpus[0].key
    state = desk.node.state
    slow = Rating({"low_precision": 0.3e9, "fp64": 0.3e9}, {"bf16": 1e14}, "configured")
    known = state.gpus[key].shows(rating=slow)
    desk.node.state = replace(state, gpus={**state.gpus, key: known})
    desk.run(120.0)
    odd, sound = desk.report("1", mfu="1000%"), desk.report("2", mfu=0.4)
    assert odd.horizon is not None
    assert odd.horizon.ofu == pytest.approx(0.5 * 1400 / 300)
    assert odd.horizon.verdict is Verdict.MFU_ABOVE_OFU
    assert sound.horizon is not None
    assert sound.horizon.verdict is Verdict.AGREE
    desk.run(5.0)
    assert all(view.reports is not None for view in desk.shown.jobs)


def test_threads_that_report_and_one_that_ticks_lose_nothing() -> None:
    desk = Desk(policy=replace(WITHOUT_NOISE, unowned=True))
    jobs = [Job("slurm", str(number)) for number in range(2)]
    desk.node.give(0.0, *(whole(job, str(number)) for number, job in enumerate(jobs)))
    desk.run(60.0)
    done = threading.Event()

    def reporter(job_id: str) -> Callable[[], int]:
        def work() -> int:
            taken = 0
            for number in range(150):
                at = EPOCH + number / 10
                taken += desk.report(job_id, mfu=0.4, start=at, end=at + 0.1).mfu is not None
            return taken

        return work

    def tick() -> None:
        while not done.is_set():
            desk.show()

    with ThreadPoolExecutor(5) as pool:
        ticking = pool.submit(tick)
        working = [pool.submit(reporter(job_id)) for job_id in ("0", "1", "x", "y")]
        assert [each.result(60) for each in working] == [150] * 4
        done.set()
        ticking.result(60)
    desk.run(140.0)
    for view in desk.shown.jobs:
        assert view.reports is not None
        assert view.reports.outcomes == {"accepted": 150}
        assert view.reports.settled.gpu_seconds == pytest.approx(15.0)
    assert [reports.outcomes for _, reports in desk.shown.unowned_reports] == [
        {"accepted": 150}
    ] * 2


def test_a_job_on_a_part_of_a_gpu_gets_its_verdict_as_soon_as_one_on_a_whole_gpu() -> None:
    """A minute of OFU is enough; of a seventh of a GPU that is 8.6 GPU-seconds."""
    for profile, share in (("1g.10gb", 1 / 7), ("", 1.0)):
        desk = Desk(1)
        desk.node.gpus = [replace(gpu(0, instance="1"), profile=profile), gpu(1)]
        desk.give(Job("slurm", "1"), "0.1")
        answer = desk.every(10.0, 7, mfu=0.5 * CLOCK, peak_tflops=989.4)
        assert answer.horizon is not None
        assert answer.horizon.verdict is Verdict.AGREE
        assert answer.horizon.observed_seconds == pytest.approx(70.0 * share)


def test_what_an_earlier_job_of_a_pods_name_reported_is_not_the_jobs(desk: Desk) -> None:
    desk.give(Job("kubernetes", "ns/pod", uid="earlier"), "0")
    desk.run(60.0)
    desk.report("ns/pod", mfu=0.4)
    desk.give(Job("kubernetes", "ns/job", uid="u1", aliases=("ns/pod",)), "0")
    desk.run(400.0)
    assert desk.job("ns/job").reports is None


def test_what_a_pod_reported_before_its_job_was_known_is_the_jobs(desk: Desk) -> None:
    """Whether the job had reported before, or not."""
    for place, had_reported in enumerate((False, True)):
        pod = Job("kubernetes", f"ns/pod-{place}")
        name, aliases = f"ns/job-{place}", (f"ns/other-{place}", pod.job_id)
        job = Job("kubernetes", name, uid="u1", aliases=aliases)
        if had_reported:
            desk.give(job, str(place))
            desk.run(60.0)
            desk.report(
                name, mfu=0.4, start=EPOCH + desk.clock.now - 60, end=EPOCH + desk.clock.now
            )
        desk.give(pod, str(place))
        desk.run(60.0)
        desk.report(
            pod.job_id, mfu=0.4, start=EPOCH + desk.clock.now - 60, end=EPOCH + desk.clock.now
        )
        desk.give(job, str(place))
        desk.run(60.0)
        reports = desk.job(name).reports
        assert reports is not None
        assert reports.outcomes == {"accepted": 1 + had_reported}
        assert reports.total.gpu_seconds == pytest.approx(60.0 * (1 + had_reported))
        assert reports.total.mfu == pytest.approx(0.4)
