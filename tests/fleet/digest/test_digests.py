"""A job is exempt for what is known of it, and never for what is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofu_exporter.fleet.digest.config_file import DigestConfig, Exemptions
from ofu_exporter.fleet.digest.digests import DigestSource, digests, exemption
from ofu_exporter.fleet.digest.result import Digest, Rank
from ofu_exporter.fleet.digest.signs import FleetSigns, JobSigns, PartitionKey
from ofu_exporter.fleet.digest.text import text
from ofu_exporter.fleet.history.fleet_history import ClusterJob, JobHistory, JobSums
from ofu_exporter.fleet.history.served_sums import ServedSums
from ofu_exporter.fleet.reports.result import JobRow
from tests.fleet.actions.test_actions import CHANGE, HALVED, NOTEBOOK, changes_of
from tests.fleet.reports.test_fleet_report import ALL, history, job, report
from tests.helpers.digests import NO_SIGNS, of
from tests.helpers.every import every

NOTHING = JobSigns()


def row(held: float = 8.0, **known: object) -> JobRow:
    """A job of 8 GPUs, so that 8 GPU-hours are one hour."""
    (found,) = report(history(job("1", "ada", JobSums(held, held, 1), **known))).jobs
    return found


def why(of: JobRow, signs: JobSigns = NOTHING, **wanted: Any) -> str | None:
    return exemption(of, signs, Exemptions.model_validate(wanted))


def test_by_default_nothing_is_exempt() -> None:
    assert why(row(0.01), JobSigns(dram_busy=1.0, dram_hours=1.0)) is None


@every(
    [
        ({"partitions": ["inter*"]}, None),
        ({"partitions": ["inter*", "g?u"]}, "its partition is exempt"),
        ({"job_names": ["train-*"]}, "its name is exempt"),
        ({"users": ["ada"]}, "its user is exempt"),
        ({"users": ["ad"]}, None),
    ]
)
def test_names_are_exempt_by_pattern(wanted: dict[str, Any], said: str | None) -> None:
    assert why(row(), **wanted) == said


def test_a_name_that_is_not_known_fits_no_pattern() -> None:
    assert why(row(names={}), partitions=["*"], job_names=["*"], users=["*"]) is None


@every([(1.0, True), (1.33, True), (1.34, False), (8.0, False)])
def test_a_job_is_short_by_the_time_for_which_it_held_its_gpus(
    held: float, is_exempt: bool
) -> None:
    said = why(row(held), shorter_than="10m")
    assert said == ("shorter than 10 min" if is_exempt else None)


def test_a_job_whose_gpus_are_not_known_is_not_short() -> None:
    assert why(row(0.01, sizes={}), shorter_than="10m") is None


@every(
    [(0.7, 1.0, True), (0.6, 1.0, True), (0.59, 1.0, False), (0.9, 0.4, False), (None, 0.0, False)]
)
def test_a_job_is_memory_bound_only_where_most_of_it_was_measured_so(
    busy: float | None, hours: float, is_exempt: bool
) -> None:
    said = why(row(), JobSigns(dram_busy=busy, dram_hours=hours), dram_busy=0.6)
    assert (said is not None and "memory-bound" in said) == is_exempt


def config(**wanted: object) -> DigestConfig:
    return DigestConfig.model_validate(wanted)


def by_name(found: list[Digest]) -> dict[str, Digest]:
    return {each.name: each for each in found}


@every(["user", "account"])
def test_totals_are_the_reports_rows_and_jobs_add_up_to_them(by: str) -> None:
    whole = report(ALL, by=by)  # type: ignore[arg-type]
    found = digests(DigestSource(whole, NO_SIGNS, ""), by, DigestConfig())  # type: ignore[arg-type]
    assert [each.total for each in found] == whole.groups
    assert sorted(j.row.job_id for each in found for j in each.jobs) == ["1", "2", "3", "4"]
    for each in found:
        assert {getattr(j.row, by) for j in each.jobs} == {each.name}
        assert sum(j.row.held_gpu_hours for j in each.jobs) == pytest.approx(
            each.total.held_gpu_hours
        )


@every(["ada", "(not known)", "(no job)", "all jobs"])
def test_jobs_of_nobody_known_have_no_reader_whatever_others_are_called(name: str) -> None:
    unknown = job("9", "x", JobSums(80, 80, 20))
    unknown.names = {}
    (found,) = of(unknown, job("1", name, JobSums(8, 8, 2)))
    assert found.name == name
    assert found.total.held_gpu_hours == 8
    assert [each.row.job_id for each in found.jobs] == ["1"]
    assert of(unknown) == []


def three(*more: JobHistory) -> tuple[JobHistory, ...]:
    """Waste at 40 %: ada 16, bob 30, eve -8."""
    return (
        job("1", "ada", JobSums(80, 80, 16)),
        job("2", "bob", JobSums(80, 80, 2)),
        job("3", "eve", JobSums(80, 80, 40)),
        *more,
    )


def test_places_are_by_waste_and_by_ofu() -> None:
    found = by_name(of(*three()))
    assert {name: (each.rank_by_waste, each.rank_by_ofu) for name, each in found.items()} == {
        "ada": (Rank(place=2, of=3), Rank(place=2, of=3)),
        "bob": (Rank(place=1, of=3), Rank(place=3, of=3)),
        "eve": (Rank(place=3, of=3), Rank(place=1, of=3)),
    }


def test_equals_share_a_place_and_who_was_not_measured_has_none() -> None:
    same = job("4", "fay", JobSums(80, 80, 16))
    found = by_name(of(*three(same, job("5", "gus", JobSums(80)))))
    assert found["ada"].rank_by_waste == found["fay"].rank_by_waste == Rank(place=2, of=4)
    assert found["eve"].rank_by_ofu == Rank(place=1, of=4)
    assert (found["gus"].rank_by_waste, found["gus"].rank_by_ofu) == (None, None)


def test_of_two_no_place_is_told_as_it_would_tell_of_the_other() -> None:
    for each in of(*three()[:2]):
        assert (each.rank_by_waste, each.rank_by_ofu) == (None, None)


def test_a_site_can_have_no_places() -> None:
    assert {each.rank_by_waste for each in of(*three(), config=config(ranks=False))} == {None}


def test_exempt_jobs_stay_in_the_totals_and_count_for_no_place_and_no_advice() -> None:
    exempt = job("4", "ada", JobSums(200, 200, 0, idle=200))
    exempt.names = {("notebook", "ada", "lab", "interactive", "", "slurm", ""): 3}
    found = by_name(of(*three(exempt), config=config(exempt={"partitions": ["interactive"]})))
    ada = found["ada"]
    assert ada.total.held_gpu_hours == 280
    assert ada.exempt_gpu_hours == 200
    assert ada.exempt_wasted_gpu_hours == pytest.approx(80)
    assert ada.rank_by_waste == Rank(place=2, of=3)
    assert [(j.row.job_id, bool(j.exempt), bool(j.advice)) for j in ada.jobs] == [
        ("1", False, True),
        ("4", True, False),
    ]


def test_jobs_stand_by_waste_and_those_that_are_exempt_last() -> None:
    """Of equals, the one that held more comes first."""
    sums = {
        "exempt": JobSums(90, 90, 0),
        "better": JobSums(80, 80, 40),
        "small": JobSums(20, 20, 3),
        "unmeasured": JobSums(50, 0, 0),
        "none": JobSums(40, 40, 16),
        "most": JobSums(80, 80, 10),
    }
    jobs = [job(name, "ada", each) for name, each in sums.items()]
    jobs[0].names = {("notebook", "ada", "lab", "interactive", "", "slurm", ""): 3}
    (found,) = of(*jobs, config=config(exempt={"partitions": ["interactive"]}))
    order = ["most", "small", "unmeasured", "none", "better", "exempt"]
    assert [each.row.job_id for each in found.jobs] == order


def test_the_target_of_a_partition_decides_about_its_jobs_and_not_about_waste() -> None:
    plain, easy = (
        by_name(of(*three(), config=config(targets=targets)))["ada"]
        for targets in ({"other": 0.1}, {"g*": 0.15})
    )
    assert (plain.jobs[0].target, easy.jobs[0].target) == (0.4, 0.15)
    assert [each.kind for each in plain.jobs[0].advice] == ["low_ofu"]
    assert easy.jobs[0].advice == []
    assert plain.total == easy.total


def test_a_target_is_the_configurations_else_the_rules_else_the_fleets() -> None:
    rules = FleetSigns({}, {PartitionKey("", "gpu"): 0.2, PartitionKey("", "other"): 0.9})
    for wanted, target in (({}, 0.2), ({"targets": {"g*": 0.1}}, 0.1)):
        found = by_name(of(*three(), config=config(**wanted), signs=rules))
        assert found["ada"].jobs[0].target == target
    elsewhere = FleetSigns({}, {PartitionKey("", "x"): 0.9, PartitionKey("b", "gpu"): 0.9})
    assert by_name(of(*three(), signs=elsewhere))["ada"].jobs[0].target == 0.4


def test_partitions_of_one_name_in_two_clusters_have_targets_of_their_own() -> None:
    """The cluster's own target goes before that of all clusters, in the configuration and in the rules alike."""
    here, there = (
        job("1", "ada", JobSums(80, 80, 16), key=ClusterJob(each, "1")) for each in ("a", "b")
    )

    def targets(rules: dict[PartitionKey, float], **wanted: object) -> dict[str, float | None]:
        (found,) = of(here, there, config=config(**wanted), signs=FleetSigns({}, rules))
        return {each.row.cluster: each.target for each in found.jobs}

    both = {PartitionKey("", "gpu"): 0.2, PartitionKey("b", "gpu"): 0.1}
    assert targets({PartitionKey("a", "gpu"): 0.3, PartitionKey("b", "gpu"): 0.1}) == {
        "a": 0.3,
        "b": 0.1,
    }
    assert targets(both) == {"a": 0.2, "b": 0.1}
    assert targets(both, targets={"gpu": 0.5}) == {"a": 0.5, "b": 0.5}
    assert targets(both, targets={"gpu": {"a": 0.6}}) == {"a": 0.6, "b": 0.1}
    assert targets({}, targets={"gpu": {"a": 0.6}, "*": 0.15}) == {"a": 0.6, "b": 0.15}
    assert targets({}, targets={"g*": {"a": 0.6, "*": 0.7}}) == {"a": 0.6, "b": 0.7}


def test_signs_are_those_of_the_job() -> None:
    signs = FleetSigns({ClusterJob("a", "1"): JobSigns(clock=0.5, dram_busy=0.25)}, {})
    found = by_name(of(*three(), signs=signs))
    assert (found["ada"].jobs[0].clock, found["ada"].jobs[0].dram_busy) == (0.5, 0.25)
    assert "low_clock" in {each.kind for each in found["ada"].jobs[0].advice}
    assert found["bob"].jobs[0].clock is None


def test_a_digest_survives_json_and_names_nobody_else() -> None:
    for each in of(*three()):
        assert Digest.model_validate_json(each.model_dump_json()) == each
        others = {"ada", "bob", "eve"} - {each.name}
        assert not [name for name in others if name in each.model_dump_json()]


NAMES = st.sampled_from(["ada", "bob", "eve", "fay", ""])
SUMS = st.builds(
    lambda held, measured, ofu: JobSums(held, held * measured, held * measured * ofu),
    st.floats(0.1, 1e5),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
)


@settings(max_examples=50)
@given(st.lists(st.tuples(NAMES, SUMS), max_size=12))
def test_for_any_jobs_digests_are_the_reports_rows(jobs: list[tuple[str, JobSums]]) -> None:
    made = [job(str(number), name, sums) for number, (name, sums) in enumerate(jobs)]
    whole = report(history(*made))
    found = digests(DigestSource(whole, NO_SIGNS, ""), "user", DigestConfig())
    assert [each.total for each in found] == [row for row in whole.groups if row.is_named]
    assert [each.name for each in found] == [
        name for name in (row.name for row in whole.groups) if name in {name for name, _ in jobs}
    ]
    places = [each.rank_by_waste.place for each in found if each.rank_by_waste]
    assert not places or min(places) == 1


def test_a_serving_job_that_memory_bounds_is_exempt_and_says_so() -> None:
    served = ServedSums(held=80, memory=80, memory_busy=68)
    served.add_hour({("m", "generation"): 3e7}, 0.0, 9e7)
    bound = job("1", "ada", JobSums(80, 80, 2.4), served=served)
    (found,) = of(bound)
    (told,) = found.jobs
    assert told.exempt == "it serves, bound by memory: that was busy 85.0% of the time"
    assert told.advice == []
    assert "Served 30 M tokens at 3 J a token and 5.33 USD a million." in text(found, 5)


def test_a_serving_job_that_lets_its_memory_rest_has_advice() -> None:
    served = ServedSums(held=80, memory=80, memory_busy=16)
    served.add_hour({("m", "generation"): 3e7}, 0.0, None)
    (found,) = of(job("1", "ada", JobSums(80, 80, 2.4), served=served))
    assert found.jobs[0].exempt is None
    assert [each.kind for each in found.jobs[0].advice] == ["low_ofu"]
    assert "J a token" not in text(found, 5)


def test_a_sure_regression_is_named_to_whose_it_is_and_to_nobody_else() -> None:
    unsure = CHANGE.model_copy(update={"sure": False, "labels": {"user": "marie"}})
    found = report(history(HALVED, NOTEBOOK, installed=40_320.0))
    smaller = CHANGE.model_copy(update={"ofu_before": 0.2, "lost_gpu_hours": 1.0})
    found = found.model_copy(update={"changes": changes_of(CHANGE, smaller, unsure)})
    alan, marie = sorted(
        digests(DigestSource(found, NO_SIGNS, ""), "user", DigestConfig()),
        key=lambda each: each.name,
    )
    (told,) = (each.text for each in alan.jobs[0].advice if each.kind == "regression")
    assert told.startswith("OFU 34.0% before 2026-11-08, 17.0% after it (sure).")
    assert f"`ofu-exporter fleet job vla --prometheus {found.server} --since" in told
    assert [each.kind for each in marie.jobs[0].advice] == ["idle"]
    assert told in text(alan, 20)


def test_signs_of_an_id_that_two_users_had_are_told_to_whose_they_are() -> None:
    jobs = [job("7", user, JobSums(80, 80, 30)) for user in ("ada", "bob")]
    jobs[1].key = jobs[1].key._replace(user="bob")
    signs = FleetSigns({ClusterJob("a", "7", "bob"): JobSigns(clock=0.3)}, {})
    assert {each.name: each.jobs[0].clock for each in of(*jobs, signs=signs)} == {
        "ada": None,
        "bob": 0.3,
    }
