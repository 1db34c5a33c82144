"""`job stop`, `job show` and `job gather`: what a job's GPUs did, from the agent or from its file."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.values.job import Job
from tests.helpers.agent import Agent, agent, page_server, until
from tests.helpers.in_process import call
from tests.helpers.job_node import WINDOW, Node, seconds
from tests.helpers.quiet_server import QuietHandler, answering
from tests.helpers.stranger import UID, stranger

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
    first, second, *_ = (done.stdout or done.stderr).splitlines()
    assert first == "Job 7, name llama, user ada (ended) SIMULATED, no GPU was measured"
    assert second.startswith("OFU ")
    assert "2 GPUs on" in second


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://", "nonsense", "file:///etc/passwd"])
def test_an_agent_that_is_away_costs_the_epilog_a_line(node: Node, url: str) -> None:
    node.start("7", "0")
    done = stop(node, url)
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ofu-exporter: the agent does not answer: ")
    assert "`ofu-exporter job show` tells later" in line
    assert not list(node.jobs.glob("*.json"))


def test_so_does_one_that_hangs_after_a_while(node: Node) -> None:
    node.start("7", "0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = stop(node, f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert (done.returncode, done.stdout) == (0, "")
        assert "the agent does not answer: timed out" in done.stderr


def test_so_does_one_that_does_not_see_the_end_in_time(node: Node, running: Agent) -> None:
    """As on a node without a free core. Here another directory is the one whose job ends."""
    other = Node(node.jobs.parent / "other")
    other.start("7", "0")
    done = stop(other, running.url)
    assert (done.returncode, done.stdout) == (0, "")
    assert "the agent has not noticed the job's end in time" in done.stderr


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


# Another user, or a bad server, where the agent should be.


@contextlib.contextmanager
def dripping() -> Iterator[str]:
    """Sends a byte of its headers every tenth of a second, without end."""

    def drip(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while True:
                connection.sendall(b"H")
                time.sleep(0.1)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=drip, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_an_agent_that_drips_holds_up_nobody(node: Node) -> None:
    """`call` waits for 20 s; the headers would go on for hours."""
    node.start("7", "0")
    with dripping() as url:
        port = url.rpartition(":")[2]
        assert "timed out" in call("job", "show", "7", "--agent", url).stderr
        gathered = call("job", "gather", "7", "--nodes", "127.0.0.1", "--port", port)
        assert "timed out" in gathered.stderr
        done = stop(node, url)
        assert (done.returncode, done.stdout) == (0, "")
        assert "the agent does not answer: timed out" in done.stderr


def test_another_users_words_come_neither_into_the_epilog_nor_onto_the_terminal(node: Node) -> None:
    node.start("7", "0")
    with stranger() as other:
        done = stop(node, other.url)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith(f"ofu-exporter: user {UID} has taken port {other.port}")
        shown = call("job", "show", "7", "--agent", other.url)
        assert shown.returncode != 0
        assert f"user {UID} has taken port" in shown.stderr
        assert "forged" not in done.stderr + shown.stderr
        assert "GET" not in other.heard(), "it was not even asked"


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
