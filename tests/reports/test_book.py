"""The report book: reports of every job beside the OFU of its GPUs, over the horizon and since the first one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ofu_exporter.errors import ReportError
from ofu_exporter.flops import dense_peak, explain
from ofu_exporter.jobs.reported_mfu import ReportedMfu
from ofu_exporter.jobs.totals import totals_of
from ofu_exporter.ofu.divergence import Thresholds
from ofu_exporter.ofu.job_state import GRACE_SECONDS
from ofu_exporter.ofu.starting import settled
from ofu_exporter.reports import causes as search
from ofu_exporter.reports.book import EXPLAINED_AT_ONCE, MOST_UNOWNED, REPORTS_AT_ONCE, ReportBook
from ofu_exporter.reports.causes import likely_causes
from ofu_exporter.reports.entry import EXPLAIN_SECONDS, Policy
from ofu_exporter.reports.owner import stepped
from ofu_exporter.values.gpu import Rating
from ofu_exporter.values.job import Job, JobKey
from ofu_exporter.values.progress import MOST_RUNS
from ofu_exporter.values.reasons import ReportRejection
from ofu_exporter.values.reported import Causes, ErrorMethod, ReportsView, Verdict
from ofu_exporter.values.snapshot import JobView
from tests.flops.causes.synthetic import LATENT
from tests.helpers.desk import CLOCK, Desk, anybody, said
from tests.helpers.node import EPOCH, whole
from tests.helpers.values import H100, gpu, reading

A, B = Job("slurm", "1", user="ada"), Job("slurm", "2")
OFU = 0.5 * CLOCK
WITHOUT_NOISE = Policy(thresholds=Thresholds(standard_errors=0.0))
LATENT_MODEL = {"config": dict(LATENT.config), "seq_len": 4096}


@pytest.fixture
def desk() -> Desk:
    """A job that has held both GPUs for two minutes, and they were measured."""
    made = Desk(policy=WITHOUT_NOISE)
    made.give(A, "0", "1")
    made.run(120.0)
    return made


def refused(desk: Desk, job_id: str = "1", **fields: Any) -> ReportError:
    with pytest.raises(ReportError) as error:
        desk.report(job_id, **fields)
    return error.value


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


def test_a_verdict_does_not_flap(desk: Desk) -> None:
    """The difference swings around the threshold of 2 points, and between it and its hysteresis."""
    desk.every(60.0, 10, mfu=OFU + 0.021)
    verdicts = []
    for number in range(20):
        desk.run(60.0)
        desk.report(mfu=OFU + (0.017 if number % 2 else 0.019))
        reports = desk.job().reports
        assert reports is not None
        verdicts.append(reports.recent_verdict)
    assert {*verdicts[1:]} == {Verdict.MFU_ABOVE_OFU}
    desk.every(60.0, 12, mfu=OFU + 0.01)
    assert desk.job().reports.recent_verdict is Verdict.AGREE  # type: ignore[union-attr]
    desk.every(60.0, 12, mfu=OFU + 0.018)
    assert desk.job().reports.recent_verdict is Verdict.AGREE  # type: ignore[union-attr]


def test_an_answer_says_how_the_error_of_its_ofu_is_known() -> None:
    desk = Desk(1)
    desk.give(A, "0")
    for hz in (1380e6, 1420e6) * 6:
        desk.run(5.0, hz=(hz,))
    desk.report(mfu=0.38)
    desk.run(5.0, hz=(1400e6,))
    answer = desk.report(mfu=0.38)
    assert answer.horizon is not None
    assert answer.horizon.stderr_method is ErrorMethod.ESTIMATED
    assert answer.horizon.stderr == pytest.approx(0.5 * CLOCK * 20 / 1400, rel=0.1)
    assert answer.interval is not None
    assert (answer.interval.stderr, answer.interval.stderr_method) == (None, ErrorMethod.UNKNOWN)
    desk.show()
    reports = desk.job().reports
    assert reports is not None
    assert reports.recent_stderr_ratio == answer.horizon.stderr
    assert reports.stderr_method is ErrorMethod.ESTIMATED


def test_the_horizon_forgets_and_the_total_does_not(desk: Desk) -> None:
    desk.every(60.0, 10, mfu=OFU + 0.3)
    desk.every(60.0, 12, mfu=OFU)
    reports = desk.job().reports
    assert reports is not None
    assert reports.recent_verdict is Verdict.AGREE
    assert reports.verdict is Verdict.MFU_ABOVE_OFU
    assert reports.causes is None


def test_a_job_that_has_stopped_reporting_has_no_mfu_any_more(desk: Desk) -> None:
    desk.report(mfu=0.4)
    desk.run(700.0)
    reports = desk.job().reports
    assert reports is not None
    assert reports.recent_mfu_ratio is None
    assert reports.recent_verdict is Verdict.INSUFFICIENT_DATA
    assert reports.settled.gpu_seconds == pytest.approx(2 * 60)


def test_a_change_of_precision_leaves_one_continuous_ofu(desk: Desk) -> None:
    """arXiv:2605.20799, section VI-B: twice the speed in fp8 is the same MFU."""
    peak = dense_peak(H100, "bf16") / 1e12
    desk.every(60.0, 3, tflops_per_gpu=0.37 * peak, precision="bf16")
    answer = desk.every(60.0, 3, tflops_per_gpu=0.74 * peak, precision="fp8")
    assert answer.peak_flops == pytest.approx(dense_peak(H100, "fp8"))
    assert answer.horizon is not None
    assert answer.horizon.mfu == pytest.approx(0.37, rel=1e-3)
    assert answer.horizon.ofu == pytest.approx(OFU)
    assert answer.horizon.verdict is Verdict.AGREE
    usage = desk.job()
    assert usage.utilization_seconds / usage.observed_seconds == pytest.approx(OFU)


def test_facts_are_said_once(desk: Desk) -> None:
    desk.report(mfu=0.54, gpus=2, model=LATENT_MODEL, precision="bf16")
    desk.run(600.0, tensor=0.2558 / CLOCK)
    answer = desk.every(60.0, 3, tensor=0.2558 / CLOCK, mfu=0.5427)
    assert answer.causes[0].cause.split("+")[0] == "latent_moe_full_hidden"


def test_a_step_alone_is_kept_and_covers_no_time(desk: Desk) -> None:
    desk.report(step=40, run="llama", end=EPOCH + 100)
    answer = desk.report(step=41, end=EPOCH + 110)
    assert (answer.mfu, answer.interval) == (None, None)
    assert desk.report(mfu=0.4, start=EPOCH + 60, end=EPOCH + 120, step=42).interval is not None
    desk.report(step=42, end=EPOCH + 118)
    desk.report(step=30, end=EPOCH + 121)
    (line,) = desk.book._entries[A.key].progress.lines.values()
    assert (line.step, line.at) == (42, EPOCH + 120)
    assert refused(desk, step=43, end=EPOCH + 200).reason is ReportRejection.IN_FUTURE


def test_events_are_kept_by_run_and_another_run_of_the_job_goes_on(desk: Desk) -> None:
    desk.report(event="evaluation", start=EPOCH + 60, end=EPOCH + 75, step=10)
    desk.report(event="checkpoint", start=EPOCH + 80, end=EPOCH + 84, step=10)
    entry = desk.book._entries[A.key]
    progress = entry.next_run("later").progress
    (line,) = progress.lines.values()
    assert (line.step, line.saved_step) == (10, 10)
    assert (progress.evaluation_seconds, progress.checkpoint_seconds) == (2 * 15.0, 2 * 4.0)


def restarted_desk(desk: Desk, restarts: int) -> JobView:
    desk.give(replace(A, restarts=restarts), "0", "1")
    (view,) = desk.book.reviewed(desk.node.last).jobs
    return view


def step_of_run(view: JobView) -> int | None:
    """As the page shows it."""
    assert view.reports is not None
    assert view.reports.progress is not None
    return view.reports.progress.step_of_run


def restarts_of(view: JobView) -> int:
    assert view.reports is not None
    assert view.reports.progress is not None
    return view.restarts + view.reports.progress.restarts


def test_after_a_restart_that_the_scheduler_counts_the_next_step_goes_on_below(desk: Desk) -> None:
    desk.report(step=100, end=EPOCH + 100)
    assert step_of_run(desk.book.reviewed(desk.node.last).jobs[0]) == 100
    view = restarted_desk(desk, 1)
    assert restarts_of(view) == 1
    assert step_of_run(view) is None, "this run has stated none yet"
    desk.run(20.0)
    desk.report(step=60, start=EPOCH + 130, end=EPOCH + 135)
    desk.report(step=70, end=EPOCH + 140)
    (view,) = desk.book.reviewed(desk.node.last).jobs
    assert view.reports is not None
    assert view.reports.progress is not None
    assert view.reports.progress.done_again_seconds == pytest.approx(2 * 10.0)
    assert restarts_of(view) == 1
    assert step_of_run(view) == 100


@settings(max_examples=40, phases=(Phase.explicit, Phase.generate))
@given(
    st.integers(0, 90),
    st.integers(1, 4),
    st.lists(st.integers(1, 118), min_size=1, max_size=12, unique=True),
    st.sampled_from(["step", "evaluation"]),
)
def test_each_second_after_a_requeue_is_of_the_start_or_done_again(
    works: int, phase: int, told: list[int], first: str
) -> None:
    """Windows of two GPUs end at different times; what is told while the run starts counts once its end is known."""
    desk = Desk()
    desk.give(replace(A, uid="r1"), "0", "1")
    desk.run(30.0)
    desk.report(step=10**6, end=EPOCH + 30)
    desk.give(replace(A, uid="r2", started=EPOCH + 30), "0", "1")
    ends = [{*range(35, 150, 5), 150}, {*range(30 + phase, 150, 5), 150}]
    begins, last = [30, 30], max(told) + 30
    for now in range(31, last + 1):
        desk.clock.now = float(now)
        if now - 30 in told:
            kind: dict[str, Any] = {"event": first, "start": EPOCH + 30} if first != "step" else {}
            desk.report(step=now, end=EPOCH + now, **kind)
            first = "step"
        windows = []
        for number in (0, 1):
            if now in ends[number] or now == last:
                tensor = max(0.0, min(1.0, (now - 30 - works) / (now - begins[number])))
                windows.append(reading(begins[number], now, tensor, device=gpu(number)))
                begins[number] = now
        if windows:
            desk.node.tick(float(now), *windows, stepped=stepped(desk.shown))
            desk.show()
    view = desk.job()
    progress = view.reports and view.reports.progress
    assert progress
    begun = (view.worked_since or EPOCH + last) - EPOCH
    assert settled(view.start).seconds == pytest.approx(2 * (begun - 30))
    assert progress.done_again_seconds == pytest.approx(2 * (last - begun))
    assert not progress.evaluation_seconds


@pytest.mark.parametrize("told", ["event", "steps"])
def test_a_restart_that_reports_and_then_the_scheduler_tell_counts_once(
    desk: Desk, told: str
) -> None:
    desk.report(step=99, end=EPOCH + 99)
    desk.report(step=100, end=EPOCH + 100)
    if told == "event":
        desk.report(event="restart", start=EPOCH + 102, end=EPOCH + 110)
    desk.report(step=60, end=EPOCH + 115)
    desk.report(step=70, end=EPOCH + 120)
    (view,) = desk.book.reviewed(desk.node.last).jobs
    assert restarts_of(view) == 1
    view = restarted_desk(desk, 1)
    assert (view.restarts, restarts_of(view)) == (1, 1)
    assert restarts_of(restarted_desk(desk, 2)) == 2


def test_of_the_runs_of_a_job_so_many_are_remembered(desk: Desk) -> None:
    for n in range(MOST_RUNS + 3):
        desk.report(step=n, run=f"run-{n}")
    assert next(iter(desk.book._entries[A.key].progress.lines)) == "run-3"
    assert len(desk.book._entries[A.key].progress.lines) == MOST_RUNS


def test_facts_without_an_mfu_are_kept(desk: Desk) -> None:
    assert desk.book.take(said(gpus=2, precision="fp8"), anybody).interval is None
    answer = desk.report(gpus=2, precision="fp8")
    assert answer.mfu is None
    assert answer.interval is None
    assert desk.report(framework="megatron").mfu is None
    peak = dense_peak(H100, "fp8")
    assert desk.report(model_flops_per_second=0.4 * 2 * peak).mfu == pytest.approx(0.4)


def test_the_framework_of_a_run_is_the_first_that_was_named(desk: Desk) -> None:
    """One that changed with every report would be a series each time."""
    assert framework_of(desk) == ""
    desk.report(framework="Megatron-LM 0.13", mfu=OFU)
    assert framework_of(desk) == "megatron-lm"
    for number in range(20):
        desk.report(framework=f"made-up-{number}")
    assert framework_of(desk) == "megatron-lm"


@pytest.mark.parametrize(
    ("left", "shown"),
    [("megatron-lm", "megatron-lm"), ("", ""), ('x"} 1\nofu_job_info{', "x"), ("\x1b[31m", "")],
)
def test_the_framework_that_an_earlier_agent_knew_is_the_first(
    desk: Desk, left: str, shown: str
) -> None:
    """What the file says is checked as what a job says."""
    desk.report(framework="Megatron-LM 0.13", mfu=OFU)
    desk.run(5.0)
    reported = totals_of(desk.job(), "n1", simulated=False).reported
    assert reported is not None
    assert reported.framework == "megatron-lm"
    desk.book = desk.opened(WITHOUT_NOISE)
    desk.book.resume(A.key, A.uid, replace(reported, framework=left))
    desk.run(5.0)
    assert framework_of(desk) == shown
    desk.report(framework="nemo")
    assert framework_of(desk) == (shown or "nemo")


def test_another_run_does_not_use_what_the_run_before_a_restart_did() -> None:
    for before, framework in (("u1", ""), ("u2", "nemo")):
        desk = Desk(1)
        desk.give(Job("kubernetes", "ml/train", uid="u2"), "0")
        reported = ReportedMfu(outcomes={"accepted": 1}, framework="nemo")
        desk.book.resume(JobKey("kubernetes", "ml/train"), before, reported)
        desk.run(5.0)
        assert reports_of(desk).framework == framework


def framework_of(desk: Desk) -> str:
    desk.show()
    (view,) = desk.shown.jobs
    return view.reports.framework if view.reports else ""


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


def test_what_diverges_is_explained_by_the_thresholds_of_the_site(desk: Desk) -> None:
    """A point above OFU is nothing unusual, unless the site has said that it is."""
    near = OFU + 0.01
    answer = desk.report(mfu=near)
    assert answer.interval is not None
    assert (answer.interval.verdict, answer.causes) == (Verdict.AGREE, ())
    desk.book.policy = Policy(thresholds=Thresholds(above=0.005, standard_errors=0.0))
    desk.run(70.0)
    answer = desk.report(mfu=near)
    assert answer.interval is not None
    assert answer.interval.verdict is Verdict.MFU_ABOVE_OFU
    assert answer.horizon is not None
    assert answer.horizon.verdict is Verdict.MFU_ABOVE_OFU
    assert answer.causes
    desk.run(5.0)
    reports = desk.job().reports
    assert reports is not None
    assert reports.verdict is Verdict.MFU_ABOVE_OFU


def test_there_is_nothing_to_explain_of_what_was_not_compared_or_has_left() -> None:
    desk = Desk()
    desk.give(A, "0")
    desk.clock.now = 3.0
    receipt = desk.book.take(said(mfu=0.4), anybody)
    desk.book.explain(receipt.owner.key)
    assert desk.book.answer(receipt).causes == ()
    desk.node.give(4.0)
    desk.run(2 * GRACE_SECONDS)
    assert desk.shown.jobs == ()
    desk.book.explain(receipt.owner.key)
    assert desk.book.answer(receipt).causes == ()


def test_divergence_is_explained_when_it_begins_and_now_and_then(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[float] = []
    look = likely_causes

    def counted(*args: Any) -> Causes:
        looked.append(desk.clock.now)
        return look(*args)

    monkeypatch.setattr(search, "likely_causes", counted)
    for _ in range(int(3.5 * EXPLAIN_SECONDS)):
        desk.run(1.0, window=1.0)
        desk.report(mfu=0.9)
    assert len(looked) == 4
    desk.report(gpus=2)
    at_once = len(looked)
    desk.run(1.0, window=1.0)
    desk.report(mfu=0.9, recompute="none")
    assert len(looked) == at_once + 1, "another fact is another explanation"


def late_windows(desk: Desk, *jobs: Job) -> None:
    """Reports of 120 s whose windows come only now: the verdict turns when nobody reports."""
    for job in jobs:
        desk.give(job, "0", "1")
    began = desk.clock.now
    desk.clock.now += 120.0
    answer = desk.report(mfu=2 * OFU, start=EPOCH + began)
    assert answer.horizon is not None
    assert (answer.horizon.verdict, answer.causes) == (Verdict.INSUFFICIENT_DATA, ())
    desk.clock.now = began
    desk.run(120.0)


def test_causes_are_there_as_soon_as_a_verdict_turns() -> None:
    desk = Desk(policy=WITHOUT_NOISE)
    late_windows(desk, A)
    reports = desk.job().reports
    assert reports is not None
    assert reports.recent_verdict is Verdict.MFU_ABOVE_OFU
    assert reports.causes is not None
    assert reports.causes.first is not None


@pytest.mark.parametrize(
    ("spent", "counts"),
    [("", [EXPLAINED_AT_ONCE, 2 * EXPLAINED_AT_ONCE, 5, 5]), ("12", [EXPLAINED_AT_ONCE, 3, 3, 3])],
)
def test_a_tick_looks_for_the_causes_of_few_jobs_and_the_next_goes_on(
    spent: str, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it looks, whoever needs the book gets it. Jobs that have spent their time hold up no other."""
    looked: list[str] = []
    desk = Desk(6, policy=WITHOUT_NOISE)

    def counted(*args: Any) -> Causes:
        with ThreadPoolExecutor(1) as another:
            another.submit(desk.book.reject, ReportRejection.MALFORMED).result(20)
        looked.append(args[0].report.job_id)
        return Causes()

    monkeypatch.setattr(search, "likely_causes", counted)
    jobs = [Job("slurm", str(number)) for number in range(1, 6)]
    desk.node.give(0.0, *(whole(job, str(place)) for place, job in enumerate(jobs)))
    desk.clock.now = 100.0
    for job in jobs:
        desk.report(job.job_id, mfu=0.9, start=EPOCH)
    assert looked == []
    for job_id in spent:
        desk.book.work.spend(1.5, job_id)
    desk.node.run(0.0, 100.0)
    found = []
    for _ in range(4):
        desk.show()
        found.append(len(looked))
    assert found == counts
    assert sorted(looked) == [each for each in "12345" if each not in spent]


def test_of_many_reports_at_once_one_explains(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    looking, going_on = threading.Event(), threading.Event()
    looks = []

    def slow(*args: Any) -> Causes:
        looks.append(args)
        looking.set()
        assert going_on.wait(20)
        return Causes()

    monkeypatch.setattr(search, "likely_causes", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(desk.report, mfu=0.9)
        assert looking.wait(20)
        desk.run(5.0)
        assert desk.report(mfu=0.9).causes == (), "nobody waits for an explanation of somebody else"
        going_on.set()
        first.result(20)
    assert len(looks) == 1


def test_an_explanation_that_fails_costs_the_answer_nothing(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No configuration is known that breaks it; whoever finds one must not break the report."""

    def broken(*args: object, **more: object) -> None:
        raise ZeroDivisionError("nothing to divide by")

    monkeypatch.setattr(explain, "explain", broken)
    answer = desk.report(mfu=0.9)
    assert answer.horizon is not None
    assert answer.horizon.verdict is Verdict.MFU_ABOVE_OFU
    assert answer.causes == ()
    (line,) = caplog.messages
    assert line.startswith("job 1: no causes looked for: cannot be explained: ZeroDivisionError")
    desk.run(5.0)
    assert desk.job().reports.causes == Causes()  # type: ignore[union-attr]


def test_nor_does_one_that_fails_in_another_way(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("never seen")

    monkeypatch.setattr(search, "likely_causes", broken)
    assert desk.report(mfu=0.9).mfu == 0.9
    assert caplog.messages == ["job 1: no causes found"]
    assert "RuntimeError: never seen" in caplog.text


def test_a_package_replaced_under_the_agent_costs_the_causes_and_no_report(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, search.__name__, None)
    assert desk.report(mfu=0.9).causes == ()
    assert caplog.messages[0].startswith("job 1: no causes looked for, restart the agent: ")
    monkeypatch.undo()
    desk.run(EXPLAIN_SECONDS + 1)
    assert desk.report(mfu=0.9).causes, "the next search finds it again"


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


def test_another_run_of_a_job_goes_on_with_its_sums_and_forgets_its_facts() -> None:
    desk = Desk()
    first, second = (Job("kubernetes", "ml/train", uid=uid) for uid in ("u1", "u2"))
    desk.give(first, "0")
    desk.run(120.0)
    desk.report("ml/train", mfu=0.9, precision="fp8", tile_overhead=0.25)
    desk.run(60.0)
    before = reports_of(desk)
    desk.give(second, "0")
    after = reports_of(desk)
    assert (after.total, after.outcomes) == (before.total, before.outcomes)
    assert after.settled.gpu_seconds >= before.settled.gpu_seconds
    assert (after.recent_verdict, after.recent_mfu_ratio, after.last) == (
        Verdict.INSUFFICIENT_DATA,
        None,
        None,
    )
    desk.run(120.0)
    assert reports_of(desk).adjusted == before.adjusted, "this run has not said what tiles add"
    refused(desk, "ml/train", mfu=0.4, precision="fp4")
    desk.run(5.0)
    assert reports_of(desk).outcomes == {"accepted": 1, "out_of_range": 1}
    answer = desk.report("ml/train", mfu=0.4)
    assert answer.peak_flops == pytest.approx(dense_peak(H100, "bf16")), "it did not say fp8"
    assert answer.interval is not None
    assert answer.interval.start == EPOCH + 245, "nothing of the run before"
    desk.run(70.0)
    total = reports_of(desk).total
    assert total.mfu_seconds == pytest.approx(0.9 * 60 + 0.4 * 60)
    assert total.gpu_seconds == pytest.approx(120.0)


def reports_of(desk: Desk) -> ReportsView:
    found = desk.job("ml/train").reports
    assert found is not None
    return found


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


def test_a_job_that_gets_its_first_gpu_begins_anew(desk: Desk) -> None:
    desk.book = desk.opened(KEEPING)
    receipt = desk.book.take(said("2", mfu=0.4), anybody)
    desk.node.give(120.0, whole(A, "0"), whole(B, "1"))
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


def test_other_thresholds_hold_from_the_next_tick_on(desk: Desk) -> None:
    desk.report(mfu=OFU + 0.05)
    desk.run(5.0)
    assert desk.job().reports.recent_verdict is Verdict.MFU_ABOVE_OFU  # type: ignore[union-attr]
    desk.book.policy = Policy(thresholds=Thresholds(above=0.1))
    desk.run(5.0)
    assert desk.job().reports.recent_verdict is Verdict.AGREE  # type: ignore[union-attr]


def test_a_shorter_horizon_forgets_at_once(desk: Desk) -> None:
    desk.every(60.0, 5, mfu=0.4)
    desk.book.policy = Policy(horizon=120.0)
    desk.run(5.0)
    assert desk.job().reports.horizon.gpu_seconds == pytest.approx(2 * 120)  # type: ignore[union-attr]


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


def test_ofu_without_tiles_counts_from_when_their_overhead_is_known(desk: Desk) -> None:
    desk.every(30.0, 1, mfu=0.4)
    desk.show()
    assert desk.job().reports.adjusted is None  # type: ignore[union-attr]
    desk.report(tile_overhead=0.25)
    desk.run(60.0)
    desk.report(mfu=0.4, tile_overhead=0.5)
    desk.run(60.0, tensor=0.3)
    adjusted = desk.job().reports.adjusted  # type: ignore[union-attr]
    assert adjusted is not None
    assert adjusted.tile_overhead == 0.5
    assert adjusted.gpu_seconds == pytest.approx(2 * 120)
    expected = 2 * 60 * (OFU / 1.25 + 0.3 * CLOCK / 1.5)
    assert adjusted.utilization_seconds == pytest.approx(expected)


def test_a_lower_bound_stays_one_until_another_overhead_is_told(desk: Desk) -> None:
    said = desk.report(tile_overhead=0.25, tile_overhead_bound="lower")
    assert (said.tile_overhead, said.tile_overhead_bound) == (0.25, "lower")
    desk.run(30.0)
    assert desk.report(mfu=0.4).tile_overhead_bound == "lower"
    desk.run(30.0)
    told = desk.job().reports.adjusted  # type: ignore[union-attr]
    assert told is not None
    assert (told.tile_overhead, told.bound) == (0.25, "lower")
    said = desk.report(mfu=0.4, tile_overhead=0.5)
    assert (said.tile_overhead, said.tile_overhead_bound) == (0.5, None), "a bound is of its number"


def test_a_restarted_agent_goes_on_without_tiles_too(desk: Desk) -> None:
    desk.report(tile_overhead=0.25, tile_overhead_bound="lower")
    desk.run(60.0)
    left = totals_of(desk.job(), "n1", simulated=False).reported
    assert left is not None
    assert left.adjusted_utilization_ratio == pytest.approx(OFU / 1.25)
    desk.book = desk.opened(WITHOUT_NOISE)
    desk.book.resume(A.key, A.uid, left)
    desk.show()
    desk.run(60.0)
    adjusted = desk.job().reports.adjusted  # type: ignore[union-attr]
    assert adjusted is not None
    assert (adjusted.tile_overhead, adjusted.bound) == (0.25, "lower")
    assert adjusted.gpu_seconds == pytest.approx(2 * 120)
    assert adjusted.utilization_seconds == pytest.approx(2 * 120 * OFU / 1.25)


def test_a_restarted_agent_still_knows_the_precisions_that_a_profile_told(desk: Desk) -> None:
    told = desk.report(precision={"bf16": 0.5, "fp8": 0.5}).peak_flops
    desk.run(60.0)
    left = totals_of(desk.job(), "n1", simulated=False).reported
    assert left is not None
    desk.book = desk.opened(WITHOUT_NOISE)
    desk.book.resume(A.key, A.uid, left)
    desk.show()
    assert desk.report(mfu=0.4).peak_flops == told != dense_peak(H100, "bf16")


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
