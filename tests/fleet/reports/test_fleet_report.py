"""A report adds up, keeps unknown apart from 0, and says what it doesn't know."""

from __future__ import annotations

import csv
import io

import pytest

from ofu_exporter.fleet.chunks import ChunkReader, MissingChunk
from ofu_exporter.fleet.history.fleet_history import (
    AbsentNode,
    ClusterJob,
    FleetHistory,
    JobHistory,
    JobSums,
    ModelSums,
)
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.history_server import QueryCost
from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan
from ofu_exporter.fleet.pages import rows
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.reports.fleet_report import ReportOptions, cluster_row, fleet_report
from ofu_exporter.fleet.reports.result import By, FleetReport
from tests.helpers.every import every

CLOCK = ServerClock(0.0)
SPAN = TimeSpan(480_000 * HOUR, 480_048 * HOUR)
FIRST = CLOCK.hour_of(SPAN.start) + 1
DAY = CLOCK.day_of(FIRST)
H100 = "NVIDIA H100 80GB HBM3"


def job(job_id: str, user: str, sums: JobSums, **known: object) -> JobHistory:
    names: dict[tuple[str, ...], int] = {(f"train-{user}", user, "lab", "gpu", "", "slurm", ""): 3}
    made = JobHistory(ClusterJob("a", job_id), names, {DAY: sums}, {8.0: 2.0, 7.99: 1.0})
    made.models = {H100: 1.0}
    for hour in (FIRST, FIRST + 9):
        made.note_hour(hour)
    for name, value in known.items():
        setattr(made, name, value)
    return made


def of_two_users() -> list[JobHistory]:
    """Jobs of one id: ada's, and bob's after it."""
    first, second = (job("7", user, JobSums(100, 100, 30)) for user in ("ada", "bob"))
    second.key = second.key._replace(user="bob")
    return [first, second]


HONEST = job("1", "alice", JobSums(80, 80, 32, 60, 25.2, 24.0), verdicts={"agree": 5.0})
WRONG = job(
    "2",
    "bob|x",
    JobSums(40, 40, 8, 40, 20, 8),
    verdicts={"mfu_above_ofu": 3.0, "agree": 1.0, "insufficient_data": 9.0},
    causes={"sparse_peak": 2.0},
)
UNMEASURED = job("3", "=carol", JobSums(20))
IDLE = job("4", "dave\x1b[31m", JobSums(10, 10, 0.0, idle=10))


def history(*jobs: JobHistory, installed: float = 400.0) -> FleetHistory:
    found = FleetHistory(CLOCK, SPAN, {each.key: each for each in jobs})
    found.target = 0.4
    if installed:
        seen = JobSums(observed=160.0, utilized=4.0, idle=140.0)
        found.models[DAY, "a", H100] = ModelSums(installed, 300.0, 45.0, seen)
    hours = CLOCK.hours(SPAN)
    found.recorded = {("a", hour) for hour in hours}
    found.covered = dict.fromkeys(found.recorded, 1.0)
    return found


ALL = history(HONEST, WRONG, UNMEASURED, IDLE)
PRICED = Prices(gpu_hour={"*H100*": 2.0})


def report(
    found: FleetHistory = ALL,
    by: By = "user",
    prices: Prices = PRICED,
    missing: tuple[MissingChunk, ...] = (),
) -> FleetReport:
    reader = ChunkReader(PrometheusClient("http://prometheus:9090"))
    reader.client.cost = QueryCost(7, 1.5)
    reader.missing = [*missing]
    return fleet_report(found, ReportOptions(by, prices), reader)


def test_the_funnel_adds_up_in_gpu_hours_and_money() -> None:
    steps = {step.name: step for step in report().funnel}
    hours = {name: step.gpu_hours for name, step in steps.items()}
    assert hours == {
        "installed": 400,
        "free": 140,
        "unclaimed": 20,
        "unknown": 90,
        "held": 150,
        "unmeasured": 20,
        "idle": 10,
        "active": 140,
        "effective": 45,
    }
    assert {name: step.cost for name, step in steps.items()} == {
        name: 2 * (value or 0.0) for name, value in hours.items()
    }
    assert steps["effective"].share == pytest.approx(45 / 400)


def test_what_no_job_held_is_a_row_of_its_own() -> None:
    """Of 400 hours jobs held 150, of 160 that GPUs were looked at they had 130 and 40 of 45 at the full peak."""
    found = report()
    assert found.reporting_ratio == pytest.approx((80 + 40) / 130)
    assert found.ofu == pytest.approx(45 / 300)
    row = found.no_job
    assert row is not None
    hours = (row.held_gpu_hours, row.observed_gpu_hours, row.idle_gpu_hours)
    assert hours == (400 - 150, 300 - 130, 140)
    assert row.effective_gpu_hours == 5
    assert row.ofu == pytest.approx(5 / 170)
    assert row.wasted_gpu_hours == pytest.approx(0.4 * 170 - 5)
    assert (row.cost, row.idle_cost) == (2 * 250, 2 * 140)
    assert row.wasted_cost == pytest.approx(2 * (0.4 * 170 - 5))


@every([(None, 0.4), (0.2, 0.2), (0.0, 0.0)])
def test_a_target_that_is_given_takes_the_place_of_the_rules(
    given: float | None, target: float
) -> None:
    assert ReportOptions("user", PRICED, given).target_of(ALL) == target


@every([(104.0, False), (106.0, True)])
def test_jobs_that_held_more_than_there_was_are_told(held: float, is_told: bool) -> None:
    """Installed hours are known by looks: a twentieth more may be the rounding of these."""
    found = report(history(job("1", "ada", JobSums(held, held, 40)), installed=100.0))
    words = "Jobs of cluster a held 106.0% of the GPU-hours of its GPUs"
    assert [each.startswith(words) for each in found.contradictions] == [True] * is_told


@every([([8.0, 9.0], 9.0), ([8.0, 9.0, 16.0], 9.0), ([], None)])
def test_a_cluster_has_the_most_gpus_that_were_there_in_two_hours(
    hours: list[float], gpus: float | None
) -> None:
    """A node that is renamed counts twice in one."""
    found = history()
    found.gpus = {("a", FIRST + at): there for at, there in enumerate(hours)}
    found.gpus |= {("a", FIRST + 9): 70.0, ("b", FIRST): 80.0}
    found.covered["a", FIRST + 9] = 0.0
    assert cluster_row(found, "a").gpus == gpus


def test_of_clusters_the_time_is_covered_as_it_is_of_their_gpus() -> None:
    """All of 8 GPUs, and half of 24."""
    found = history()
    found.models[DAY, "b", H100] = ModelSums(1200.0)
    found.gpus = {("a", FIRST): 8.0, ("b", FIRST): 12.0}
    found.covered |= {("b", hour): 0.5 for _, hour in found.recorded}
    assert report(found).time.covered_ratio == pytest.approx((8 + 24 * 0.5) / 32)


def test_of_an_hour_that_nobody_measured_it_is_not_known_how_many_gpus_were_held() -> None:
    assert {row.held_gpus for row in report(history()).hours} == {0.0}
    unmeasured = history()
    unmeasured.recorded = set()
    assert {row.held_gpus for row in report(unmeasured).hours} == {None}


def test_every_step_of_a_job_costs_what_its_own_gpus_cost() -> None:
    """The cheap card holds 80 hours and is idle; all the work is done on the dear one."""
    cheap = job("5", "ada", JobSums(80, 80, 0.0, idle=80), models={"NVIDIA L4": 1.0})
    dear = job("6", "eve", JobSums(20, 16, 10.0), models={H100: 1.0})
    prices = Prices(gpu_hour={"*H100*": 3.0, "*L4*": 0.5})
    found = report(history(cheap, dear, installed=0.0), prices=prices)
    costs = {step.name: step.cost for step in found.funnel}
    assert costs["held"] == 80 * 0.5 + 20 * 3
    assert (costs["idle"], costs["unmeasured"]) == (80 * 0.5, 4 * 3)
    assert (costs["active"], costs["effective"]) == (16 * 3, 10 * 3)
    assert {step.name: step.cost for step in found.waterfall}["delivered"] == 10 * 3


def test_what_gpus_did_beyond_their_jobs_counts_also_where_nobody_looked_whether_they_were_idle() -> (
    None
):
    made = history(installed=0.0)
    made.models[DAY, "a", H100] = ModelSums(100.0, 100.0, 30.0)
    found = report(made)
    steps = {step.name: step.gpu_hours for step in found.funnel}
    assert (steps["effective"], steps["active"], steps["free"]) == (30.0, 30.0, 0.0)
    assert steps["unknown"] == 70.0
    assert any("is not known for 100 measured GPU-hours" in note for note in found.notes)


def test_jobs_are_added_up_by_framework_and_those_that_name_none_are_not_known() -> None:
    made = history(HONEST, WRONG, job("9", "eve", JobSums(5, 5, 1), frameworks={"nemo": 1.0}))
    WRONG.frameworks = {"megatron": 1.0, "nemo": 3.0}
    try:
        found = {row.name: row.held_gpu_hours for row in report(made, by="framework").groups}
    finally:
        WRONG.frameworks = {}
    assert found == {"(not known)": 80, "nemo": 45}


def test_a_name_that_reads_as_none_is_not_added_to_those_without_one() -> None:
    without = job("1", "x", JobSums(5, 5, 1))
    without.names = {}
    made = report(history(without, job("2", "(not known)", JobSums(7, 7, 1))))
    rows = {(row.name, row.is_named): row.held_gpu_hours for row in made.groups}
    assert rows == {("(not known)", True): 7, ("(not known)", False): 5}
    assert [row.shown_name for row in made.groups] == ['"(not known)"', "(not known)"]
    assert not made.total.is_named


def test_where_nobody_knows_what_is_installed_shares_are_of_what_is_held() -> None:
    found = report(history(HONEST, installed=0.0))
    steps = {step.name: step for step in found.funnel}
    assert (steps["installed"].gpu_hours, steps["free"].gpu_hours) == (None, None)
    assert steps["held"].share == 1.0
    assert "The known GPUs delivered" in found.headline


@every(["user", "account", "partition", "model", "namespace", "cluster"])
def test_groups_add_up_to_all_jobs(by: By) -> None:
    found = report(by=by)
    assert sum(row.jobs for row in found.groups) == 4
    assert sum(row.held_gpu_hours for row in found.groups) == pytest.approx(150)
    assert sum(row.flagged_jobs for row in found.groups) == 1


def test_a_report_survives_json() -> None:
    found = report()
    assert FleetReport.model_validate_json(found.model_dump_json()) == found


def test_hours_of_nodes_that_were_away_are_not_covered_in_their_own_cluster() -> None:
    """Those of a node that did not come back are not among the 400 that are known to be there.

    Of each hour a quarter is not covered at all.
    """
    found = history()
    found.absent = [
        AbsentNode(cluster, "n1", {FIRST: 0.5, FIRST + 1: 1.0}, gpus, is_back)
        for cluster, gpus, is_back in [("a", 8.0, False), ("a", 4.0, True), ("b", 16.0, True)]
    ]
    found.covered = dict.fromkeys(found.recorded, 0.75) | {("b", FIRST): 1.0}
    found.raw = {("b", FIRST)}
    row = cluster_row(found, "a")
    assert row.covered_ratio == pytest.approx(0.75 - (8 + 4) * (0.25 + 0.75) / (400 + 12))
    assert (row.recorded_hours, row.raw_hours) == (48, 0)
    found.covered = {}
    other = cluster_row(found, "b")
    assert (other.recorded_hours, other.raw_hours) == (0, 1)
    assert other.covered_ratio == pytest.approx(1 / 48), "it is not known how many GPUs there are"


@every(["user", "job"])
def test_csv_has_what_a_row_is_of_first_then_the_time_and_the_currency(by: By) -> None:
    heads, *lines = csv.reader(io.StringIO(rows.as_csv(report(by=by))))
    about = heads.index("period_start")
    assert heads[0] == ("name" if by == "user" else "job_id")
    assert heads[about : about + 3] == ["period_start", "period_end", "currency"]
    assert {tuple(line[about : about + 3]) for line in lines} == {
        ("2024-10-04T00:00:00Z", "2024-10-06T00:00:00Z", "USD")
    }
