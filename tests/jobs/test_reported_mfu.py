"""What a job reported on several nodes is added, and judged anew."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ofu_exporter.jobs.reported_mfu import ReportedMfu
from ofu_exporter.jobs.summary import summary_text
from ofu_exporter.jobs.totals import JobTotals, merged
from ofu_exporter.values.progress import Progress
from ofu_exporter.values.reported import Adjusted, Compared, ErrorMethod, Verdict
from ofu_exporter.values.trace import TimeParts, TraceSummary
from tests.helpers.documents import made, on_instances, reporting
from tests.helpers.every import every


def test_what_a_job_reported_goes_with_it() -> None:
    reported = reporting().reported
    assert reported is not None
    assert reported.mfu_ratio == pytest.approx(0.40)
    assert reported.utilization_ratio == pytest.approx(0.34)
    assert (reported.recent_mfu_ratio, reported.recent_verdict) == (0.42, Verdict.MFU_ABOVE_OFU)
    assert reported.verdict is Verdict.AGREE
    assert made().reported is None


def test_reports_of_several_nodes_are_added_as_numerator_and_denominator() -> None:
    other = reporting("n2", total=Compared(90.0, 30.0, 100.0, 0.5), last=1200.0)
    both = merged([reporting(), other, made("n3")]).reported
    assert both is not None
    assert both.mfu_ratio == pytest.approx(130 / 200)
    assert both.utilization_ratio == pytest.approx(64 / 200)
    assert both.verdict is Verdict.MFU_ABOVE_OFU, "of the sums, whatever the nodes said"
    assert both.outcomes == {"accepted": 10, "overlap": 2}
    assert both.last == 1200.0
    assert merged([made(), made("n2")]).reported is None


def test_the_framework_is_that_of_the_last_node_that_was_told_one() -> None:
    nodes = [
        reporting("n1", last=1200.0),
        reporting("n2", last=1100.0, framework="nemo"),
        reporting("n3", last=1000.0, framework="megatron-lm"),
    ]
    for order in itertools.permutations(nodes):
        both = merged(order).reported
        assert both is not None
        assert both.framework == "nemo"


def test_of_three_nodes_the_one_that_was_told_last_speaks_for_the_moment() -> None:
    """And one that has reported nothing that could be used does not."""
    nodes = [
        reporting(
            "n1", last=1200.0, recent_mfu_ratio=0.5, adjusted=Adjusted(0.03, "exact", 1.0, 1.0)
        ),
        reporting("n2", last=None, recent_mfu_ratio=None, adjusted=Adjusted(0.01, None, 1.0, 1.0)),
        reporting("n3", last=1100.0, recent_mfu_ratio=0.3, adjusted=Adjusted(0.02, None, 1.0, 1.0)),
    ]
    for order in itertools.permutations(nodes):
        both = merged(order).reported
        assert both is not None
        assert (both.last, both.recent_mfu_ratio) == (1200.0, 0.5)
        assert both.adjusted == Adjusted(0.03, "exact", 3.0, 3.0)


H100, BF16 = "H100-SXM5-80GB", {"bf16": 1.0}


@every(
    [
        (H100, H100, BF16, Verdict.MFU_ABOVE_OFU),
        (H100, "A100-SXM4-80GB", BF16, Verdict.AGREE),
        (H100, None, BF16, Verdict.AGREE),
        (H100, H100, {"fp8": 1.0}, Verdict.AGREE),
        (H100, H100, None, Verdict.AGREE),
    ]
)
def test_nodes_together_are_judged_by_what_an_honest_mfu_is_on_their_card(
    first: str, second: str | None, precision: dict[str, float] | None, verdict: Verdict
) -> None:
    """On an H100 no honest MFU in BF16 is above 0.97 of OFU, and 41.5 % is over 2 points more than that of 40 %."""
    total = Compared(41.5, 40.0, 100.0)
    parts = [
        reporting("n1", total=total, card=first, precision=BF16),
        reporting("n2", total=total, card=second, precision=precision),
    ]
    for order in itertools.permutations(parts):
        kept = [JobTotals.model_validate_json(each.model_dump_json()) for each in order]
        both = merged(kept).reported
        assert both is not None
        assert both.verdict is verdict
        beside = merged([*kept, reporting("n3", total=Compared())]).reported
        assert beside is not None
        assert beside.verdict is verdict, "a node where nothing was compared widens nothing"


def test_numbers_that_no_node_could_have_are_merged_all_the_same() -> None:
    """A wrong row in the configuration shows an OFU far above 1; the API must not fail for it."""
    odd = reporting("n2", total=Compared(2000.0, 700.0, 100.0))
    both = merged([odd, odd]).reported
    assert both is not None
    assert both.verdict is Verdict.MFU_ABOVE_OFU


POINTS = Compared(40.0, 34.0, 100.0, 0.0, 100.0, 34.0, 10.0, 1.7e10, 2.9e19)


def test_how_an_error_is_known_goes_with_the_verdict() -> None:
    """Also through the state file: the sums are enough to make the error again."""
    before = reporting(total=POINTS, total_error=POINTS.error())
    reported = JobTotals.model_validate_json(before.model_dump_json()).reported
    assert reported is not None
    assert reported.stderr_method is ErrorMethod.ESTIMATED
    assert reported.stderr_ratio == POINTS.error().ratio
    assert Compared(*(getattr(reported, name) for name in Compared._fields)) == POINTS
    both = merged([before, before]).reported
    assert both is not None
    assert both.stderr_ratio == pytest.approx(POINTS.error().ratio, rel=0.05)


@every(
    [
        (10.0, "This OFU may be 2.0% off, by the spread of its clock reads, so the limits"),
        (2.0, "How far this OFU may be off is not known yet, so the limits"),
    ]
)
def test_a_summary_says_where_an_error_was_not_measured(reads: float, line: str) -> None:
    hz = reads * 1.7e9
    squares = reads * 1.7e9**2 + (reads - 1) * (0.1e9) ** 2
    total = POINTS._replace(point_reads=reads, point_hz=hz, point_hz_squares=squares)
    said = summary_text(reporting(total=total, total_error=total.error()))
    assert line in said
    assert "may be" not in summary_text(
        reporting(total_error=Compared(40.0, 34.0, 100.0, 0.5).error())
    )


def test_ofu_without_tiles_is_added_too_and_one_bound_is_enough() -> None:
    exact = reporting(adjusted=Adjusted(0.02, "exact", 30.0, 100.0), last=1200.0)
    lower = reporting("n2", adjusted=Adjusted(0.01, "lower", 10.0, 50.0))
    both = merged([exact, lower, reporting("n3")]).reported
    assert both is not None
    assert both.adjusted == Adjusted(0.02, "lower", 40.0, 150.0)
    unsaid = reporting("n2", adjusted=Adjusted(0.01, None, 10.0, 50.0), last=1300.0)
    without = merged([exact, unsaid]).reported
    assert without is not None
    assert without.adjusted == Adjusted(0.01, None, 40.0, 150.0), "nobody said lower"
    assert both.adjusted_utilization_ratio == pytest.approx(40 / 150)
    assert JobTotals.model_validate_json(lower.model_dump_json()) == lower


def test_a_minute_of_reports_on_an_instance_is_enough_for_a_verdict() -> None:
    """The GPU-seconds of a seventh of a GPU come seven times as slowly."""
    (_, _, part, _) = on_instances().gpus
    reports = ReportedMfu(mfu_seconds=16.0, utilization_seconds=8.0, gpu_seconds=20.0)
    both = merged([made(gpus=(part,), reported=reports), made("n2", gpus=(), reported=reports)])
    assert both.reported is not None
    assert both.reported.verdict is Verdict.MFU_ABOVE_OFU
    whole = made(gpus=(part.model_copy(update={"share_ratio": 1.0}),), reported=reports)
    on_a_whole_gpu = merged([whole, made("n2", gpus=(), reported=reports)]).reported
    assert on_a_whole_gpu is not None
    assert on_a_whole_gpu.verdict is Verdict.INSUFFICIENT_DATA


def test_reports_may_be_of_one_gpu_of_a_job_with_many() -> None:
    """80 GPU-seconds are of 80 s of one GPU, or of 20 s of four: nobody says which, and a minute is enough."""
    reports = ReportedMfu(mfu_seconds=32.0, utilization_seconds=16.0, gpu_seconds=40.0)
    both = merged([made(reported=reports), made("n2", reported=reports)]).reported
    assert both is not None
    assert both.verdict is Verdict.MFU_ABOVE_OFU


@every(
    [({"bf16": 0.6, "fp8": 0.5}, False), ({"bf16": 0.0, "fp8": 1.0}, False), ({"bf16": 1.0}, True)]
)
def test_precisions_are_shares_of_all_flops(precision: dict[str, float], may_be: bool) -> None:
    reported = reporting().reported
    assert reported is not None
    if may_be:
        assert replace(reported, precision=precision).precision == precision
    else:
        with pytest.raises(ValueError, match="impossible: precision"):
            replace(reported, precision=precision)


def test_time_that_nodes_tell_of_is_added_and_their_restarts_are_the_same_ones() -> None:
    parts = [
        reporting("n1", progress=Progress(restarts=2, done_again_seconds=30.0)),
        reporting("n2", progress=Progress(restarts=3, done_again_seconds=12.0)),
        reporting("n3", progress=Progress(restarts=3, checkpoint_seconds=5.0)),
        reporting("n4"),
    ]
    for order in itertools.permutations(parts):
        both = merged(order).reported
        assert both is not None
        assert both.progress == Progress(
            restarts=3, done_again_seconds=42.0, checkpoint_seconds=5.0
        )


def test_of_traces_of_several_nodes_the_last_one_is_shown() -> None:
    parts = dict.fromkeys(TimeParts._fields, 0.2)
    traces = TraceSummary(5.0, 8, 90.0, parts), TraceSummary(9.0, 8, 10.0, parts)
    for order in itertools.permutations(traces):
        reported = merged([reporting(f"n{n}", trace=each) for n, each in enumerate(order)]).reported
        assert reported is not None
        assert reported.trace == traces[1]
