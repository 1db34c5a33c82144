"""A report adds up, keeps unknown apart from 0, and says what it doesn't know."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.history_server import QueryCost
from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan
from ofu_exporter.fleet.parts import MissingPart, PartReader
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.reports import report_text, rows
from ofu_exporter.fleet.reports.fleet_history import (
    AbsentNode,
    ClusterJob,
    FleetHistory,
    JobHistory,
    JobSums,
    ModelSums,
)
from ofu_exporter.fleet.reports.fleet_report import ReportOptions, cluster_row, fleet_report
from ofu_exporter.fleet.reports.funnel import PricedHours
from ofu_exporter.fleet.reports.prices import Prices
from ofu_exporter.fleet.reports.report_page import page
from ofu_exporter.fleet.reports.result import By, FleetReport
from tests.helpers.every import every

CLOCK = ServerClock(0.0)
SPAN = TimeSpan(480_000 * HOUR, 480_048 * HOUR)
FIRST = CLOCK.hour_of(SPAN.start) + 1
DAY = CLOCK.day_of(FIRST)
H100 = "NVIDIA H100 80GB HBM3"


def job(job_id: str, user: str, sums: JobSums, **known: object) -> JobHistory:
    names: dict[tuple[str, ...], int] = {(f"train-{user}", user, "lab", "gpu", "", "slurm", ""): 3}
    made = JobHistory(ClusterJob("a", job_id), names, {DAY: sums}, [8.0, 8.0, 7.99])
    made.models = {H100: 1.0}
    for hour in (FIRST, FIRST + 9):
        made.note_hour(hour)
    for name, value in known.items():
        setattr(made, name, value)
    return made


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
    missing: tuple[MissingPart, ...] = (),
) -> FleetReport:
    reader = PartReader(PrometheusClient("http://prometheus:9090"))
    reader.client.cost = QueryCost(7, 1.5)
    reader.missing = [*missing]
    return fleet_report(found, ReportOptions(by, prices), reader)


@every([({}, "agrees"), ({"verdicts": {}}, "trace: host_bound 30.0%")])
def test_a_trace_stands_beside_the_verdict(known: dict[str, object], begin: str) -> None:
    """Of two findings the one that cost more."""
    given = {"verdicts": {"agree": 5.0}, "findings": {"padding": 0.1, "host_bound": 0.3}, **known}
    found = report(history(job("1", "alice", JobSums(80, 80, 32), **given)))
    (row,) = found.jobs
    assert (row.finding, row.finding_ratio) == ("host_bound", 0.3)
    for words in in_words(found):  # Markdown escapes the line below
        (line,) = (each for each in words.replace("\\", "").splitlines() if "trace: " in each)
        assert begin in line
        assert "trace: host_bound 30.0%" in line


def in_words(found: FleetReport, most_rows: int = 20) -> tuple[str, str]:
    """The report as text and in Markdown."""
    document = report_text.document(found, most_rows=most_rows)
    return document.plain(), document.markdown()


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


@pytest.mark.parametrize(("busy", "is_told"), [(0.03, True), (0.01, True), (0.009, False)])
def test_gpus_at_work_without_a_known_job_are_in_the_headline_from_one_percent_on(
    busy: float, is_told: bool
) -> None:
    made = history(installed=0.0)
    looks = JobSums(observed=192.0, utilized=1.0, idle=192.0 * (1 - busy))
    made.models[DAY, "a", H100] = ModelSums(192.0, 192.0, 1.0, looks)
    made.jobless_hours[FIRST] = JobSums(observed=8.0, utilized=0.05, idle=8.0 * (1 - busy))
    assert ("busy without a known job" in report(made).headline) == is_told


def test_gpus_at_work_without_a_known_job_are_told_everywhere_and_in_the_first_sentence() -> None:
    """Eight GPUs for a day, half of them busy at an OFU of 0.5, and no scheduler that tells of a job."""
    made = history(installed=0.0)
    looks = JobSums(observed=192.0, utilized=48.0, idle=96.0)
    made.models[DAY, "a", H100] = ModelSums(192.0, 192.0, 48.0, looks)
    made.jobless_hours[FIRST] = JobSums(observed=8.0, utilized=2.0, idle=4.0)
    found = report(made)
    assert found.headline == (
        "The fleet delivered 25.0% of its peak. The GPU-hours cost 384 USD. The largest part of the rest is idle GPUs "
        "without a job (50.0%). In 50.0% of the GPU-hours GPUs were busy without a known job."
    )
    steps = {step.name: (step.gpu_hours, step.cost) for step in found.funnel}
    nothing = dict.fromkeys(("unknown", "held", "unmeasured", "idle"), (0.0, 0.0))
    half = dict.fromkeys(("free", "unclaimed", "active"), (96.0, 192.0))
    assert steps == {"installed": (192.0, 384.0), "effective": (48.0, 96.0), **half, **nothing}
    assert (found.ofu, found.total.ofu) == (0.25, None)
    assert found.no_job is not None
    assert (found.no_job.name, found.no_job.ofu, found.no_job.cost) == ("(no job)", 0.25, 384.0)
    assert found.no_job.wasted_gpu_hours == pytest.approx(192 * 0.4 - 48)
    assert [row.no_job_ofu for row in found.hours[:2]] == [0.25, None]
    for shown in (*in_words(found), page(found)):
        assert "(no job)" in shown
        assert "no tensor pipe was used" in shown
        assert "OFU of all GPUs, with and without a job, 25.0%" in shown
    assert "OFU 25.0%</title>" in page(found)
    assert "OFU without a job" in page(found)
    (written,) = csv.DictReader(io.StringIO(rows.as_csv(found)))
    assert (written["name"], written["effective_gpu_hours"]) == ("(no job)", "48.0")


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


def test_ratios_are_sums_over_sums_and_gpu_hours_without_ofu_are_no_zero() -> None:
    total = report().total
    assert total.ofu == pytest.approx(40 / 130)
    assert total.mfu == pytest.approx(45.2 / 100)
    assert total.wasted_gpu_hours == pytest.approx(130 * 0.4 - 40)
    unmeasured = next(row for row in report().jobs if row.job_id == "3")
    assert (unmeasured.ofu, unmeasured.mfu, unmeasured.error, unmeasured.verdict) == (None,) * 4
    assert report().reporting_ratio == pytest.approx(120 / 130)


def test_errors_verdicts_and_causes_are_those_of_the_job() -> None:
    wrong = next(row for row in report().jobs if row.job_id == "2")
    assert wrong.error == pytest.approx(0.3)
    assert wrong.relative_error == pytest.approx(1.5)
    assert (wrong.verdict, wrong.cause, wrong.gpus) == ("mfu_above_ofu", "sparse_peak", 8.0)
    assert (wrong.begin, wrong.end) == ("2024-10-04T00:00:00Z", "2024-10-04T10:00:00Z")
    assert report().agreement.jobs == 2
    assert report().agreement_without_flagged.jobs == 1
    assert report().agreement_without_flagged.mean_absolute_error == pytest.approx(0.02)


def test_without_a_price_there_is_no_cost_and_that_is_said_where_some_have_one() -> None:
    assert report(prices=Prices()).total.cost is None
    WRONG.models = {"NVIDIA L4": 1.0}
    try:
        found = report()
    finally:
        WRONG.models = {H100: 1.0}
    assert found.total.cost == pytest.approx(2 * 110)
    assert found.total.priced_ratio == pytest.approx(110 / 150)
    assert "The price of 26.7% of the held GPU-hours is not known." in found.notes
    costs: dict[str, float | None] = {step.name: step.cost for step in found.funnel}
    assert costs["idle"] == 2 * 10, "all of it was on GPUs with a price"
    of_jobs = ("held", "unmeasured", "active", "effective", "unknown")
    assert {costs[name] for name in of_jobs} == {None}


def test_where_nobody_knows_what_is_installed_shares_are_of_what_is_held() -> None:
    found = report(history(HONEST, installed=0.0))
    steps = {step.name: step for step in found.funnel}
    assert (steps["installed"].gpu_hours, steps["free"].gpu_hours) == (None, None)
    assert steps["held"].share == 1.0
    assert "The known GPUs delivered" in found.headline


def test_no_job_is_no_job_and_not_an_ofu_of_0() -> None:
    found = report(history(installed=0.0))
    assert found.total.ofu is None
    assert found.headline == "No job held a GPU in this time, as far as is known."
    assert in_words(found)[0]


def test_what_is_simulated_is_said_before_anything_else() -> None:
    made = history(HONEST)
    assert "SIMULATED" not in report(made).headline
    made.is_simulated = True
    for shown in in_words(report(made)):
        first = shown.partition("peak")[0]
        assert "SIMULATED, no GPU was measured." in first


def test_time_without_data_and_parts_that_are_missing_are_said_in_every_form() -> None:
    half = history(HONEST)
    half.covered = {place: share for place, share in half.covered.items() if place[1] % 2}
    gone = MissingPart("jobs", TimeSpan(SPAN.start, SPAN.start + 5 * HOUR), "no answer")
    found = report(half, missing=(gone,))
    assert found.time.covered_ratio == pytest.approx(0.5)
    for shown in in_words(found):
        assert "50.0% of it covered by data" in shown
        assert "Not read: jobs, 2024-10-04T00:00:00Z to 2024-10-04T05:00:00Z: no answer" in shown
    assert '"covered_ratio": 0.5' in found.model_dump_json(indent=1)


@every(["user", "account", "partition", "model", "namespace", "cluster"])
def test_groups_add_up_to_all_jobs(by: By) -> None:
    found = report(by=by)
    assert sum(row.jobs for row in found.groups) == 4
    assert sum(row.held_gpu_hours for row in found.groups) == pytest.approx(150)
    assert sum(row.flagged_jobs for row in found.groups) == 1


def test_names_of_others_break_neither_terminal_nor_table_nor_spreadsheet() -> None:
    assert "\x1b" not in in_words(report())[0]
    assert "bob\\|x" in in_words(report())[1]
    written = rows.as_csv(report())
    read = [*csv.DictReader(io.StringIO(written))]
    assert {row["name"] for row in read} == {
        *("alice", "bob|x", "'=carol", "dave\\x1b[31m", "(no job)")
    }
    assert {row["mfu"] for row in read if row["name"] == "'=carol"} == {""}


def test_text_names_the_cause_of_a_job_below_its_ofu_in_words() -> None:
    sums = JobSums(0.14, 0.14, 0.04, 0.14, 0.02, 0.04)
    found = report(
        history(
            job("9", "u" * 200, sums, verdicts={"mfu_below_ofu": 1.0}, causes={"sparse_peak": 1.0})
        )
    )
    shown = in_words(found)[0]
    assert "MFU below OFU: sparse_peak" in shown
    assert "mfu_below_ofu" not in shown
    assert "u" * 70 not in shown
    assert "1 job on" in shown
    assert " -0 " not in shown


def test_a_report_survives_json() -> None:
    found = report()
    assert FleetReport.model_validate_json(found.model_dump_json()) == found


SUMS = st.builds(
    lambda held, measured, ofu, idle: JobSums(
        held, held * measured, held * measured * ofu, idle=held * measured * idle * (ofu == 0)
    ),
    st.floats(0.1, 1e5),
    st.floats(0.0, 1.0),
    st.sampled_from([0.0, 0.1, 0.4, 0.9]),
    st.floats(0.0, 1.0),
)


@given(st.lists(SUMS, max_size=8))
def test_held_is_unmeasured_idle_and_active_for_any_jobs(sums: list[JobSums]) -> None:
    jobs = [job(str(number), f"user{number % 3}", each) for number, each in enumerate(sums)]
    found = report(history(*jobs, installed=1e6))
    hours = {step.name: step.gpu_hours or 0.0 for step in found.funnel}
    active = hours["active"] - hours["unclaimed"]
    assert hours["held"] == pytest.approx(hours["unmeasured"] + hours["idle"] + active)
    outside = hours["free"] + hours["unclaimed"] + hours["unknown"]
    assert hours["installed"] == pytest.approx(outside + hours["held"])
    assert hours["effective"] <= hours["active"] + 1e-9


def test_what_is_left_of_all_is_nothing_and_no_rounding() -> None:
    both = report(history(job("1", "u", JobSums(0.1, 0.1)), job("2", "u", JobSums(0.2, 0.2))))
    hours = {step.name: step.gpu_hours for step in both.funnel}
    assert 0.1 + 0.2 != 0.3
    assert hours["unmeasured"] == 0.0
    assert PricedHours(0.1 + 0.2, None).less(PricedHours(0.3, None)).gpu_hours == 0.0


def test_a_table_that_leaves_rows_out_says_how_many_and_what_they_held() -> None:
    jobs = [job(f"{number}", f"user{number}", JobSums(held=number)) for number in range(1, 7)]
    for shown in in_words(report(history(*jobs)), 4):
        assert shown.count("2 more held 3.0 GPU-hours; --format csv or json has all.") == 2
    assert "more held" not in in_words(report(history(*jobs)), 6)[0]
    assert "more held" not in page(report(history(*jobs)))


def test_hours_of_nodes_that_were_away_are_not_covered_in_their_own_cluster() -> None:
    """Those of a node that did not come back are not among the 400 that are known to be there."""
    found = history()
    found.absent = [
        AbsentNode(cluster, "n1", {FIRST: 0.5, FIRST + 1: 1.0}, gpus, is_back)
        for cluster, gpus, is_back in [("a", 8.0, False), ("a", 4.0, True), ("b", 16.0, True)]
    ]
    assert cluster_row(found, "a").covered_ratio == pytest.approx(1 - (12 + 6) / (400 + 12))


def test_jobs_that_held_more_than_there_is_are_named() -> None:
    found = report(history(HONEST, WRONG, installed=70.0))
    assert not found.is_sound
    (said,) = found.contradictions
    assert said.startswith("Jobs of cluster a held 171.4% of the GPU-hours of its GPUs")
    assert found.notes[0] == said
    assert report().contradictions == []
    assert report(history(HONEST, installed=0.0)).contradictions == []


@every(["user", "job"])
def test_csv_has_what_a_row_is_of_first_then_the_time_and_the_currency(by: By) -> None:
    heads, *lines = csv.reader(io.StringIO(rows.as_csv(report(by=by))))
    about = heads.index("period_start")
    assert heads[0] == ("name" if by == "user" else "job_id")
    assert heads[about : about + 3] == ["period_start", "period_end", "currency"]
    assert {tuple(line[about : about + 3]) for line in lines} == {
        ("2024-10-04T00:00:00Z", "2024-10-06T00:00:00Z", "USD")
    }
