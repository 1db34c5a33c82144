"""A job's totals from many nodes, of which some answer late, wrongly or not at all."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator

from ofu_exporter.jobs.gather import NodeAgents, NodeAnswer, ask_agent, gather
from ofu_exporter.jobs.totals import JobTotals, merged
from ofu_exporter.support.bounded_get import PROBLEMS
from tests.helpers.every import every
from tests.helpers.quiet_server import QuietHandler, QuietServer, answering

JOB = JobTotals(scheduler="slurm", job_id="7", nodes=("n",), began=1.0, updated=2.0, ended=2.0)

"""What an agent answers that does not weigh MIG instances."""

Answer = Callable[[], tuple[int, bytes]]


def known(job: JobTotals = JOB) -> Answer:
    return lambda: (200, job.model_dump_json().encode())


def unknown() -> tuple[int, bytes]:
    return 404, json.dumps({"detail": "no job '7' is known on this node"}).encode()


def ending_at(length: int) -> bytes:
    """An agent's own 404 whose telling words end after a number of bytes."""
    return unknown()[1].removesuffix(b'"}').rjust(length)


@contextlib.contextmanager
def nodes(**answers: Answer) -> Iterator[tuple[list[str], int, dict[str, str]]]:
    """Agents on addresses of their own and one port; gives addresses, port and address by name."""
    with contextlib.ExitStack() as stack:
        port, addresses = 0, {}
        for number, (name, answer) in enumerate(answers.items(), start=2):
            address = f"127.0.0.{number}"
            server = stack.enter_context(_server(address, port, answer))
            port = server.server_port
            addresses[name] = address
        yield list(addresses.values()), port, addresses


@contextlib.contextmanager
def _server(address: str, port: int, answer: Answer) -> Iterator[QuietServer]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            assert self.requestline == "GET /v1/jobs/7 HTTP/1.1"  # as it was sent
            assert self.headers["Accept"] == "application/json"
            host = f"[{address}]" if ":" in address else address
            assert self.headers["Host"] == f"{host}:{server.server_port}"
            status, body = answer()
            self.reply(body, status)

    with answering(Handler, (address, port)) as server:
        yield server


def test_every_node_adds_its_part() -> None:
    with nodes(a=known(), b=known(JOB.model_copy(update={"nodes": ("m",)}))) as (hosts, port, _):
        found = gather(hosts, NodeAgents(port), "7", wait=0.0)
    assert merged(found.totals).nodes == ("n", "m")
    assert not found.problems


def test_a_node_that_remembers_another_users_job_of_the_id_adds_nothing() -> None:
    now = JOB.model_copy(update={"user": "ada", "updated": 9.0, "nodes": ("m",)})
    before, nobody = (JOB.model_copy(update={"user": user}) for user in ("bob", ""))
    with nodes(a=known(before), b=known(now), c=known(nobody)) as (hosts, port, by_name):
        found = gather(hosts, NodeAgents(port), "7", wait=0.0)
    assert found.totals == (now, nobody)
    assert found.problems == {by_name["a"]: "knows only another user's job of this id"}


def test_a_node_named_twice_counts_once() -> None:
    asked: list[int] = []

    def answer() -> tuple[int, bytes]:
        asked.append(1)
        return known()()

    with nodes(a=answer) as (hosts, port, _):
        assert len(gather(hosts * 3, NodeAgents(port), "7", wait=0.0).totals) == 1
    assert len(asked) == 1


def test_a_job_that_has_not_ended_everywhere_is_waited_for() -> None:
    asked = threading.Semaphore(2)

    def ends_at_last() -> tuple[int, bytes]:
        running = asked.acquire(blocking=False)
        return known(JOB.model_copy(update={"ended": None if running else 9.0}))()

    with nodes(a=known(), b=ends_at_last) as (hosts, port, _):
        found = gather(hosts, NodeAgents(port), "7", wait=30.0)
    assert merged(found.totals).ended == 9.0


def test_a_node_whose_agent_is_away_for_a_moment_is_asked_again() -> None:
    away = threading.Semaphore(1)

    def answer() -> tuple[int, bytes]:
        if away.acquire(blocking=False):
            raise ConnectionAbortedError
        return known()()

    with nodes(a=known(), b=answer) as (hosts, port, _):
        found = gather(hosts, NodeAgents(port), "7", wait=30.0)
    assert (len(found.totals), found.problems) == (2, {})


def test_for_a_job_without_a_gpu_no_node_is_asked_again() -> None:
    asked = []

    def answer() -> tuple[int, bytes]:
        asked.append(1)
        raise ConnectionAbortedError

    with nodes(a=unknown, b=answer) as (hosts, port, _):
        assert not gather(hosts, NodeAgents(port), "7", wait=30.0).totals
    assert len(asked) == 1


def test_a_job_that_does_not_end_is_waited_for_no_longer_than_asked() -> None:
    asked = []

    def never_ends() -> tuple[int, bytes]:
        asked.append(1)
        return known(JOB.model_copy(update={"ended": None}))()

    with nodes(a=never_ends) as (hosts, port, _):
        found = gather(hosts, NodeAgents(port), "7", wait=0.1)
        assert len(asked) == 1, "the next question would come too late"
        gather(hosts, NodeAgents(port), "7", wait=1.2)
        assert 2 <= len(asked) <= 4, "a node is not asked without a pause"
    assert merged(found.totals).ended is None


@every(
    [
        (unknown, "knows nothing of the job"),
        (lambda: (401, b""), PROBLEMS[401]),
        (lambda: (404, b"Not Found"), "answers 404"),
        (lambda: (500, b""), "answers 500"),
        (lambda: (200, b"<html>"), "answers with something other than a job's totals"),
        (lambda: (200, b"[" * 100_000), "answers with something other than a job's totals"),
        (
            lambda: (200, b" " * (5 << 20) + JOB.model_dump_json().encode()),
            "answers with something other than a job's totals",
        ),
        (lambda: (404, ending_at(4096)), "knows nothing of the job"),
        (lambda: (404, ending_at(4097)), "answers 404"),
    ]
)
def test_a_node_that_does_not_help_is_named_and_costs_no_other(
    answer: Answer, problem: str
) -> None:
    with nodes(a=known(), b=answer) as (hosts, port, by_name):
        found = gather(hosts, NodeAgents(port), "7", wait=0.0)
    assert len(found.totals) == 1
    assert found.problems == {by_name["b"]: problem}


def test_a_node_that_is_away_is_named() -> None:
    with nodes(a=known()) as (hosts, port, _):
        found = gather([*hosts, "127.0.0.99", "no such host"], NodeAgents(port), "7", wait=0.0)
    assert len(found.totals) == 1
    assert set(found.problems) == {"127.0.0.99", "no such host"}
    assert found.problems["127.0.0.99"] == "does not answer: Connection refused"


def test_a_node_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        agent = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert ask_agent(agent, "7", seconds=0.2) == NodeAnswer(None, "does not answer: timed out")


def test_a_node_that_hangs_up_is_named() -> None:
    def hang_up() -> None:
        with server.accept()[0] as connection:
            connection.recv(65536)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=hang_up)
        thread.start()
        answer = ask_agent(f"http://127.0.0.1:{server.getsockname()[1]}", "7")
        thread.join()
    why = "does not answer: Remote end closed connection without response"
    assert answer == NodeAnswer(None, why)


def test_the_address_of_an_agent_may_end_in_a_slash() -> None:
    with nodes(a=known()) as ((host,), port, _):
        assert ask_agent(f"http://{host}:{port}/", "7").totals == JOB


def test_a_node_may_be_named_by_its_ipv6_address() -> None:
    with _server("::1", 0, known()) as server:
        assert gather(["::1"], NodeAgents(server.server_port), "7", wait=0.0).totals == (JOB,)
