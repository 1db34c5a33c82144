"""Each sentence stands where what it says is so, and only there."""

from __future__ import annotations

import pytest

from ofu_exporter.fleet.history_server import QueryCost
from ofu_exporter.fleet.reports.fleet_history import (
    AbsentNode,
    ClusterJob,
    FleetHistory,
    JobSums,
)
from ofu_exporter.fleet.reports.notes import _of_nodes, _of_rules, listed
from ofu_exporter.fleet.reports.prices import Prices
from tests.fleet.reports.test_fleet_report import FIRST, PRICED, WRONG, history, job, report
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


@every([(20, ""), (21, " and 1 more"), (25, " and 5 more")])
def test_more_than_twenty_names_are_counted(count: int, more: str) -> None:
    names = [f"n{number}" for number in range(count)]
    assert listed(names) == ", ".join(names[:20]) + more


def test_jobs_that_ended_unseen_stand_by_what_they_may_have_held() -> None:
    found = history()
    found.cut = {ClusterJob("a", "1"): 2.0, ClusterJob("a", "2"): 3.0}
    (said,) = told(found, "Jobs that ended while")
    assert said.endswith(": 2 (at most 3.0), 1 (at most 2.0).")
    assert told(history(), "Jobs that ended") == []


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
def test_the_headline_names_the_largest_part_of_the_rest(sums: JobSums, part: str) -> None:
    found = history(job("1", "u", sums))
    (models,) = found.models.values()
    models.observed = models.utilized = 0.0
    models.jobless = JobSums()
    assert f"The largest part of the rest is {part}." in report(found).headline
