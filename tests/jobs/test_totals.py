"""A job's totals as JSON and as words, of one node and of many."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ofu_exporter.jobs.gpu_totals import GpuTotals, RunTotals
from ofu_exporter.jobs.reported_mfu import ReportedMfu
from ofu_exporter.jobs.summary import one_line, text
from ofu_exporter.jobs.totals import JobTotals, merged, resumed, totals_of
from ofu_exporter.ofu.job_state import JobState, views
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import GpuUsage, Job
from ofu_exporter.values.losses import LossSums, MemorySums
from ofu_exporter.values.progress import Fall, Progress, Recovery, RunLine
from ofu_exporter.values.reported import (
    Adjusted,
    Compared,
    ErrorMethod,
    Verdict,
)
from ofu_exporter.values.snapshot import JobView
from tests.helpers.documents import VIEW, made, reporting
from tests.helpers.every import every


def test_the_mean_is_a_sum_over_a_sum() -> None:
    assert made().utilization_ratio == pytest.approx(51.0 / 150.0)
    assert made().gpu_seconds == pytest.approx(150.0)
    assert made().observed_ratio == pytest.approx(0.75)


def test_a_job_that_went_on_elsewhere_has_the_gpus_of_its_last_run() -> None:
    """Requeued from one node to another, which has other GPUs; or still ending on the first."""
    over, late, second = (
        with_a_run(made(node, began=began, ended=ended))
        for node, began, ended in (
            ("n1", 1000.0, 1100.0),
            ("n1", 1000.0, 1250.0),
            ("n2", 1200.0, 1300.0),
        )
    )
    other = second.gpus[0].model_copy(update={"uuid": "GPU-other"})
    second = second.model_copy(update={"gpus": (other,)})
    assert merged([over, second]).gpu_count == 1
    assert merged([late, second]).gpu_count == over.gpu_count + 1


def with_a_run(job: JobTotals) -> JobTotals:
    sums = {"held_seconds": 1.0, "observed_seconds": 1.0, "utilization_seconds": 0.1}
    run = RunTotals.model_validate({"began": job.began, "ended": job.ended, **sums})
    return job.model_copy(update={"runs": (run,)})


def test_percentiles_are_of_observed_time() -> None:
    assert made().window_percentiles == {"p10": 0.1, "p50": 0.5, "p90": 0.5}


def test_a_percentile_is_the_first_ofu_below_which_that_share_of_the_time_was() -> None:
    halves = made(distribution={20: 50.0, 80: 40.0, 120: 10.0})
    assert halves.window_percentiles == {"p10": 0.1, "p50": 0.1, "p90": 0.4}


def test_a_job_of_which_nothing_was_observed_has_no_ofu() -> None:
    nothing = made(gpus=(), distribution={})
    assert nothing.utilization_ratio is None
    assert nothing.observed_ratio is None
    assert nothing.window_percentiles == {}
    assert one_line(nothing) == "ofu=none gpus=0 gpu_hours=0.00 observed=none nodes=1"


def test_json_and_back() -> None:
    assert JobTotals.model_validate_json(made().model_dump_json()) == made()


@every([{"version": 2}, {"began": "soon"}, {"distribution": {"1": -1}}, {"gpus": [{}]}])
def test_what_is_no_report_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        JobTotals.model_validate({**made().model_dump(), **damage})


def test_nodes_are_added_as_numerator_and_denominator() -> None:
    other = GpuTotals(
        gpu="0",
        uuid="GPU-9",
        node="n2",
        held_seconds=50,
        observed_seconds=50,
        utilization_seconds=50,
    )
    both = merged([made(), made("n2", gpus=(other,), distribution={200: 50.0})])
    assert both.utilization_ratio == pytest.approx(101.0 / 200.0)
    assert both.nodes == ("n1", "n2")
    assert len(both.gpus) == 3
    assert both.window_percentiles["p90"] == 1.0


def test_runs_of_one_node_are_added_per_gpu() -> None:
    twice = merged([made(ended=1100.0), made(began=2000.0, updated=2100.0, ended=2100.0)])
    assert len(twice.gpus) == 2
    assert twice.gpu_seconds == pytest.approx(300.0)
    assert (twice.began, twice.ended) == (1000.0, 2100.0)


def test_a_job_runs_as_long_as_it_runs_on_any_node() -> None:
    assert merged([made(ended=1100.0), made("n2")]).ended is None


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20))
def test_merging_in_any_order_gives_the_same(steps: list[int]) -> None:
    parts = [
        made(f"n{number}", distribution={step: 1.0}, updated=1100.0 + number)
        for number, step in enumerate(steps)
    ]
    one, other = merged(parts), merged(parts[::-1])
    assert one.window_percentiles == other.window_percentiles
    assert one.gpu_seconds == pytest.approx(other.gpu_seconds)
    assert set(one.nodes) == set(other.nodes)
    assert math.fsum(one.distribution.values()) == len(steps)


def test_what_a_job_reported_goes_with_it() -> None:
    reported = reporting().reported
    assert reported is not None
    assert reported.mfu_ratio == pytest.approx(0.40)
    assert reported.utilization_ratio == pytest.approx(0.34)
    assert (reported.recent_mfu_ratio, reported.recent_verdict) == (0.42, Verdict.MFU_ABOVE_OFU)
    assert reported.verdict is Verdict.AGREE
    assert made().reported is None


def test_it_survives_json() -> None:
    assert JobTotals.model_validate_json(reporting().model_dump_json()) == reporting()


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


def test_a_merged_job_is_held_since_the_earliest_of_its_nodes() -> None:
    nodes = [made("n1", held_since=950.0), made("n2", held_since=900.0), made("n3")]
    for order in itertools.permutations(nodes):
        assert merged(order).held_since == 900.0
    assert merged([made("n1"), made("n2")]).held_since is None


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
    said = text(reporting(total=total, total_error=total.error()))
    assert line in said
    assert "may be" not in text(reporting(total_error=Compared(40.0, 34.0, 100.0, 0.5).error()))


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


EVERYTHING = JobView(
    job=Job(
        *("slurm", "12", "llama", "ada", "physics", "gpu", "ml", "10", "2"),
        uid="a run's own",
    ),
    usage={
        GpuKey("GPU-0", ""): GpuUsage(
            *("0", GpuKey("GPU-0", ""), 100.0, 90.0, 45.0),
            sums=LossSums(memory=MemorySums(70.0, 90.0, 9e13)),
        ),
        GpuKey("GPU-1", "3"): GpuUsage("1", GpuKey("GPU-1", "3"), 80.0, 60.0, 6.0),
    },
    distribution={100: 90.0, 20: 60.0},
    began=1000.0,
    ended=1090.0,
    updated=1100.0,
)


def test_all_that_is_known_of_a_job_survives_the_file() -> None:
    document = totals_of(EVERYTHING, "n1", simulated=True).model_dump_json()
    again = resumed(JobTotals.model_validate_json(document), Instant(5.0, 1100.0))
    assert again == JobState(
        job=EVERYTHING.job,
        began=1000.0,
        usage=EVERYTHING.usage,
        distribution=EVERYTHING.distribution,
        run_began=1000.0,
        ended=1090.0,
        ended_at=-5.0,
    )


def test_a_document_says_which_node_and_whether_it_was_simulated_and_over() -> None:
    document = totals_of(EVERYTHING, "n1", simulated=True)
    assert (document.nodes, document.simulated, document.ended) == (("n1",), True, 1090.0)
    assert [gpu.node for gpu in document.gpus] == ["n1", "n1"]
    assert not made().simulated
    reported = reporting(precision={"bf16": 0.3, "fp8": 0.7}).reported
    assert reported is not None
    assert (reported.peak_flops, reported.last) == (989.4e12, 1095.0)
    assert reported.precision == {"bf16": 0.3, "fp8": 0.7}


def test_what_an_earlier_agent_left_is_not_shown_until_the_job_is_seen() -> None:
    left = resumed(made(), Instant(5.0, 1100.0))
    assert left.unseen_since == 1100.0
    assert views([left], Instant(105.0, 1200.0)) == ()


def on_instances() -> JobTotals:
    """A job on three MIG instances of one GPU, and on a whole GPU."""
    usage = [
        GpuUsage("0", GpuKey("GPU-0", number), 200 * share, 100 * share, 50 * share, share=share)
        for number, share in (("1", 3 / 7), ("2", 3 / 7), ("5", 1 / 7))
    ]
    whole = GpuUsage("1", GpuKey("GPU-1", ""), 200.0, 100.0, 20.0)
    used = {each.key: each for each in (*usage, whole)}
    view = JobView(Job("slurm", "1"), 0.0, used, updated=200.0)
    return totals_of(view, "n1", simulated=False)


def test_a_job_on_instances_has_parts_of_gpus() -> None:
    job = on_instances()
    assert job.gpu_count == pytest.approx(2)
    assert job.gpu_seconds == pytest.approx(200)
    assert job.utilization_ratio == pytest.approx(0.35)
    assert job.observed_ratio == pytest.approx(0.5)


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


def waited(seconds: float | None) -> JobTotals:
    """A job of which one GPU waited for this long."""
    first = replace(VIEW.usage[GpuKey("GPU-0", "")], held_seconds=200.0, waiting_seconds=seconds)
    return totals_of(replace(VIEW, usage={**VIEW.usage, first.key: first}), "n1", simulated=False)


def test_the_time_before_a_job_ran_is_no_part_of_its_observed_share() -> None:
    assert waited(100.0).observed_ratio == pytest.approx(0.75)
    assert waited(100.0).waiting_gpu_seconds == pytest.approx(100.0)
    assert "Before its first run it held GPUs for 0.03 GPU-hours, which are not counted" in text(
        waited(100.0)
    )
    assert "Before its first run" not in text(waited(0.0))


def test_where_nobody_says_whether_a_job_ran_the_waiting_is_unknown() -> None:
    assert made().waiting_gpu_seconds is None
    assert waited(None).observed_ratio == pytest.approx(0.5)
    parts = [waited(None), waited(100.0).model_copy(update={"began": 5.0})]
    assert merged(parts).waiting_gpu_seconds == pytest.approx(100.0)


def test_waiting_goes_on_after_a_restart() -> None:
    kept = resumed(
        JobTotals.model_validate_json(waited(100.0).model_dump_json()), Instant(0.0, 1100.0)
    )
    assert kept.usage[GpuKey("GPU-0", "")].waiting_seconds == 100.0


def test_reports_may_be_of_one_gpu_of_a_job_with_many() -> None:
    """80 GPU-seconds are of 80 s of one GPU, or of 20 s of four: nobody says which, and a minute is enough."""
    reports = ReportedMfu(mfu_seconds=32.0, utilization_seconds=16.0, gpu_seconds=40.0)
    both = merged([made(reported=reports), made("n2", reported=reports)]).reported
    assert both is not None
    assert both.verdict is Verdict.MFU_ABOVE_OFU


def run(began: float, node: str = "n1") -> RunTotals:
    """A run of 50 s."""
    return RunTotals(
        node=node,
        began=began,
        ended=began + 50.0,
        held_seconds=50.0,
        observed_seconds=50.0,
        utilization_seconds=50.0,
    )


def test_runs_of_several_nodes_are_in_the_order_of_time_then_of_nodes() -> None:
    first = made(runs=(run(1000.0), run(1200.0)))
    other = made("n2", runs=(run(1000.0, "n2"), run(1100.0, "n2")))
    assert merged([other, first]).runs == (
        *(run(1000.0), run(1000.0, "n2")),
        *(run(1100.0, "n2"), run(1200.0)),
    )


def test_the_last_run_of_a_file_is_the_one_that_goes_on() -> None:
    left = resumed(made(runs=(run(1000.0), run(1100.0), run(1200.0))), Instant(5.0, 1300.0))
    assert left.run_began == 1200.0
    assert [each.began for each in left.earlier] == [1000.0, 1100.0]


PROGRESS = Progress(
    "llama",
    {"": RunLine(9, 1000.0), "llama": RunLine(150, 1090.0, 100)},
    step=120,
    highest_before=150,
    stopped=1090.0,
    until=1095.0,
    pace=10.0,
    fall=Fall(119, 1096.0, 1096.0, 118, 1095.0),
    done_again_seconds=8.0,
    evaluation_seconds=0.0,
    restarts=2,
    recoveries=(Recovery(1090.0, 110, 150, None, 1092.0),),
    again=((1091.0, 1095.0),),
)


def test_how_far_a_job_has_come_survives_the_file() -> None:
    document = reporting(progress=PROGRESS).model_dump_json()
    reported = JobTotals.model_validate_json(document).reported
    assert reported is not None
    assert reported.progress == PROGRESS


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": -1},
        {"step": 1 << 60},
        {"until": 1e300},
        {"done_again_seconds": -1.0},
        {"restarts": -1},
        {"lines": {str(n): RunLine(1, 1.0) for n in range(1000)}},
        {"lines": {"": RunLine(1 << 60, 1.0)}},
        {"recoveries": (Recovery(-1.0, 1, 1),)},
        {"again": ((1.0, 2.0),) * 1000},
        {"run": "a\nb"},
        {"run": "a" * 1000},
    ],
)
def test_a_progress_that_no_agent_wrote_is_refused(wrong: dict[str, Any]) -> None:
    document = json.loads(reporting(progress=PROGRESS).model_dump_json())
    document["reported"]["progress"] |= json.loads(json.dumps(wrong))
    with pytest.raises(ValidationError, match="progress"):
        JobTotals.model_validate(document)
