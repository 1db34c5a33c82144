"""`job stop`, `job show` and `job gather`: what a job's GPUs did, from the agent or from its file."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.agent import Agent, agent, call, until
from tests.helpers.job_node import WINDOW, Node, seconds

pytestmark = pytest.mark.slow


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def running(node: Node) -> Iterator[Agent]:
    """An agent that has observed job 7 for a while."""
    node.start("7", "0", "1")
    with agent(*node.flags()) as started:
        until(lambda: seconds(started) > 4 * WINDOW)
        yield started


def stop(node: Node, url: str) -> subprocess.CompletedProcess[str]:
    return call(
        *("job", "stop", "--no-ask", "--job-id", "7"),
        *("--job-dir", str(node.jobs), "--agent", url),
    )


def test_the_epilog_says_what_the_job_did(node: Node, running: Agent) -> None:
    done = stop(node, running.url)
    assert done.returncode == 0
    first, second, *_ = done.stdout.splitlines()
    assert first == "Job 7, name llama, user ada (ended) SIMULATED, no GPU was measured"
    assert second.startswith("OFU ")
    assert "had 2 GPUs on" in second


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://", "nonsense", "file:///etc/passwd"])
def test_an_agent_that_is_away_costs_the_epilog_nothing(node: Node, url: str) -> None:
    node.start("7", "0")
    done = stop(node, url)
    assert (done.returncode, done.stdout) == (0, "")
    assert not list(node.jobs.glob("*.json"))


def test_an_agent_that_does_not_answer_is_not_waited_for(node: Node) -> None:
    node.start("7", "0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = stop(node, f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert (done.returncode, done.stdout) == (0, "")


def test_a_job_is_shown_while_it_runs(running: Agent) -> None:
    done = call("job", "show", "7", "--agent", running.url)
    assert done.returncode == 0
    assert done.stdout.startswith("Job 7, name llama, user ada (running) SIMULATED")


def test_a_job_is_shown_as_json(running: Agent) -> None:
    done = call("job", "show", "7", "--agent", running.url, "--json")
    assert json.loads(done.stdout)["job_id"] == "7"


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
    assert f"the agent at {running.url} knows nothing of it" in done.stderr
    assert "no --state-file was given" in done.stderr


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


@pytest.mark.parametrize("arguments", [[], ["7"], ["7", "--running"], ["--nodes", "a"]])
def test_what_is_asked_for_must_be_clear(arguments: list[str]) -> None:
    done = call("job", "gather", *arguments, "--slurm-bin", "/usr/bin")
    assert done.returncode in {2, 3}
    assert done.stderr
