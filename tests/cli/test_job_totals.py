"""`job show` and `job gather`: what a job's GPUs did, from the agent or from its file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.values.job import Job
from tests.helpers.agent import Agent, page_server, until
from tests.helpers.in_process import call
from tests.helpers.job_node import WINDOW, Node, seconds
from tests.helpers.quiet_server import QuietHandler, answering

pytestmark = pytest.mark.slow


def test_a_job_is_shown_while_it_runs(running: Agent) -> None:
    done = call("job", "show", "7", "--agent", running.url)
    assert done.returncode == 0
    assert done.stdout.startswith("Job 7, name llama, user ada (running) SIMULATED")


def test_a_job_is_shown_as_json(running: Agent) -> None:
    done = call("job", "show", "7", "--agent", running.url, "--format", "json")
    assert json.loads(done.stdout)["job_id"] == "7"


def test_a_job_is_shown_as_csv_with_a_row_for_each_gpu(running: Agent) -> None:
    done = call("job", "show", "7", "--format", "csv", env={"OFU_AGENT": running.url})
    rows = [*csv.DictReader(io.StringIO(done.stdout))]
    assert {row["job_id"] for row in rows} == {"7"}
    as_json = call("job", "show", "7", "--agent", running.url, "--format", "json")
    assert len(rows) == len(json.loads(as_json.stdout)["gpus"]) > 0


def test_a_job_is_shown_from_the_file_where_the_agent_is_away(node: Node, running: Agent) -> None:
    running.stop()
    where = ("--agent", "http://127.0.0.1:9", "--state-file", str(node.state))
    done = call("job", "show", "7", *where)
    assert done.returncode == 0
    assert "OFU of its windows" in done.stdout
    missing = call("job", "show", "8", *where)
    assert missing.returncode == 3
    assert f"{node.state} knows nothing of it" in missing.stderr


def test_who_was_asked_in_vain_is_said(running: Agent) -> None:
    done = call("job", "show", "8", "--agent", running.url)
    assert done.returncode == 3
    said = f"job 8: the agent at {running.url} knows no such job: it held no GPU there, or ended"
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_task_and_a_part_are_shown_by_the_names_that_slurm_gives_them(
    node: Node, running: Agent
) -> None:
    """While they run, after their end, and from the file where the agent is away."""
    node.note(Job("slurm", "85", array_job_id="81", array_task_id="4"), "2")
    node.note(Job("slurm", "9", aliases=("8+1",)), "3")
    until(lambda: min(seconds(running, "85"), seconds(running, "9")) > WINDOW)
    where = ("--agent", running.url, "--state-file", str(node.state))
    for name, job_id in (("81_4", "85"), ("8+1", "9")):
        assert call("job", "show", name, *where).stdout.startswith(f"Job {job_id}")
        node.end(job_id)
    until(lambda: not running.values("ofu_gpu_info", job_id="9"))
    assert call("job", "show", "8+1", *where).stdout.startswith("Job 9")
    running.stop()
    assert call("job", "show", "81_4", *where).stdout.startswith("Job 85")


def test_the_totals_of_a_job_on_its_nodes_are_one_line(running: Agent) -> None:
    port = running.url.rpartition(":")[2]
    done = call("job", "gather", "7", "--nodes", "127.0.0.1,127.0.0.9", "--port", port)
    assert done.returncode == 0
    assert done.stdout.startswith("job 7: ofu=")
    assert "nodes=1/2" in done.stdout
    assert "127.0.0.9" in done.stderr


def test_a_job_that_no_node_knows_is_an_error(running: Agent) -> None:
    port = running.url.rpartition(":")[2]
    done = call("job", "gather", "8", "--nodes", "127.0.0.1", "--port", port)
    assert done.returncode == 3
    assert "no node knows its totals" in done.stderr


def test_of_the_jobs_that_run_one_that_fails_costs_no_other(running: Agent, tmp_path: Path) -> None:
    """squeue fills each column (four of requests) with blanks to the width that --Format gives it."""
    squeue = tmp_path / "squeue"
    rows = "printf '%-32s%-1024s\\n' 8 gres/gpu:1 6 N/A 7 gres/gpu:1"
    nodes = "printf '%s|127.0.0.1\\n' 8 6 7"
    squeue.write_text(f"#!/bin/sh\ncase $* in *--Format=*) {rows} ;; *) {nodes} ;; esac\n")
    squeue.chmod(0o755)
    port = running.url.rpartition(":")[2]
    done = call("job", "gather", "--running", "--port", port, "--slurm-bin", str(tmp_path))
    assert done.returncode == 0
    assert [line[:11] for line in done.stdout.splitlines()] == ["job 7: ofu="]
    assert "ofu-exporter: job 8: no node knows its totals" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["7"], ["7", "--running"], ["--nodes", "a"]])
def test_what_is_asked_for_must_be_clear(arguments: list[str]) -> None:
    done = call("job", "gather", *arguments, "--slurm-bin", "/usr/bin")
    assert done.returncode in {2, 3}
    assert done.stderr


# Another user, or a bad server, where the agent should be.


def test_names_in_an_answer_cannot_command_the_terminal() -> None:
    totals = JobTotals(
        scheduler="slurm",
        job_id="7",
        job_name="x\x1b[2J\nforged line\x9b",
        nodes=("n\u202e",),
        began=1.0,
        updated=2.0,
        ended=2.0,
    )
    with page_server(totals.model_dump_json, "application/json") as url:
        agent_url = url.removesuffix("/metrics")
        shown = call("job", "show", "7", "--agent", agent_url).stdout
        as_json = call("job", "show", "7", "--agent", agent_url, "--format", "json").stdout
    assert "name x\\x1b[2J\\nforged line\\x9b" in shown
    assert all(line.isprintable() for line in (*shown.split("\n"), *as_json.split("\n")))
    assert json.loads(as_json)["job_name"] == totals.job_name


def test_a_redirect_is_not_followed(running: Agent) -> None:
    class Moved(QuietHandler):
        def do_GET(self) -> None:
            self.reply(status=302, headers={"Location": running.url + self.path})

    with answering(Moved) as server:
        shown = call("job", "show", "7", "--agent", server.url)
    assert "answers 302" in shown.stderr
