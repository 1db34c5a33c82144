"""`fleet report --hosts` on three real agents, one of them killed: their totals, and what a state file remembers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ofu_exporter.fleet.from_agents import AgentJobs, agents_report
from ofu_exporter.fleet.reports.fleet_report import ReportOptions
from ofu_exporter.fleet.reports.job_rows import unix
from ofu_exporter.fleet.reports.prices import Prices
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.jobs.clock_mark import ClockMark
from ofu_exporter.jobs.gpu_totals import GpuTotals
from ofu_exporter.jobs.kept_served import KeptServed
from ofu_exporter.jobs.state_file import open_store
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.support.boot import boot_id, uptime
from tests.fleet.changes.test_text import report as changes_of
from tests.helpers.agent import Agent, agent, page_server, until
from tests.helpers.in_process import call
from tests.helpers.scenes import shown_node

pytestmark = pytest.mark.slow
DAY = 86400.0


def notebook(now: float) -> JobTotals:
    """A job that held two GPUs for ten hours, two days ago, and did nothing."""
    gpus = tuple(
        GpuTotals(
            gpu=str(n),
            uuid=f"GPU-{n}",
            held_seconds=36000,
            observed_seconds=36000,
            utilization_seconds=0.0,
        )
        for n in range(2)
    )
    return JobTotals(
        scheduler="slurm",
        job_id="77",
        job_name="notebook",
        user="marie",
        began=now - 2 * DAY - 36000,
        ended=now - 2 * DAY,
        updated=now - 2 * DAY,
        gpus=gpus,
        distribution={0: 72000.0},
    )


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Agent]]:
    state = tmp_path_factory.mktemp("state") / "jobs.sqlite"
    store, now = open_store(state), time.time()
    mark = ClockMark(boot_id(), uptime(), now)
    store.save([notebook(now)], {}, now, mark, KeptServed())
    store.close()
    flags = ["run", "--source", "simulate", "--scheduler", "simulate", "--interval", "0.5s"]
    flags += ["--simulated-gpus", "2"]
    with (
        agent(*flags, "--state-file", str(state)) as first,
        agent(*flags, "--seed", "2") as second,
        agent(*flags, "--seed", "3") as third,
    ):
        until(lambda: all(held(each) > 2 for each in (first, second, third)))
        third.kill()
        yield [first, second, third]


def held(running: Agent) -> float:
    jobs = json.loads(running.get("/v1/jobs")[1])
    return float(sum(gpu["held_seconds"] for job in jobs for gpu in job["gpus"]))


@pytest.fixture(scope="module")
def hosts(nodes: list[Agent]) -> str:
    """Two that live, and one that was killed after it had jobs."""
    return ",".join(each.url for each in nodes)


def test_a_job_that_ended_days_ago_is_told_on_request_alone(nodes: list[Agent]) -> None:
    ids = [job["job_id"] for job in json.loads(nodes[0].get("/v1/jobs")[1])]
    told = json.loads(nodes[0].get("/v1/jobs?ended=true")[1])
    assert "77" not in ids
    assert [job["job_id"] for job in told if job["job_name"] == "notebook"] == ["77"]
    assert {job["job_id"] for job in told} >= set(ids)


def test_the_report_adds_up_what_the_agents_hold_and_names_the_dead_one(hosts: str) -> None:
    done = call("fleet", "report", "--hosts", hosts, "--format", "json")
    assert done.returncode == 4, done.stderr
    report = FleetReport.model_validate_json(done.stdout)
    idle = next(row for row in report.jobs if row.job_id == "77")
    assert idle.held_gpu_hours == pytest.approx(20.0)
    assert idle.idle_gpu_hours == pytest.approx(20.0)
    assert len(report.jobs) > 1
    assert report.actions[0].who == "notebook of marie"
    assert report.actions[0].gpu_hours == pytest.approx(20.0)
    (dead,) = report.missing
    assert dead.what.startswith("agent of 127.0.0.1:")
    assert "does not answer" in dead.why
    assert abs(unix(report.time.end) - time.time()) < 60
    assert unix(report.time.start) <= time.time() - 2 * DAY - 36000
    assert report.time.covered_ratio == pytest.approx(2 / 3)
    assert any("From what 2 of 3 agents hold, since 20" in note for note in report.notes)
    assert report.headline.startswith("SIMULATED")


def test_a_job_of_an_agent_has_its_own_totals(nodes: list[Agent], hosts: str) -> None:
    before = json.loads(nodes[1].get("/v1/jobs")[1])
    done = call("fleet", "report", "--hosts", nodes[1].url, "--format", "json")
    assert done.returncode == 0, done.stderr
    report = FleetReport.model_validate_json(done.stdout)
    after = json.loads(nodes[1].get("/v1/jobs")[1])
    for row in report.jobs:
        low, high = (
            sum(
                g["held_seconds"]
                for job in jobs
                if job["job_id"] == row.job_id
                for g in job["gpus"]
            )
            for jobs in (before, after)
        )
        assert low <= 3600 * row.held_gpu_hours * 1.001
        assert 3600 * row.held_gpu_hours <= high * 1.001


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
    """Of two GPUs one is free for 10 of 20 minutes, and the agent has counted neither for longer."""
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
    answer = AgentJobs("a", (job,), gpus)
    report = agents_report([answer], (now - 14 * DAY, now), ReportOptions("user", Prices()))
    steps = {step.name: step.gpu_hours for step in report.funnel}
    assert steps["free"] == pytest.approx(600 / 3600)
    assert steps["installed"] == pytest.approx(20 + 600 / 3600)
    assert steps["idle"] == pytest.approx(20)


def test_the_page_is_made_of_it(hosts: str, tmp_path: Path) -> None:
    done = call("fleet", "report", "--hosts", hosts, "--folder", str(tmp_path))
    assert done.returncode == 4, done.stderr
    page = next(tmp_path.glob("*_*.html")).read_text()
    assert "notebook of marie" in page
    assert "--prometheus agents" not in page


def test_nobody_at_all_is_an_exit_of_its_own() -> None:
    done = call("fleet", "report", "--hosts", "http://127.0.0.1:9")
    assert done.returncode == 3
    assert "does not answer" in done.stderr


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--hosts", "a", "--prometheus", "http://127.0.0.1:1"), "neither --prometheus nor --from"),
        (("--hosts", "a", "--until", "2026-01-01"), "agents know their totals of now alone"),
        (("--hosts", "a[1-"), "a bracket is not closed"),
        ((), "Missing option '--prometheus'"),
        (("--hosts", ""), "no host is named"),
        (("--hosts", "a", "--hosts-file", "/dev/null"), "one of --hosts and --hosts-file"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags: tuple[str, ...], why: str) -> None:
    done = call("fleet", "report", *flags)
    assert done.returncode == 2
    assert why in done.stderr


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


@pytest.mark.parametrize("number", ["1e308", "1e19", "NaN", "-1"])
def test_an_agent_whose_numbers_none_can_have_is_named_and_costs_the_others_nothing(
    number: str,
) -> None:
    now = time.time()
    jobs = json.dumps([notebook(now).model_dump(mode="json")])
    wrong = jobs.replace('"held_seconds": 36000.0', f'"held_seconds": {number}')
    assert wrong != jobs
    with playing_agent(jobs) as right_url, playing_agent(wrong) as wrong_url:
        hosts = f"{right_url},{wrong_url}"
        done = call("fleet", "report", "--hosts", hosts, "--format", "json")
    assert done.returncode == 4, done.stderr
    report = FleetReport.model_validate_json(done.stdout)
    assert [row.held_gpu_hours for row in report.jobs] == [pytest.approx(20.0)]
    assert [row.why for row in report.missing] == ["answers with something other than jobs"]


@pytest.mark.parametrize("share", [0.0, -1.0, 2.0, 1e17])
def test_an_agent_whose_gpus_are_none_or_more_than_one_is_named_and_costs_the_others_nothing(
    share: float,
) -> None:
    jobs = json.dumps([notebook(time.time()).model_dump(mode="json")])
    gpu = shown_node().gpus[0].model_dump(mode="json")
    wrong = {**gpu, "share_ratio": share, "observed_seconds": 1e6}
    with playing_agent(jobs) as right_url, playing_agent("[]", wrong) as wrong_url:
        hosts = f"{right_url},{wrong_url}"
        done = call("fleet", "report", "--hosts", hosts, "--format", "json")
    assert done.returncode == 4, done.stderr
    report = FleetReport.model_validate_json(done.stdout)
    assert [row.held_gpu_hours for row in report.jobs] == [pytest.approx(20.0)]
    assert [row.why for row in report.missing] == ["answers with something other than /v1/node"]


def test_a_tiny_share_of_a_gpu_takes_no_more_time_than_others() -> None:
    jobs = json.dumps([notebook(time.time()).model_dump(mode="json")])
    gpu = shown_node().gpus[0].model_dump(mode="json")
    tiny = {**gpu, "share_ratio": 1e-300, "observed_seconds": 1e6}
    with playing_agent(jobs, tiny) as url:
        done = call("fleet", "report", "--hosts", url, "--format", "json")
    assert done.returncode == 0, done.stderr


def test_changes_that_were_found_before_go_with_a_server_alone(tmp_path: Path) -> None:
    file = tmp_path / "changes.json"
    file.write_text(changes_of([], []).model_dump_json())
    done = call("fleet", "report", "--hosts", "a", "--changes", str(file))
    assert done.returncode == 2
    assert "--changes goes with --prometheus" in done.stderr


@contextmanager
def playing_agent(jobs: str, *gpus: dict[str, object]) -> Iterator[str]:
    """An agent of a node with these GPUs and jobs."""
    node = {**shown_node().model_dump(mode="json"), "gpus": gpus, "jobs": []}
    answers = [json.dumps(node), jobs]  # asked in this order
    with page_server(lambda: answers.pop(0)) as url:
        yield url.removesuffix("/metrics")
