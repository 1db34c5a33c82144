"""What a job has reported is kept: its facts, its sums, its verdict, its steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ofu_exporter.flops import dense_peak
from ofu_exporter.jobs.reported_mfu import ReportedMfu
from ofu_exporter.jobs.totals import totals_of
from ofu_exporter.ofu.divergence import Thresholds
from ofu_exporter.ofu.ownership.starting import settled
from ofu_exporter.reports.coverage import Coverage
from ofu_exporter.reports.entry import Entry, Policy
from ofu_exporter.reports.owner import stepped
from ofu_exporter.values.job import Job, JobKey
from ofu_exporter.values.progress import MOST_RUN_LINES, Progress
from ofu_exporter.values.reasons import ReportRejection
from ofu_exporter.values.reported import Compared, ErrorMethod, ReportsView, Verdict
from ofu_exporter.values.snapshot import JobView
from tests.flops.causes.synthetic import LATENT
from tests.helpers.desk import CLOCK, OFU, WITHOUT_NOISE, A, Desk, anybody, refused, said
from tests.helpers.node import EPOCH
from tests.helpers.values import H100, gpu, reading

LATENT_MODEL = {"config": dict(LATENT.config), "seq_len": 4096}


@pytest.mark.slow
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


@pytest.mark.slow
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
    ahead = refused(desk, event="restart", start=EPOCH + 3600)
    assert (ahead.reason, ahead.field) == (ReportRejection.IN_FUTURE, "start")


def test_events_are_kept_by_run_and_another_run_of_the_job_goes_on(desk: Desk) -> None:
    desk.report(event="evaluation", start=EPOCH + 60, end=EPOCH + 75, step=10)
    desk.report(event="checkpoint", start=EPOCH + 80, end=EPOCH + 84, step=10)
    entry = desk.book._entries[A.key]
    progress = entry.next_run("later").progress
    (line,) = progress.lines.values()
    assert (line.step, line.saved_step) == (10, 10)
    assert (progress.evaluation_seconds, progress.checkpoint_seconds) == (2 * 15.0, 2 * 4.0)


def test_a_report_without_a_start_leaves_out_an_event_that_was_told(desk: Desk) -> None:
    desk.every(30.0, 4, mfu=0.9 * OFU)
    desk.run(60.0, tensor=0.0)
    began, ended = desk.clock.now - 60, desk.clock.now
    desk.report(event="evaluation", start=EPOCH + began, end=EPOCH + ended)
    desk.run(30.0)
    answer = desk.report(mfu=0.9 * OFU)
    assert answer.interval is not None
    assert (answer.interval.start, answer.interval.ofu) == pytest.approx((EPOCH + ended, OFU))
    assert desk.every(30.0, 2, mfu=0.9 * OFU).horizon.verdict is Verdict.AGREE  # type: ignore[union-attr]


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


@pytest.mark.slow
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
    for n in range(MOST_RUN_LINES + 3):
        desk.report(step=n, run=f"run-{n}")
    assert next(iter(desk.book._entries[A.key].progress.lines)) == "run-3"
    assert len(desk.book._entries[A.key].progress.lines) == MOST_RUN_LINES


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


def test_what_a_pod_reported_before_its_job_was_known_is_added_to_the_jobs() -> None:
    ours, pods = (
        Entry("", Coverage(life=Compared(*range(number, number + 11))), Counter(accepted=number))
        for number in (10, 20)
    )
    ours.finding_seconds, pods.finding_seconds = {"padding": 1.0}, {"padding": 2.0, "waits": 4.0}
    ours.traced_seconds, pods.traced_seconds = 8.0, 16.0
    pods.progress = Progress(restarts=3)
    assert ours.add(pods) is ours
    assert ours.coverage.total == Compared(*range(30, 52, 2))
    assert (ours.outcomes, ours.progress.restarts) == (Counter(accepted=30), 3)
    assert ours.finding_seconds == {"padding": 3.0, "waits": 4.0}
    assert ours.traced_seconds == 24.0


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
