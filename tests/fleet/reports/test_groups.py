"""Days add up to the whole, and what no job held is a row of its own."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.history.fleet_history import JobSums, ModelSums
from ofu_exporter.fleet.reports.groups import Pairs, agreement, deviation, pearson, sizes
from ofu_exporter.fleet.reports.result import JobRow
from tests.fleet.reports.test_fleet_report import DAY, H100, history, job, of_two_users, report


def test_days_add_up_to_what_is_installed_and_what_it_costs() -> None:
    found = report()
    assert sum(row.gpu_hours for row in found.days) == pytest.approx(400)
    assert sum(row.cost or 0.0 for row in found.days) == pytest.approx(800)
    (free,) = (row for row in found.days if row.kind == "free")
    assert free.gpu_hours == pytest.approx(250)
    assert (free.model, free.wasted_gpu_hours) == (H100, None)
    assert (free.observed_gpu_hours, free.idle_gpu_hours, free.effective_gpu_hours) == (160, 140, 4)
    held = [row for row in found.days if row.kind == "held"]
    for name in ("observed", "idle", "effective", "wasted"):
        of_jobs = getattr(found.total, f"{name}_gpu_hours")
        assert sum(getattr(row, f"{name}_gpu_hours") for row in held) == pytest.approx(of_jobs)


def test_a_job_on_unknown_gpus_leaves_it_unknown_which_ones_were_free() -> None:
    found = report(history(job("1", "alice", JobSums(10.0), models={})))
    assert [(row.kind, row.gpu_hours, row.model) for row in found.days] == [("held", 10.0, None)]
    assert found.days[0].cost is None


def test_days_of_unknown_gpus_stand_before_those_of_known_ones() -> None:
    jobs = [
        job(str(n), "alice", JobSums(10.0), models=models)
        for n, models in enumerate([{"B200": 1.0}, {H100: 1.0}, {}, {"A100": 1.0}])
    ]
    held = [row.model for row in report(history(*jobs, installed=0.0)).days]
    assert held == [None, "A100", "B200", H100]


def test_of_a_job_of_two_models_no_more_is_free_than_it_left() -> None:
    """Its hours of each model on a day are guessed: 70 of each, and there are 50 of one."""
    mixed = job("1", "alice", JobSums(140.0), models={H100: 1.0, "A100": 1.0})
    found = history(mixed, installed=50.0)
    found.models[DAY, "a", "A100"] = ModelSums(100.0, 0.0, 0.0, JobSums())
    (free,) = (row for row in report(found).days if row.kind == "free")
    assert free.model == "A100"
    assert free.gpu_hours == pytest.approx(150 - 140)
    found.models[DAY, "a", "L4"] = ModelSums(0.5, 0.0, 0.0, JobSums())
    free_rows = [row for row in report(found).days if row.kind == "free"]
    assert [row.model for row in free_rows] == ["A100", "L4"]
    assert sum(row.gpu_hours for row in free_rows) == pytest.approx(150.5 - 140)


def test_two_users_jobs_of_one_id_are_a_group_each() -> None:
    rows = report(history(*of_two_users()), "job").groups
    assert [(row.name, row.jobs) for row in rows] == [("a/7", 1), ("a/7 of bob", 1)]


RATIOS = st.floats(0.0, 1.0)
PAIRS = st.lists(st.tuples(RATIOS, RATIOS), min_size=3, max_size=40)


@given(PAIRS)
def test_the_correlation_is_the_mean_product_of_standard_scores(pairs: Pairs) -> None:
    mfus, ofus = zip(*pairs, strict=True)
    spreads = statistics.pstdev(mfus), statistics.pstdev(ofus)
    if min(spreads) > 1e-6:  # below, nothing but rounding varies
        scores = [
            (mfu - statistics.fmean(mfus))
            / spreads[0]
            * (ofu - statistics.fmean(ofus))
            / spreads[1]
            for mfu, ofu in pairs
        ]
        assert pearson(pairs) == pytest.approx(statistics.fmean(scores), abs=1e-6)


@given(PAIRS)
def test_shares_and_errors_are_counted(pairs: Pairs) -> None:
    found = agreement(pairs)
    errors = [abs(mfu - ofu) for mfu, ofu in pairs]
    assert found.jobs == len(pairs)
    assert found.mean_absolute_error == pytest.approx(statistics.fmean(errors))
    assert found.within_10_points == sum(error <= 0.1 for error in errors) / len(errors)
    assert found.beyond_20_points == sum(error > 0.2 for error in errors) / len(errors)
    assert found.mean_mfu == pytest.approx(statistics.fmean(mfu for mfu, _ in pairs))
    assert found.mean_ofu == pytest.approx(statistics.fmean(ofu for _, ofu in pairs))


@pytest.mark.parametrize("error", [0.019, 0.021, 0.049, 0.051, 0.099, 0.101, 0.199, 0.201])
def test_an_error_is_within_what_it_is_below(error: float) -> None:
    found = agreement([(0.0, error)])
    assert found.within_2_points == (error < 0.02)
    assert found.within_5_points == (error < 0.05)
    assert found.within_10_points == (error < 0.1)
    assert found.beyond_20_points == (error > 0.2)


def test_nothing_is_known_of_no_jobs() -> None:
    found = agreement([])
    assert found.jobs == 0
    assert {*found.model_dump(exclude={"jobs"}).values()} == {None}


def test_two_jobs_have_no_correlation_and_one_no_deviation() -> None:
    assert agreement([(0.1, 0.2), (0.3, 0.1)]).pearson is None
    assert pearson([(0.3, 0.1), (0.3, 0.2), (0.3, 0.4)]) is None
    assert deviation([0.5]) is None
    assert deviation([0.5, 0.7]) == pytest.approx(statistics.stdev([0.5, 0.7]))


@pytest.mark.parametrize(
    ("count", "named"),
    [(24, [str(gpus) for gpus in range(1, 25)]), (25, ["1", "2-3", "4-7", "8-15", "16-31"])],
)
def test_more_sizes_of_jobs_than_a_table_takes_are_ranges(count: int, named: list[str]) -> None:
    rows = [
        JobRow.model_construct(error=0.1, mfu=0.5, ofu_compared=0.4, gpus=float(gpus))
        for gpus in range(1, count + 1)
    ]
    unknown = JobRow.model_construct(error=None, mfu=0.5, ofu_compared=None, gpus=1.0)
    rows += [unknown, unknown.model_copy(update={"error": 0.1, "gpus": None})]
    assert [row.gpus for row in sizes(rows)] == named
    assert sum(row.jobs for row in sizes(rows)) == count
