"""A job's totals as JSON and as words, of one node and of many."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ofu_exporter.jobs.summary import one_line, text
from ofu_exporter.jobs.totals import GpuTotals, JobTotals, merged, resumed, totals_of
from ofu_exporter.ofu.job_state import views
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import GpuUsage, Job
from ofu_exporter.values.reported import (
    Adjusted,
    Bound,
    Causes,
    Compared,
    LikelyCause,
    ReportsView,
    Verdict,
)
from ofu_exporter.values.snapshot import JobView

VIEW = JobView(
    job=Job("slurm", "12", name="llama", user="ada", array_job_id="10", array_task_id="2"),
    usage=(
        GpuUsage("0", ("GPU-0", ""), 100.0, 90.0, 45.0),
        GpuUsage("1", ("GPU-1", ""), 100.0, 60.0, 6.0),
    ),
    distribution={100: 90.0, 20: 60.0},
    began=1000.0,
    ended=None,
    updated=1100.0,
)


def made(node: str = "n1", **changes: Any) -> JobTotals:
    return totals_of(VIEW, node, simulated=False).model_copy(update=changes)


def test_the_mean_is_a_sum_over_a_sum() -> None:
    assert made().utilization_ratio == pytest.approx(51.0 / 150.0)
    assert made().gpu_seconds == pytest.approx(150.0)
    assert made().observed_ratio == pytest.approx(0.75)


def test_percentiles_are_of_observed_time() -> None:
    assert made().window_percentiles == {"p10": 0.1, "p50": 0.5, "p90": 0.5}


def test_a_job_of_which_nothing_was_observed_has_no_ofu() -> None:
    nothing = made(gpus=(), distribution={})
    assert nothing.utilization_ratio is None
    assert nothing.observed_ratio is None
    assert nothing.window_percentiles == {}
    assert one_line(nothing) == "ofu=none gpus=0 gpu_hours=0.00 observed=none nodes=1"


def test_json_and_back() -> None:
    assert JobTotals.model_validate_json(made().model_dump_json()) == made()


@pytest.mark.parametrize(
    "damage", [{"version": 2}, {"began": "soon"}, {"distribution": {"1": -1}}, {"gpus": [{}]}]
)
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


def test_a_simulated_node_makes_the_whole_simulated() -> None:
    both = merged([made(), made("n2", simulated=True)])
    assert one_line(both).endswith("simulated=yes")
    assert "SIMULATED" in text(both)


def test_the_line_for_a_comment_field() -> None:
    assert one_line(made()) == (
        "ofu=34.0% p10=10.0% p50=50.0% p90=50.0% gpus=2 gpu_hours=0.04 observed=75.0% nodes=1"
    )


def test_the_text_for_people() -> None:
    assert text(made(ended=1100.0)) == (
        "Job 12, name llama, user ada, array 10_2 (ended)\n"
        "OFU 34.0% over 0.04 GPU-hours, 75.0% of the time it had 2 GPUs on n1\n"
        "OFU of its windows: p10 10.0%, p50 50.0%, p90 50.0%\n"
        "  n1 GPU 0 (GPU-0): OFU 50.0%, observed 90 of 100 s\n"
        "  n1 GPU 1 (GPU-1): OFU 10.0%, observed 60 of 100 s"
    )


FIRST = LikelyCause("fp8_peak_for_bf16", 2.0, 0.3, "the peak of fp8 is twice that of bf16")
REPORTS = ReportsView(
    outcomes={"accepted": 5, "overlap": 1},
    at=1095.0,
    peak_flops=989.4e12,
    mfu=0.42,
    horizon=Compared(21.0, 17.0, 50.0),
    settled=Compared(16.0, 13.0, 40.0, 0.1),
    total=Compared(40.0, 34.0, 100.0, 0.5),
    verdict=Verdict.MFU_ABOVE_OFU,
    total_verdict=Verdict.AGREE,
    causes=Causes((FIRST,), 1),
)


def reporting(node: str = "n1", **changes: Any) -> JobTotals:
    view = replace(VIEW, reports=replace(REPORTS, **changes))
    return totals_of(view, node, simulated=False)


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
    other = reporting("n2", total=Compared(90.0, 30.0, 100.0, 0.5), at=1200.0)
    both = merged([reporting(), other, made("n3")]).reported
    assert both is not None
    assert both.mfu_ratio == pytest.approx(130 / 200)
    assert both.utilization_ratio == pytest.approx(64 / 200)
    assert both.verdict is Verdict.MFU_ABOVE_OFU, "of the sums, whatever the nodes said"
    assert both.outcomes == {"accepted": 10, "overlap": 2}
    assert both.last == 1200.0
    assert merged([made(), made("n2")]).reported is None


def test_numbers_that_no_node_could_have_are_merged_all_the_same() -> None:
    """A wrong row in the configuration shows an OFU far above 1; the API must not fail for it."""
    odd = reporting("n2", total=Compared(2000.0, 700.0, 100.0))
    both = merged([odd, odd]).reported
    assert both is not None
    assert both.verdict is Verdict.MFU_ABOVE_OFU


def test_a_summary_says_what_was_reported_and_why_it_may_differ() -> None:
    assert "mfu=40.0% verdict=agree cause=fp8_peak_for_bf16" in one_line(reporting())
    lines = text(reporting()).splitlines()
    assert (
        "Reported MFU 40.0%, OFU of the same seconds 34.0%: agree (5 reports, 1 refused)" in lines
    )
    assert f"Likeliest cause: {FIRST.cause}: {FIRST.evidence}" in lines
    several = text(reporting(causes=Causes((FIRST, FIRST, FIRST), 3)))
    assert "Likeliest cause (the numbers do not tell it from 2 others): fp8" in several
    assert "No known cause fits" in text(reporting(causes=Causes()))


def test_a_summary_of_what_was_not_compared_says_so() -> None:
    early = reporting(total=Compared(), outcomes={"accepted": 1}, causes=None)
    assert "Reported MFU 42.0%, not compared yet (1 report)" in text(early)
    assert "mfu=" not in one_line(early)


def test_ofu_without_tiles_is_added_too_and_one_bound_is_enough() -> None:
    exact = reporting(adjusted=Adjusted(0.02, "exact", 30.0, 100.0), at=1200.0)
    lower = reporting("n2", adjusted=Adjusted(0.01, "lower", 10.0, 50.0))
    both = merged([exact, lower, reporting("n3")]).reported
    assert both is not None
    assert both.adjusted == Adjusted(0.02, "lower", 40.0, 150.0)
    assert both.adjusted_utilization_ratio == pytest.approx(40 / 150)
    assert JobTotals.model_validate_json(lower.model_dump_json()) == lower


@pytest.mark.parametrize(
    ("bound", "line"),
    [
        ("exact", "OFU without what tiles add 30.0%, over 10.00 GPU-hours: they add 2.4%"),
        (None, "OFU without what tiles add 30.0%, over 10.00 GPU-hours: they add 2.4%"),
        (
            "lower",
            "OFU without what tiles add, at most 30.0%, over 10.00 GPU-hours: they add at least 2.4%",
        ),
    ],
)
def test_a_summary_says_ofu_without_tiles_and_whether_it_is_a_bound(
    bound: Bound | None, line: str
) -> None:
    adjusted = Adjusted(0.024, bound, 10800.0, 36000.0)
    assert line in text(reporting(adjusted=adjusted)).splitlines()
    assert line in text(reporting(adjusted=adjusted, total=Compared())).splitlines()
    assert "without what tiles add" not in text(reporting())


def test_what_an_earlier_agent_left_is_not_shown_until_the_job_is_seen() -> None:
    left = resumed(made(), monotonic=5.0)
    assert left.unseen_since == 1100.0
    assert views([left], Instant(6.0, 1200.0)) == ()


def waited(seconds: float | None) -> JobTotals:
    """A job of which one GPU waited for this long."""
    first = replace(VIEW.usage[0], held_seconds=200.0, waiting_seconds=seconds)
    return totals_of(replace(VIEW, usage=(first, VIEW.usage[1])), "n1", simulated=False)


def test_the_time_before_a_job_ran_is_no_part_of_its_observed_share() -> None:
    assert waited(100.0).observed_ratio == pytest.approx(0.75)
    assert waited(100.0).waiting_gpu_seconds == pytest.approx(100.0)
    assert "Before that it had GPUs for 0.03 GPU-hours and ran nothing" in text(waited(100.0))
    assert "Before that" not in text(waited(0.0))


def test_where_nobody_says_whether_a_job_ran_the_waiting_is_unknown() -> None:
    assert made().waiting_gpu_seconds is None
    assert waited(None).observed_ratio == pytest.approx(0.5)
    parts = [waited(None), waited(100.0).model_copy(update={"began": 5.0})]
    assert merged(parts).waiting_gpu_seconds == pytest.approx(100.0)


def test_waiting_goes_on_after_a_restart_and_an_older_file_has_none() -> None:
    kept = resumed(JobTotals.model_validate_json(waited(100.0).model_dump_json()), 0.0)
    assert kept.usage["GPU-0", ""].waiting_seconds == 100.0
    older = waited(100.0).model_dump()
    for gpu in older["gpus"]:
        del gpu["waiting_seconds"]
    assert resumed(JobTotals.model_validate(older), 0.0).usage["GPU-0", ""].waiting_seconds is None
