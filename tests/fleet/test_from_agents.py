"""A report is made of what agents hold, and one that tells nonsense costs the others nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ofu_exporter.fleet.from_agents import AgentJobs, _add_reported, _by_job, _whole, agents_report
from ofu_exporter.fleet.history.fleet_history import ClusterJob, JobHistory
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.reports.fleet_report import ReportOptions
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.jobs.served_totals import ServedTotals
from ofu_exporter.values.reported import Verdict
from tests.cli.test_report_hosts import DAY, notebook
from tests.helpers.agent import Agent, agent, page_server, until
from tests.helpers.documents import FIRST, made, reporting
from tests.helpers.in_process import call
from tests.helpers.scenes import shown_node

pytestmark = pytest.mark.slow


def test_gpus_without_a_job_count_as_far_as_they_were_measured() -> None:
    flags = ["run", "--source", "simulate", "--scheduler", "none", "--interval", "0.5s"]
    with agent(*flags, "--simulated-gpus", "4") as running:
        until(lambda: seconds_of_gpus(running) > 12)
        before = seconds_of_gpus(running)
        done = call("fleet", "report", "--hosts", running.url, "--format", "json")
        after = seconds_of_gpus(running)
    report = FleetReport.model_validate_json(done.stdout)
    assert done.returncode == 0, done.stderr
    assert [row.gpus for row in report.clusters] == [4.0]
    assert not report.jobs
    assert report.no_job is not None
    assert before <= 3600 * report.no_job.held_gpu_hours * 1.001
    assert 3600 * report.no_job.held_gpu_hours <= after * 1.001
    assert report.headline.startswith("SIMULATED")


def seconds_of_gpus(running: Agent) -> float:
    gpus = json.loads(running.get("/v1/gpus")[1])
    return float(sum(gpu["observed_seconds"] for gpu in gpus))


def test_hours_that_a_job_had_before_its_agent_started_anew_are_not_taken_from_free_ones() -> None:
    """Of two GPUs one is free for 10 of 20 minutes, and the agent has counted neither for longer. Of an agent that does
    not tell its jobs nobody knows which are free."""
    now = time.time()
    job = notebook(now).model_copy(update={"ended": None, "updated": now})
    gpus = [
        shown_node()
        .gpus[0]
        .model_copy(
            update={
                "uuid": uuid,
                "gpu_instance": "",
                "share_ratio": 1.0,
                "name": "NVIDIA H100",
                "observed_seconds": seconds,
                "utilization_seconds": 0.0,
            }
        )
        for uuid, seconds in (("GPU-0", 36600.0), ("GPU-1", 600.0))
    ]
    answers = [AgentJobs("a", (job,), gpus), AgentJobs("b", (), gpus, "answers 500")]
    report = agents_report(answers, (now - 14 * DAY, now), ReportOptions("user", Prices()))
    steps = {step.name: step.gpu_hours for step in report.funnel}
    assert steps["free"] == pytest.approx(600 / 3600)
    assert steps["installed"] == pytest.approx(20 + 600 / 3600)
    assert steps["idle"] == pytest.approx(20)


@pytest.mark.parametrize(("measured", "to_have_back"), [(18000.0, 0.0), (17999.0, 15.0)])
def test_a_job_that_serves_bound_by_memory_has_nothing_to_have_back(
    measured: float, to_have_back: float
) -> None:
    """It used 2 of 20 GPU-hours; at a target of 40 % the same work takes 5. Its memory was busy for 85 % of the time in
    which that was measured, which has to be half of it."""
    now = time.time()
    job = notebook(now)
    memory = {"memory_busy_seconds": 0.85 * measured, "memory_seconds": measured}
    gpus = [each.model_copy(update={"utilization_seconds": 3600.0, **memory}) for each in job.gpus]
    served = ServedTotals(served_model="m", tokens={"prompt": 1e6, "generation": 2e5})
    job = job.model_copy(update={"gpus": gpus, "distribution": {20: 72000.0}, "served": (served,)})
    wanted = ReportOptions("user", Prices(gpu_hour={"*": 2.0}), 0.4)
    report = agents_report([AgentJobs("a", (job,))], (now - 14 * DAY, now), wanted)
    (row,) = report.jobs
    assert row.recoverable_gpu_hours == pytest.approx(to_have_back)
    assert row.memory_ratio == (None if to_have_back else pytest.approx(0.85))
    assert (row.prompt_tokens, row.generation_tokens) == (1e6, 2e5)
    assert (row.serving_gpu_hours, row.cost_per_million_tokens) == (None, None)


@pytest.mark.parametrize(
    "times",
    [
        {"began": -1e300, "updated": 1e300},
        {"began": 1e300, "updated": -1e300},
        {"began": 0.0, "updated": 1.0},
    ],
)
def test_times_that_cannot_be_cost_nobody_else_anything(times: dict[str, float]) -> None:
    """An agent may say anything: a day for each second since the stars formed would never end."""
    now = 1_780_000_000.0
    wrong = notebook(now).model_copy(update={**times, "ended": None, "job_id": "wrong"})
    answers = [AgentJobs("a", (wrong,)), AgentJobs("b", (notebook(now),))]
    report = agents_report(answers, (now - 14 * DAY, now), ReportOptions("user", Prices()))
    hours = {row.job_id: row.held_gpu_hours for row in report.jobs}
    assert hours == {"wrong": pytest.approx(20.0), "77": pytest.approx(20.0)}


def why_missing(right_url: str, wrong_url: str) -> str:
    """Of two agents the right one's job is in the report, and why the other's are not."""
    done = call("fleet", "report", "--hosts", f"{right_url},{wrong_url}", "--format", "json")
    assert done.returncode == 4, done.stderr
    report = FleetReport.model_validate_json(done.stdout)
    assert [row.held_gpu_hours for row in report.jobs] == [pytest.approx(20.0)]
    (missing,) = report.missing
    return missing.why


@pytest.mark.parametrize("number", ["1e308", "1e19", "NaN", "-1"])
def test_an_agent_whose_numbers_none_can_have_is_named_and_costs_the_others_nothing(
    number: str,
) -> None:
    now = time.time()
    jobs = json.dumps([notebook(now).model_dump(mode="json")])
    wrong = jobs.replace('"held_seconds": 36000.0', f'"held_seconds": {number}')
    assert wrong != jobs
    with playing_agent(jobs) as right_url, playing_agent(wrong) as wrong_url:
        assert why_missing(right_url, wrong_url) == "answers with something other than jobs"


@pytest.mark.parametrize("share", [0.0, -1.0, 2.0, 1e17])
def test_an_agent_whose_gpus_are_none_or_more_than_one_is_named_and_costs_the_others_nothing(
    share: float,
) -> None:
    jobs = json.dumps([notebook(time.time()).model_dump(mode="json")])
    gpu = shown_node().gpus[0].model_dump(mode="json")
    wrong = {**gpu, "share_ratio": share, "observed_seconds": 1e6}
    with playing_agent(jobs) as right_url, playing_agent("[]", wrong) as wrong_url:
        assert why_missing(right_url, wrong_url) == "answers with something other than /v1/node"


def test_a_tiny_share_of_a_gpu_takes_no_more_time_than_others() -> None:
    jobs = json.dumps([notebook(time.time()).model_dump(mode="json")])
    gpu = shown_node().gpus[0].model_dump(mode="json")
    tiny = {**gpu, "share_ratio": 1e-300, "observed_seconds": 1e6}
    with playing_agent(jobs, tiny) as url:
        done = call("fleet", "report", "--hosts", url, "--format", "json")
    assert done.returncode == 0, done.stderr


@contextmanager
def playing_agent(jobs: str, *gpus: dict[str, object]) -> Iterator[str]:
    """An agent of a node with these GPUs and jobs."""
    node = {**shown_node().model_dump(mode="json"), "gpus": gpus, "jobs": []}
    answers = [json.dumps(node), jobs]  # asked in this order
    with page_server(lambda: answers.pop(0)) as url:
        yield url.removesuffix("/metrics")


def test_what_two_nodes_hold_of_a_job_is_one_job_and_of_two_users_two() -> None:
    """An id is counted anew by another user's job; a job that ended before the time is none of it."""
    one, two, other = made("n1"), made("n2"), made("n3", user="mallory")
    over = made("n4", ended=one.began + 1.0)
    answers = [AgentJobs("h1", jobs=(one, other)), AgentJobs("h2", jobs=(two, over))]
    parts = _by_job(answers, one.began + 2.0)
    assert sorted(map(len, parts)) == [1, 2]
    whole = {job.user: job for job in map(_whole, parts)}
    assert whole[one.user].nodes == ("n1", "n2")
    assert whole[one.user].gpu_seconds == 2 * one.gpu_seconds
    assert whole["mallory"] == other


def test_a_cause_of_the_last_minutes_is_none_of_another_verdict() -> None:
    for verdict, causes in (
        (Verdict.MFU_ABOVE_OFU, {FIRST.cause: 1.0}),
        (Verdict.MFU_BELOW_OFU, {}),
        (Verdict.AGREE, {}),
    ):
        history, reported = JobHistory(ClusterJob("", "7")), reporting(verdict=verdict).reported
        assert reported is not None
        _add_reported(history, reported)
        assert (history.verdicts, history.causes) == ({verdict.value: 1.0}, causes)
