"""Without an id, `job show` lists the jobs of the agent, or of its file."""

from __future__ import annotations

import json

import pytest

from ofu_exporter.values.job import Job
from tests.helpers.agent import Agent, agent, until
from tests.helpers.in_process import call
from tests.helpers.job_node import WINDOW, Node, seconds

pytestmark = pytest.mark.slow


def test_without_an_id_the_jobs_are_listed(node: Node, running: Agent) -> None:
    node.note(Job("slurm", "85", user="bob", array_job_id="81", array_task_id="4"), "2")
    until(lambda: seconds(running, "85") > WINDOW)
    heads, *lines = call("job", "show", "--agent", running.url).stdout.splitlines()
    assert heads.split() == ["JOB", "NAME", "USER", "STATE", "GPUs", "OFU", "GPU-HOURS"]
    assert [line.split()[0] for line in lines] == ["7", "85"]
    assert lines[0].split()[1:5] == ["llama", "ada", "running", "2"]
    assert lines[1].split()[1:5] == ["(81_4)", "bob", "running", "1"]
    as_json = call("job", "show", "--agent", running.url, "--format", "json").stdout
    assert [(row["job_id"], row["gpu_count"]) for row in json.loads(as_json)] == [
        ("7", 2),
        ("85", 1),
    ]
    running.stop()
    away = ("--agent", "http://127.0.0.1:9")
    filed = call("job", "show", *away, "--state-file", str(node.state)).stdout.splitlines()
    assert {line.split()[0] for line in filed[1:]} == {"7", "85"}
    missing = call("job", "show", *away)
    assert missing.returncode == 3
    assert "--state-file FILE lists the jobs of its state file" in missing.stderr
    none = call("job", "show", *away, "--state-file", "/nowhere")
    assert (none.returncode, "/nowhere" in none.stderr) == (3, True)


def test_no_jobs_are_said_to_be_none(node: Node) -> None:
    with agent(*node.flags()) as running:
        until(lambda: running.values("ofu_gpu_utilization_ratio"))
        done = call("job", "show", "--agent", running.url)
    assert done.stdout == "No job holds a GPU here, or has ended in the last five minutes\n"
