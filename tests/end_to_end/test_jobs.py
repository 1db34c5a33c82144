"""Jobs as the running agent sees them: from a job file to the page, the API and the state file."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from ofu_exporter.jobs.state_rows import find_in_file
from ofu_exporter.jobs.summary import summary_text
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.values.job import Job
from tests.helpers.agent import Agent, agent, until
from tests.helpers.job_node import SYNC, WINDOW, Node, seconds
from tests.helpers.post import post


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def report(running: Agent, job_id: str = "7") -> JobTotals:
    return JobTotals.model_validate_json(running.get(f"/v1/jobs/{job_id}")[1])


def test_a_job_comes_and_goes(node: Node) -> None:
    with agent(*node.flags()) as running:
        node.start("7", "0", "1")
        until(lambda: seconds(running) > 4 * WINDOW)
        assert running.value("ofu_job_info", job_id="7", user="ada", scheduler="slurm") == 1
        assert sorted(running.values("ofu_gpu_info", job_id="7")) == [1, 1]
        assert "llama" in running.get("/")[1]
        node.stop("7")
        until(lambda: report(running).ended)
        assert running.values("ofu_gpu_info", job_id="7") == []
        ended = report(running)
        assert ended.simulated
        assert ended.observed_ratio is not None
        assert [gpu.gpu for gpu in ended.gpus] == ["0", "1"]
        until(lambda: report(running).gpu_seconds == pytest.approx(seconds(running)))
        listed = json.loads(running.get("/v1/jobs")[1])
        assert [job["job_id"] for job in listed] == ["7"]


def test_a_job_nobody_knows_is_named(node: Node) -> None:
    with agent(*node.flags()) as running:
        status, body = running.get("/v1/jobs/no%20such")
        assert status == 404
        assert "'no such'" in json.loads(body)["detail"]


def test_totals_go_on_over_a_restart_and_the_gap_was_held(node: Node) -> None:
    node.start("7", "0", "1")
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > 4 * WINDOW)
        before = seconds(running)
        assert running.stop() == 0
    stopped = time.time()
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > before)
        after = report(running)
        assert after.gpu_seconds <= before + 2 * (time.time() - stopped) + 2 * 2 * WINDOW
        held = sum(gpu.held_seconds for gpu in after.gpus)
        assert held >= after.gpu_seconds


def test_at_most_one_sync_is_lost_when_it_is_killed(node: Node) -> None:
    node.start("7", "0", "1")
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > 8 * SYNC)
        before = seconds(running)
        running.kill()
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > 0)
        assert seconds(running) >= before - 2 * (SYNC + 2 * WINDOW)


def test_no_counter_of_a_job_falls_when_it_is_killed(node: Node) -> None:
    """To Prometheus a counter that falls by a second has begun anew, and all of it would count twice."""
    node.start("7", "0", "1")
    with agent(*node.flags(), "--state-interval", "1h") as running:
        until(lambda: seconds(running) > 8 * WINDOW)
        scraped = seconds(running)
        until(lambda: written(node) >= scraped)
        running.kill()
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > 0)
        assert seconds(running) >= scraped


def written(node: Node) -> float:
    return sum(job.gpu_seconds for job in find_in_file(node.state, "7"))


def test_a_job_that_ended_while_the_agent_was_away_is_remembered_and_not_shown(node: Node) -> None:
    node.start("7", "0")
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > 2 * WINDOW)
        running.stop()
    node.stop("7")
    with agent(*node.flags()) as running:
        until(lambda: running.value("ofu_gpu_up", gpu="0") == 1)
        assert running.values("ofu_job_gpu_seconds_total") == []
        assert report(running).ended is not None


def held(job: JobTotals) -> float:
    return sum(gpu.held_seconds for gpu in job.gpus)


def test_jobs_that_ended_while_the_agent_was_away_are_told_with_what_they_held(node: Node) -> None:
    """One was watched before, the other came and went meanwhile."""
    began = time.time()
    node.start("7", "0", "1")
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > 4 * WINDOW)
        running.stop()
    left = time.time()
    time.sleep(1.0)
    node.start("8", "2")
    time.sleep(2.0)
    node.end("7")
    node.end("8")
    ended = time.time()
    with agent(*node.flags()) as running:
        until(lambda: running.value("ofu_job_held_gpu_seconds_total", job_id="8"))
        assert running.logs("no agent ran on this node for")
        seven, eight = report(running), report(running, "8")
        assert 2 * (ended - left - 1.0) < held(seven) <= 2 * (ended - began + 1.0)
        assert seven.observed_ratio is not None
        assert seven.observed_ratio < 0.8
        assert eight.observed_ratio == 0.0
        assert 1.0 <= held(eight) <= ended - left + 1.0
        assert running.value("ofu_job_gpu_seconds_total", job_id="8") == 0.0
        before = held(seven)
        running.stop()
    with agent(*node.flags()) as running:
        until(lambda: running.value("ofu_gpu_up", gpu="0") == 1)
        assert held(report(running)) == before, "the next agent counts it no second time"


def test_the_framework_that_a_job_reported_is_known_after_a_restart(node: Node) -> None:
    """Also where an older agent, which did not write it down, had the file in between."""
    node.start("7", "0", "1")
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > 2 * WINDOW)
        assert post(running, {"job_id": "7", "mfu": 0.1, "framework": "NeMo 2.1"}).status == 200
        until(lambda: running.value("ofu_job_info", job_id="7", framework="nemo"))
        running.stop()
    with agent(*node.flags()) as running:
        until(lambda: running.value("ofu_job_info", job_id="7") is not None)
        assert running.value("ofu_job_info", job_id="7", framework="nemo") == 1
        reported = report(running).reported
        assert reported is not None
        assert reported.framework == "nemo"
        running.stop()
    with closing(sqlite3.connect(node.state)) as db, db:
        db.execute("UPDATE jobs SET report = json_remove(report, '$.reported.framework')")
    with agent(*node.flags()) as running:
        until(lambda: running.value("ofu_job_info", job_id="7") is not None)
        assert running.value("ofu_job_info", job_id="7", framework="") == 1
        assert post(running, {"job_id": "7", "framework": "NeMo 2.1"}).status == 200
        until(lambda: running.value("ofu_job_info", job_id="7", framework="nemo"))


def test_two_jobs_claiming_one_gpu_harm_no_third(node: Node) -> None:
    with agent(*node.flags()) as running:
        node.start("7", "0")
        node.start("8", "0")
        node.start("9", "1")
        until(lambda: seconds(running, "9") > 2 * WINDOW)
        assert len(running.values("ofu_gpu_shared", gpu="0")) == 2
        assert seconds(running, "7") == seconds(running, "8") == 0.0
        rejected = running.value("ofu_exporter_scheduler_rejected_total", reason="contested")
        assert rejected == 1
        assert running.logs("is held by several jobs (7, 8): its OFU is credited to none")


def test_a_gpu_that_is_not_here_is_named(node: Node) -> None:
    with agent(*node.flags()) as running:
        node.start("7", "0", "GPU-elsewhere")
        until(lambda: seconds(running) > 2 * WINDOW)
        assert running.logs("job 7 holds 'GPU-elsewhere', which is not a GPU measured here")


def test_a_damaged_state_file_is_set_aside_and_nothing_else_happens(node: Node) -> None:
    node.state.write_bytes(b"not a database at all, and long enough to be looked at" * 100)
    node.start("7", "0")
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > 2 * WINDOW)
        assert running.value("ofu_exporter_state_files_set_aside_total") == 1
        assert list(node.state.parent.glob("state.sqlite.damaged-*"))


def test_a_requeued_job_goes_on_and_its_runs_are_shown(node: Node) -> None:
    """Its second run begins on another GPU, and the agent is restarted between its second and its third."""
    node.start("7", "0", "1")
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > 4 * WINDOW)
        node.stop("7")
        until(lambda: report(running).ended)
        first = seconds(running)
        ended = time.time()
        until(lambda: time.time() >= ended + 1.1)  # a run is known by the second of its start
        node.start("7", "2")
        started = time.time()
        until(lambda: report(running).ended is None)
        assert seconds(running) >= first
        until(lambda: seconds(running) > first + 2 * WINDOW)
        node.stop("7")
        until(lambda: report(running).ended)
        second = seconds(running)
        assert running.stop() == 0
    with agent(*node.flags()) as running:
        until(lambda: running.value("ofu_job_gpu_seconds_total", job_id="7"))
        assert seconds(running) == pytest.approx(second), "its series has not ended"
        until(lambda: time.time() >= started + 1.1)
        node.start("7", "3")
        until(lambda: seconds(running) > second + 2 * WINDOW)
        (listed,) = json.loads(running.get("/v1/jobs")[1])
        runs = listed["runs"]
        assert [run["ended"] is None for run in runs] == [False, False, True]
        assert len({run["uid"] for run in runs}) == 3
        assert runs[0]["began"] < runs[0]["ended"] < runs[1]["began"] < runs[1]["ended"]
        assert runs[0]["observed_seconds"] == pytest.approx(first)
        assert runs[1]["observed_seconds"] == pytest.approx(second - first)
        assert sum(run["observed_seconds"] for run in runs) == pytest.approx(listed["gpu_seconds"])
        assert {gpu["gpu"] for gpu in listed["gpus"]} == {"0", "1", "2", "3"}
        assert summary_text(report(running)).count("run since") == 3


def test_an_id_that_another_user_gets_is_another_record(tmp_path: Path) -> None:
    """As after a controller lost its state: on the page, in the API and in the state file."""
    node = Node(tmp_path)
    with agent(*node.flags()) as running:
        node.note(Job("slurm", "7", user="ada"), "0", "1")
        until(lambda: seconds(running) > 2.0)
        node.end("7")
        until(lambda: not running.values("ofu_gpu_info", job_id="7"))
        adas = seconds(running)
        node.note(Job("slurm", "7", user="bob"), "1")
        until(lambda: running.value("ofu_job_info", job_id="7", user="bob"))
        until(lambda: 0.5 < seconds(running) < adas)
        assert running.value("ofu_job_info", job_id="7", user="ada") is None
        job = json.loads(running.get("/v1/jobs/7")[1])
        assert (job["user"], len(job["runs"]), len(job["gpus"])) == ("bob", 1, 1)
    both = find_in_file(node.state, "7")
    assert [record.user for record in both] == ["ada", "bob"]
    assert both[0].gpu_seconds == pytest.approx(adas)
