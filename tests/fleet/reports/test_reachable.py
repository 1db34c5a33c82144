"""What a job can have back is measured against others of its kind, and never netted."""

from __future__ import annotations

import json

import pytest

from ofu_exporter.fleet.history.fleet_history import JobHistory, JobSums
from ofu_exporter.fleet.history.served_sums import ServedSums
from ofu_exporter.fleet.reports.reachable import unused
from tests.fleet.actions.test_actions import GOOD, acted
from tests.fleet.reports.test_fleet_report import history, job, report


def test_what_can_be_had_back_is_never_netted() -> None:
    """One job above the target takes nothing from the one that idles."""
    best = job("best", "ada", JobSums(1000, 1000, 700))
    found = report(history(best, job("nb", "ada", JobSums(100, 100, 0.0, idle=100))))
    assert found.total.recoverable_gpu_hours == pytest.approx(100)
    assert found.total.recoverable_cost == pytest.approx(200)
    assert (found.total.wasted_gpu_hours or 0.0) < 0
    (row,) = found.groups[:1]
    assert json.loads(row.model_dump_json())["recoverable_gpu_hours"] == pytest.approx(100)


def test_busy_jobs_are_measured_against_the_upper_quartile_of_five_and_else_the_target() -> None:
    five = [job(str(n), "u", JobSums(100, 100, 15.0 * n)) for n in (1, 2, 3, 4, 5)]
    rows = {row.job_id: row.recoverable_gpu_hours for row in report(history(*five)).jobs}
    assert rows == pytest.approx({"1": 75, "2": 50, "3": 25, "4": 0, "5": 0})
    high = [job(str(n), "u", JobSums(100, 100, 10.0 * n)) for n in (5, 6, 7, 8)]
    assert report(history(*high)).total.recoverable_gpu_hours == 0  # the target is 0.4


def test_without_a_measure_it_is_not_known() -> None:
    made = history(job("1", "u", JobSums(100, 100, 10.0)), job("2", "v", JobSums(50)))
    made.target = None
    assert report(made).total.recoverable_gpu_hours is None


@pytest.mark.parametrize(("rested", "kinds"), [(90.0, ["held_idle"]), (10.0, [])])
def test_a_job_of_kernels_without_tensor_work_does_not_rest(
    rested: float, kinds: list[str]
) -> None:
    """FP64, or memory: its tensor pipes are idle for 95 of 100 hours, and its counters say that kernels ran."""
    lost = {"idle": rested, "no_tensor": 99.0 - rested}
    sums = JobSums(100, 100, 1.0, idle=95.0, lost=lost)
    found = acted(job("cfd", "ada", sums))
    assert [row.kind for row in found.actions if row.kind == "held_idle"] == kinds
    (row,) = found.jobs
    assert row.recoverable_gpu_hours is not None
    assert row.recoverable_gpu_hours >= rested
    assert row.recoverable_gpu_hours <= rested + 5.0
    between_products = row.model_copy(update={"idle_gpu_hours": 5.0})
    assert unused(between_products) == 5.0, "no kernel ran in hours with tensor work, too"


def serving(job_id: str, user: str, ofu: float, memory: float) -> JobHistory:
    """A job that serves on 8 GPUs for 100 hours: prices, tokens and energy do not matter here."""
    served = ServedSums(held=800, memory=800, memory_busy=800 * memory)
    served.add_hour({("m", "generation"): 1e9}, 0.0, 8e8)
    return job(job_id, user, JobSums(800, 800, 800 * ofu), served=served)


def test_a_serving_job_that_memory_bounds_is_no_waste() -> None:
    """One that lets its memory rest is, as far as more requests at once would help."""
    bound, slack = serving("bound", "ann", 0.03, 0.85), serving("slack", "ben", 0.03, 0.3)
    found = acted(*GOOD, bound, slack)
    assert [(row.kind, row.who) for row in found.actions] == [("below_others", "train-ben of ben")]
    rows = {row.job_id: row for row in found.jobs}
    assert rows["bound"].recoverable_gpu_hours == 0
    assert rows["slack"].recoverable_gpu_hours == pytest.approx(800 * (1 - 0.3))
    assert [
        row.who for row in acted(*GOOD, job("train", "ann", JobSums(800, 800, 24))).actions
    ] == ["train-ann of ann"]


def test_a_serving_job_whose_tensor_pipes_are_busier_than_its_memory_is_held_against_others() -> (
    None
):
    found = acted(*GOOD, serving("prefill", "ann", 0.2, 0.1))
    (row,) = (row for row in found.jobs if row.job_id == "prefill")
    assert row.recoverable_gpu_hours == pytest.approx(800 * (1 - 0.2 / 0.4))


def test_a_serving_job_that_did_nothing_at_all_can_give_all_of_it_back() -> None:
    """An engine without a request: neither its tensor pipes nor its memory moved."""
    (row,) = acted(serving("loaded", "ann", 0.0, 0.0)).jobs
    assert row.recoverable_gpu_hours == pytest.approx(800)


def test_a_memory_that_was_measured_for_less_than_half_of_the_time_bounds_nothing() -> None:
    served = ServedSums(held=800, memory=300, memory_busy=290)
    served.add_hour({("m", "generation"): 1e9}, 0.0, 8e8)
    found = acted(*GOOD, job("9", "ann", JobSums(800, 800, 24), served=served))
    assert [row.who for row in found.actions] == ["train-ann of ann"]


def test_jobs_that_memory_bounds_do_not_lower_what_others_can_reach() -> None:
    decoding = [serving(f"d{n}", "ann", 0.03, 0.9) for n in range(30)]
    slow = job("slow", "bob", JobSums(800, 800, 160))
    (row,) = (row for row in acted(*GOOD, slow, *decoding).jobs if row.job_id == "slow")
    assert row.recoverable_gpu_hours == pytest.approx(800 * (1 - 0.2 / 0.4))
