"""Each sentence stands where what it says is so, and only there."""

from __future__ import annotations

import csv
import io

import pytest

from ofu_exporter.fleet.chunks import MissingChunk
from ofu_exporter.fleet.history.fleet_history import (
    AbsentNode,
    FleetHistory,
    JobSums,
    ModelSums,
)
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.history_server import QueryCost
from ofu_exporter.fleet.hours import HOUR, TimeSpan
from ofu_exporter.fleet.pages import rows
from ofu_exporter.fleet.pages.report_page import page
from ofu_exporter.fleet.reports.notes import _of_nodes, _of_rules
from tests.fleet.pages.test_report_text import in_words
from tests.fleet.reports.test_fleet_report import (
    DAY,
    FIRST,
    H100,
    HONEST,
    PRICED,
    SPAN,
    WRONG,
    history,
    job,
    report,
)
from tests.helpers.every import every

NOT_ALL = "OFU was not measured in"
NO_RECORD = "The recording rules have no record of"


def told(found: FleetHistory, begin: str, prices: Prices = PRICED) -> list[str]:
    return [note for note in report(found, prices=prices).notes if note.startswith(begin)]


@every([(1.0, 0), (0.9995, 0), (0.998, 1)])
def test_a_cluster_without_a_thousandth_of_its_hours_is_told(covered: float, times: int) -> None:
    found = history()
    found.covered = dict.fromkeys(found.covered, covered)
    assert len(told(found, "Data covers")) == times


@every([(0.24, 1), (0.26, 0), (0.0, 0)])
def test_less_than_a_quarter_of_an_hour_is_rough(hours: float, times: int) -> None:
    found = history()
    found.recorded, found.covered = set(), {("a", FIRST): hours}
    assert len(told(found, f"Only {60 * hours:.0f} minutes")) == times
    assert len(told(found, "Only")) == times


@every([(100.0, 0), (99.1, 0), (98.9, 1)])
def test_a_hundredth_of_held_hours_without_an_ofu_is_told(observed: float, times: int) -> None:
    assert len(told(history(job("1", "u", JobSums(100, observed, 20))), NOT_ALL)) == times
    assert told(history(), NOT_ALL) == []


@every([(50.0, 1), (0.0, 0)])
def test_a_measured_ofu_is_said_to_be_no_better_than_its_clock(observed: float, times: int) -> None:
    """A clock of 1.13 times the true one makes an OFU of 1.13: 0.13 of 1.13 of it are too much."""
    found = history(job("1", "u", JobSums(50, observed, min(observed, 20))))
    found.models.clear()
    notes = told(found, "Where drivers count no cycles")
    assert [note.count("can be 13.0% too high, and OFU then 11.5%") for note in notes] == [
        1
    ] * times


@every(
    [
        (None, [], "all hours", "Load helm"),
        (0.4, [], "all hours", "The rules are loaded"),
        (0.4, [("a", FIRST)], "2 cluster-hours", "Load helm"),
    ]
)
def test_hours_without_a_record_are_told_with_what_to_do(
    target: float | None, recorded: list[tuple[str, int]], hours: str, advice: str
) -> None:
    found = history()
    found.target, found.recorded, found.raw = target, {*recorded}, {("a", 1), ("a", 2)}
    (said,) = _of_rules(found, QueryCost(7, 1.5, 1200), 0.4)
    assert said.startswith(f"{NO_RECORD} {hours}, ")
    assert "(7 queries, 1,200 samples, 1.5 s of the server)" in said
    assert f" {advice}" in said
    assert "samples" not in next(_of_rules(found, QueryCost(7, 1.5), 0.4))
    assert [*_of_rules(found, QueryCost(), None)][1].startswith("The fleet has no target OFU")
    found.remark = "Another exporter."
    assert [*_of_rules(found, QueryCost(), 0.4)] == ["Another exporter."]


def test_without_raw_hours_no_rule_is_missing() -> None:
    assert [*_of_rules(history(), QueryCost(), 0.4)] == []


def test_nodes_that_were_away_stand_by_their_hours_with_what_all_lost() -> None:
    said = [
        *_of_nodes(
            [
                AbsentNode("a", "n1", {1: 1.0}, 8, is_back=True),
                AbsentNode("a", "n2", {1: 0.5, 2: 1.0}, 8, is_back=True),
                AbsentNode("a", "n1", {9: 1.0}, 8, is_back=True),
                AbsentNode("", "n3", {1: 1.0}, 4, is_back=False),
            ]
        )
    ]
    assert [each.partition(". ")[0] for each in said] == [
        "Nodes that were away, for 28.0 GPU-hours in all: a/n1 (2.0 h), a/n2 (1.5 h)",
        "Nodes that were away, for 4.0 GPU-hours in all: n3 (1.0 h)",
    ]


def test_jobs_whose_nodes_were_away_stand_by_what_they_may_have_held() -> None:
    lacking = [
        job(name, "u", JobSums(80, 80, 32), away=hours) for name, hours in (("3", 2.0), ("4", 3.0))
    ]
    (said,) = told(history(*lacking, HONEST), "GPU-hours that nobody saw")
    assert said.endswith(" while nodes were away, by job: a/4 (at most 3.0), a/3 (at most 2.0).")
    assert told(history(), "GPU-hours that nobody") == []


def test_a_fleet_whose_jobs_report_nothing_is_told_how() -> None:
    silent = job("1", "u", JobSums(80, 80, 32))
    assert len(told(history(silent), "No job reported")) == 1
    assert told(history(silent, WRONG), "No job reported") == []
    assert told(history(), "No job reported") == []


@every(
    [
        (JobSums(80, 80, 8, joules=7.2e9), " took 2,000 kWh. For"),
        (JobSums(80, 80, 8, joules=7.2e9, idle_joules=3.6e9), ", at least 1,000 of them while"),
    ]
)
def test_energy_is_told_with_what_idle_gpus_took(sums: JobSums, said: str) -> None:
    (note,) = told(history(job("1", "u", sums)), "The measured GPUs of jobs took")
    assert said in note
    assert told(history(job("1", "u", JobSums(80, 80, 8))), "The measured GPUs") == []


@pytest.mark.parametrize(("flagged", "said"), [(0, ""), (1, "1 job reports"), (2, "2 jobs report")])
def test_the_headline_counts_jobs_that_report_too_much(flagged: int, said: str) -> None:
    wrong = {"verdicts": {"mfu_above_ofu": 3.0}}
    jobs = [job(str(n), "u", JobSums(10, 10, 4), **wrong) for n in range(flagged)]
    headline = report(history(*jobs)).headline
    assert (f" {said} a higher MFU than the hardware allows." in headline) == bool(flagged)
    assert ("higher MFU" in headline) == bool(flagged)


@every(
    [
        (JobSums(400, 400, 100, idle=0), "GPUs that were busy and below their peak (75.0%)"),
        (JobSums(400, 400, 100, idle=200), "held GPUs that computed nothing (50.0%)"),
        (JobSums(400, 40, 4), "held GPUs whose OFU is not known (90.0%)"),
    ]
)
def test_the_headline_names_the_largest_unused_part(sums: JobSums, part: str) -> None:
    found = history(job("1", "u", sums))
    (models,) = found.models.values()
    models.observed = models.utilized = 0.0
    models.jobless = JobSums()
    assert f"The largest unused part of the peak is {part}." in report(found).headline


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
        "The fleet delivered 25.0% of its peak. The GPU-hours cost 384 USD. The largest unused part of the peak is "
        "idle GPUs without a job (50.0%). In 50.0% of the GPU-hours GPUs were busy without a known job."
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
        assert "The OFU of all GPUs, with and without a job, was 25.0%" in shown
    assert "OFU 25.0%</title>" in page(found)
    assert "OFU without a job" in page(found)
    (written,) = csv.DictReader(io.StringIO(rows.as_csv(found)))
    assert (written["name"], written["effective_gpu_hours"]) == ("(no job)", "48.0")


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
    gone = MissingChunk("jobs", TimeSpan(SPAN.start, SPAN.start + 5 * HOUR), "no answer")
    found = report(half, missing=(gone,))
    assert found.time.covered_ratio == pytest.approx(0.5)
    for shown in in_words(found):
        assert "50.0% of it covered by data" in shown
        assert "Not read: jobs, 2024-10-04T00:00:00Z to 2024-10-04T05:00:00Z: no answer" in shown
    assert '"covered_ratio": 0.5' in found.model_dump_json(indent=1)


def test_jobs_that_held_more_than_there_is_are_named() -> None:
    found = report(history(HONEST, WRONG, installed=70.0))
    assert not found.is_sound
    (said,) = found.contradictions
    assert said.startswith("Jobs of cluster a held 171.4% of the GPU-hours of its GPUs")
    assert found.notes[0] == said
    assert report().contradictions == []
    assert report(history(HONEST, installed=0.0)).contradictions == []
