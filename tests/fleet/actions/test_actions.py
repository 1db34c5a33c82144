"""What to do first is what was planted, in the order of its hours, and nothing where nothing was planted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ofu_exporter.fleet.actions import MOST, _counted_once, first_actions
from ofu_exporter.fleet.actions.commands import command
from ofu_exporter.fleet.actions.kinds import (
    KINDS,
    Action,
    by_name,
    jobs_named,
    price_of,
)
from ofu_exporter.fleet.changes_result import ChangeRow, ChangesReport, SlowRow
from ofu_exporter.fleet.history.fleet_history import JobHistory, JobSums
from ofu_exporter.fleet.pages import report_text
from ofu_exporter.fleet.pages.report_page import page
from ofu_exporter.fleet.reports.chain_rows import RestartRow
from ofu_exporter.fleet.reports.result import FleetReport, JobRow
from tests.fleet.reports.test_fleet_report import history, job, report

GOOD = [job(f"good-{n}", f"user{n}", JobSums(500, 500, 200)) for n in range(8)]
NOTEBOOK = job("nb", "marie", JobSums(2880, 2880, 0.0, idle=2880))
HALVED = job("vla", "alan", JobSums(5760, 5760, 2304 * 0.34 + 3456 * 0.17))
SWEEP = [job(f"sweep-{n}", "eve", JobSums(60, 60, 12)) for n in range(10)]
WRONG_SUMS = JobSums(900, 900, 400, 900, 600, 400)
WRONG = job(
    "moe",
    "grace",
    WRONG_SUMS,
    verdicts={"mfu_above_ofu": 3.0},
    causes={"sparse_peak": 2.0},
)
CHANGE = ChangeRow(
    kind="job",
    labels={"cluster": "a", "job_id": "vla", "job_name": "train-alan", "user": "alan"},
    direction="regression",
    sure=True,
    at="2026-11-08T00:00:00Z",
    after_last="2026-11-07T00:00:00Z",
    factor=0.5,
    factor_low=0.48,
    factor_high=0.52,
    ofu_before=0.34,
    ofu_after=0.17,
    chance_of_series=0.0,
    chance_in_report=0.0,
    lost_gpu_hours=1728.0,
    before=[],
    after=[],
    shares=[],
)
SLOW = SlowRow(
    cluster="a",
    node="n7",
    gpu=None,
    uuid=None,
    compared="ofu",
    slower=0.1,
    slower_low=0.08,
    slower_high=0.12,
    sure=True,
    chance=0.0,
    hours=40,
    jobs=["1", "2"],
)
STORIES = ("held_idle", "regression", "below_others", "slow_node", "wrong_number")


def test_every_kind_of_action_is_planted() -> None:
    """In a test below: the five of STORIES fill a report."""
    tests = Path(__file__).read_text()
    unplanted = [kind.__name__ for kind in KINDS if f'"{kind.__name__}"' not in tests]
    assert unplanted == [], "an action has a test below, with a fleet in which it is seen"


def changes_of(*rows: ChangeRow, slow: tuple[SlowRow, ...] = ()) -> ChangesReport:
    return ChangesReport.model_construct(changes=[*rows], slow=[*slow])


def acted(*jobs: JobHistory, changes: ChangesReport | None = None) -> FleetReport:
    found = report(history(*jobs, installed=40_320.0)).model_copy(update={"changes": changes})
    return found.model_copy(update={"actions": first_actions(found)})


def test_planted_stories_come_in_the_order_of_their_hours() -> None:
    """Hours and money are of the stories as they were planted: 4 GPUs for 720 hours, 8 GPUs at half speed for 432."""
    found = acted(*GOOD, NOTEBOOK, HALVED, *SWEEP, WRONG, changes=changes_of(CHANGE, slow=(SLOW,)))
    assert tuple(row.kind for row in found.actions) == STORIES
    gains = [row.gpu_hours for row in found.actions[:3]]
    assert gains == pytest.approx([2880, 1728, 600 * (1 - 0.2 / 0.4)], rel=0.01)
    assert [row.cost for row in found.actions[:3]] == pytest.approx([5760, 3456, 600], rel=0.01)
    assert [f"{row.who} {row.what}" for row in found.actions] == [
        "train-marie of marie held 8 GPUs and did no tensor work",
        "train-alan of alan lost 50.0% of its OFU on 2026-11-08",
        "train-eve of eve, 10 jobs reached an OFU of 20.0% while busy",
        "a/n7 did 10.0% less than its peers",
        "train-grace of grace reported an MFU that the GPUs cannot have done",
    ]
    assert len(found.actions) == MOST


def test_a_slow_node_or_gpu_is_told_once_and_of_its_cluster() -> None:
    by_clock = SLOW.model_copy(update={"compared": "sm_clock", "slower": 0.2})
    elsewhere = SLOW.model_copy(update={"cluster": "b", "gpu": "3"})
    rows = (SLOW, elsewhere, by_clock, by_clock.model_copy(update={"gpu": "0"}))
    found = acted(*GOOD, changes=changes_of(slow=rows))
    assert [f"{row.who} {row.what}" for row in found.actions] == [
        "a/n7 ran at a clock 20.0% below that of its peers",
        "GPU 3 of b/n7 did 10.0% less than its peers",
    ]
    drained, tried = (row.next for row in found.actions)
    assert drained.startswith("Drain it")
    assert tried.startswith("Run it in the middle of another job: only if it does less there too")


def test_a_fleet_without_stories_says_so_in_one_line_everywhere() -> None:
    found = acted(*GOOD)
    assert found.actions == []
    document = report_text.document(found)
    for text in (document.plain(), document.markdown(), page(found)):
        assert text.count(report_text.NOTHING_TO_DO) == 1


@pytest.mark.parametrize(
    ("of_fleet", "rested", "is_told"), [(8, 1.0, 1), (8, 0.9, 0), (1500, 1.4, 0), (1500, 1.6, 1)]
)
def test_less_than_an_hour_or_a_thousandth_is_not_worth_a_line(
    of_fleet: float, rested: float, is_told: bool
) -> None:
    whole = job("good", "ada", JobSums(of_fleet, of_fleet, 0.4 * of_fleet))
    found = acted(whole, job("nb", "bob", JobSums(rested, rested, 0.0, idle=rested)))
    assert [row.kind for row in found.actions] == ["held_idle"] * is_told


@pytest.mark.parametrize(("slower", "kinds"), [(0.19, []), (0.21, ["below_others"])])
def test_a_job_that_a_fifth_of_its_busy_hours_would_not_save_is_left_alone(
    slower: float, kinds: list[str]
) -> None:
    made = job("vla", "alan", JobSums(1000, 1000, 0.4 * 1000 * (1 - slower)))
    assert [row.kind for row in acted(*GOOD, made).actions] == kinds


@pytest.mark.parametrize(
    ("measured", "rested", "says"),
    [
        (100, 100, ""),
        (100, 60, " most of the measured time"),
        (30, 30, " most of the measured time"),
    ],
)
def test_a_job_is_not_said_to_have_rested_while_nobody_looked(
    measured: float, rested: float, says: str
) -> None:
    (action,) = acted(*GOOD, job("nb", "bob", JobSums(100, measured, 0.0, idle=rested))).actions
    assert action.what == f"held 8 GPUs and did no tensor work{says}"


def test_hours_cost_what_the_jobs_hours_cost_and_are_of_unknown_cost_where_one_is() -> None:
    rows = [JobRow.model_construct(cost=cost, held_gpu_hours=10.0) for cost in (10.0, 30.0, None)]
    assert price_of(rows[:2], 3.0) == 3.0 * 40 / 20
    assert price_of(rows, 3.0) is None
    assert price_of([], 3.0) is None


def test_jobs_of_one_name_are_one_and_those_without_a_name_stand_alone() -> None:
    rows = [
        JobRow.model_construct(cluster="a", user=user, job_name=name, job_id=job_id)
        for user, name, job_id in [
            ("u", "x", "1"),
            ("u", "x", "2"),
            ("v", "x", "3"),
            ("u", "", "4"),
        ]
    ]
    rows.append(rows[3].model_copy(update={"job_id": "5"}))
    unnamed = ["job a/4 of u", "job a/5 of u"]
    assert [jobs_named(each) for each in by_name(rows)] == ["x of u, 2 jobs", "x of v", *unnamed]


def test_a_change_that_is_not_sure_or_is_better_or_of_no_job_is_no_action() -> None:
    others = [
        CHANGE.model_copy(update={"sure": False}),
        CHANGE.model_copy(update={"direction": "improvement"}),
        CHANGE.model_copy(update={"kind": "model", "labels": {"cluster": "a"}, "at": "2000"}),
    ]
    slow = SLOW.model_copy(update={"sure": False})
    assert acted(*GOOD, changes=changes_of(*others, slow=(slow,))).actions == []


def test_no_hour_of_a_job_is_counted_in_two_lines() -> None:
    """The job that halved is below others too."""
    found = acted(*GOOD, HALVED, changes=changes_of(CHANGE))
    assert [row.kind for row in found.actions] == ["regression"]
    first, second = (
        Action(
            *(who, "", "", "", ""),
            [JobRow.model_construct(cluster="a", job_id=n, user="u") for n in (who, "both")],
        )
        for who in ("1", "2")
    )
    assert _counted_once([first, second]) == [first], "one job in both is enough"


def test_more_stories_than_lines_leave_room_for_a_wrong_number() -> None:
    idle = [
        job(f"i{n}", f"idler{n}", JobSums(100 + n, 100 + n, 0.0, idle=100 + n)) for n in range(9)
    ]
    kinds = [row.kind for row in acted(*GOOD, *idle, WRONG).actions]
    assert kinds == [*["held_idle"] * 4, "wrong_number"]


@pytest.mark.parametrize(("ratio", "kinds"), [(0.3, ["traced"]), (0.1, ["traced"]), (0.099, [])])
def test_what_a_jobs_traces_prove_is_an_action_with_the_hours_that_it_costs_at_most(
    ratio: float, kinds: list[str]
) -> None:
    made = job("vla", "alan", JobSums(1000, 1000, 400), findings={"cpu_collectives": ratio})
    found = acted(*GOOD, made).actions
    assert [each.kind for each in found] == kinds
    for each in found:
        assert each.gpu_hours == pytest.approx(1000 * ratio)
        assert each.what == f"lost up to {ratio:.1%} of the traced time (cpu_collectives)"
        assert each.why.startswith(
            "The GPU was idle while CPUs checked collectives with each other. "
        )
        assert each.next.startswith("What helps: Unset TORCH_DISTRIBUTED_DEBUG")


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        ("sparse_peak", "Likeliest: the peak is the one for 2:4 sparse matrices"),
        ("undecided", "Several causes fit equally well. No hours"),
        ("no_known_cause", "No known cause fits. No hours"),
    ],
)
def test_a_wrong_number_says_what_its_agents_think_of_the_cause(cause: str, told: str) -> None:
    made = job("moe", "grace", WRONG_SUMS, verdicts={"mfu_above_ofu": 3.0}, causes={cause: 2.0})
    (action,) = acted(*GOOD, made).actions
    assert f"above OFU. {told}" in action.why


def test_a_finding_or_a_cause_of_a_newer_agent_is_named_as_it_is() -> None:
    made = job("vla", "alan", JobSums(1000, 1000, 400), findings={"of_2030": 0.3})
    (of_trace,) = acted(*GOOD, made).actions
    assert of_trace.what.endswith("(of_2030)")
    assert of_trace.why.startswith("Traces prove it")
    assert of_trace.next.startswith("docs/where.md says what helps. ")
    newer = job(
        "moe", "grace", WRONG_SUMS, verdicts={"mfu_above_ofu": 3.0}, causes={"of_2030": 2.0}
    )
    (of_report,) = acted(*GOOD, newer).actions
    assert "Likeliest: of_2030. " in of_report.why


def test_a_job_that_restarts_loses_the_hours_of_all_its_restarts() -> None:
    """Three of a job of 8 GPUs in two hours: 12 GPU-hours are half an hour each."""
    found = report(history(*GOOD, job("again", "eve", JobSums(80, 80, 32))))
    row = RestartRow.model_construct(
        cluster="a", job_id="again", user="eve", restarts=1, gpu_hours=4, cost=8
    )
    more = row.model_copy(update={"restarts": 2, "gpu_hours": 8, "cost": 16})
    (action,) = first_actions(found.model_copy(update={"restarts": [row, more]}))
    assert (action.kind, action.gpu_hours, action.cost) == ("restarts", 12, 24)
    assert action.what == "restarted 3 times"
    assert action.why == "Getting back to where it had been took 12 GPU-hours, 30 min each time."


def test_two_users_jobs_of_one_id_are_two_jobs() -> None:
    """Each of them rested, and each restarted once."""
    rested = [job("7", user, JobSums(100, 100, 0.0, idle=100)) for user in ("ada", "bob")]
    rested[1].key = rested[1].key._replace(user="bob")
    found = report(history(*GOOD, *rested))
    assert [row.who for row in first_actions(found)] == ["train-ada of ada", "train-bob of bob"]
    restarted = [
        RestartRow.model_construct(
            cluster="a", job_id="7", user=user, restarts=1, gpu_hours=120, cost=None
        )
        for user in ("ada", "bob")
    ]
    actions = first_actions(found.model_copy(update={"restarts": restarted}))
    assert {(row.who, row.what) for row in actions} == {
        ("train-ada of ada", "restarted once"),
        ("train-bob of bob", "restarted once"),
    }


def test_a_command_says_all_that_tells_the_job_from_others() -> None:
    made = report(history(job("7", "eve", JobSums(80, 80, 32))))
    more = {"clusters": 2 * made.clusters, "jobs": 2 * made.jobs, "tenant": "lab 1"}
    among_others = made.model_copy(update=more)
    shop, time = "--prometheus http://prometheus:9090", f"--since 48h --until {made.time.end}"
    assert command(made, made.jobs[0]) == f"`ofu-exporter fleet job 7 {shop} {time}`"
    job_7 = "job 7 --cluster a --owner eve"
    told = f"`ofu-exporter fleet {job_7} {shop} --tenant 'lab 1' {time}`"
    assert command(among_others, made.jobs[0]) == told


@pytest.mark.parametrize(
    "name", ["a`.` rm -rf ~ #", "a'; rm -rf ~ #", "a\nb\u202e", "$(id)", "a b"]
)
def test_a_command_that_is_copied_from_a_page_is_one_and_names_the_job_alone(name: str) -> None:
    """A shell that reads it gives the id back, and nothing in it ends the code or the line."""
    made = report(history(job(name, "mallory", JobSums(80, 80, 32))))
    text = command(made, made.jobs[0])
    assert text.count("`") == 2
    assert text.isprintable()
    said = subprocess.run(
        ["bash", "-c", f"ofu-exporter() {{ printf '%s' \"$3\"; }}; {text.strip('`')}"],
        capture_output=True,
        text=True,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert said.stdout == name
