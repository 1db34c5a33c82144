"""`fleet report --hosts` on three real agents, one of them killed: their totals, and what a state file remembers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.fleet.reports.job_rows import unix
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.jobs.clock_mark import ClockMark
from ofu_exporter.jobs.gpu_totals import GpuTotals
from ofu_exporter.jobs.kept_served import KeptServed
from ofu_exporter.jobs.state_file import open_store
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.support.boot import boot_id, uptime
from tests.fleet.changes.test_text import report as changes_of
from tests.helpers.agent import Agent, agent, until
from tests.helpers.in_process import call

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


def test_changes_that_were_found_before_go_with_a_server_alone(tmp_path: Path) -> None:
    file = tmp_path / "changes.json"
    file.write_text(changes_of([], []).model_dump_json())
    done = call("fleet", "report", "--hosts", "a", "--changes", str(file))
    assert done.returncode == 2
    assert "--changes goes with --prometheus" in done.stderr
