"""Many agents at once: one that hangs or is away costs the others nothing, and old answers are not shown."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from ofu_exporter.jobs.hosts import Host
from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.support.bounded_get import NoAnswerError
from ofu_exporter.terminal.agents import LATE_SECONDS, POLL_SECONDS, Agents
from tests.helpers.agent import SIMULATED, SOON, agent, page_server, until
from tests.helpers.scenes import shown_node
from tests.helpers.values import FakeClock

pytestmark = pytest.mark.xdist_group("shown node")

NAMES = [Host(name, f"http://{name}:1") for name in ("a", "b", "c")]


def watched(read: Callable[[str], NodeJson], clock: FakeClock | None = None) -> Agents:
    shown_node()  # made once, and not by each thread when it is asked
    agents = Agents(NAMES, read, clock or FakeClock())
    agents.start()
    return agents


@pytest.mark.slow
def test_a_node_that_hangs_costs_the_others_nothing() -> None:
    hang = threading.Event()

    def read(url: str) -> NodeJson:
        if "//b" in url:
            hang.wait(SOON)
        return shown_node()

    agents = watched(read)
    try:
        until(lambda: len(agents.scene().nodes) == 2)
        (missing,) = agents.scene().missing
        assert (missing.name, missing.problem) == ("b", "")
    finally:
        hang.set()
        agents.stop()


def test_a_node_that_fails_has_a_sentence_and_costs_the_others_nothing() -> None:
    def read(url: str) -> NodeJson:
        if "//b" in url:
            raise NoAnswerError("does not answer: timed out")
        if "//c" in url:
            raise RuntimeError("a surprise")
        return shown_node()

    agents = watched(read)
    scene = agents.complete(SOON)
    agents.stop()
    assert [answer.name for answer in scene.answers if answer.node] == ["a"]
    assert [answer.problem for answer in scene.missing] == [
        "does not answer: timed out",
        "cannot be asked: RuntimeError",
    ]


def test_an_answer_that_is_too_old_is_no_answer() -> None:
    clock, hang, asked = FakeClock(), threading.Event(), threading.Semaphore(0)

    def read(url: str) -> NodeJson:
        if asked.acquire(blocking=False):
            hang.wait(SOON)
        return shown_node()

    agents = watched(read, clock)
    try:
        assert len(agents.complete(SOON).nodes) == 3
        clock.now += POLL_SECONDS + LATE_SECONDS
        assert len(agents.scene().nodes) == 3
        age = agents.scene().answers[0].age
        assert age == pytest.approx(shown_node().age_seconds + POLL_SECONDS + LATE_SECONDS)
        for _ in range(9):
            asked.release()
        clock.now += 1.0
        assert agents.scene().nodes == []
        assert "has not answered for 13 s" in agents.scene().missing[0].problem
    finally:
        hang.set()
        agents.stop()


def test_a_node_comes_back_when_it_answers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ofu_exporter.terminal.agents.PATIENCE", (0.01, 0.02))
    is_away = threading.Event()
    is_away.set()

    def read(url: str) -> NodeJson:
        if is_away.is_set():
            raise NoAnswerError("does not answer")
        return shown_node()

    agents = watched(read)
    assert agents.complete(SOON).nodes == []
    is_away.clear()
    until(lambda: len(agents.scene().nodes) == 3)
    agents.stop()


@pytest.mark.slow
def test_real_agents_a_closed_port_and_another_program() -> None:
    with agent(*SIMULATED) as running, page_server(lambda: "<p>other</p>", "text/html") as other:
        until(lambda: running.value("ofu_gpu_up", gpu="0"))
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            hosts = [
                Host("real", running.url),
                Host("closed", "http://127.0.0.1:1"),
                Host("other", other.removesuffix("/metrics")),
                Host("silent", f"http://127.0.0.1:{silent.getsockname()[1]}"),
            ]
            agents = Agents(hosts)
            agents.start()
            until(lambda: agents.complete(SOON).nodes)  # a slow machine's first answer may be late
            scene = agents.complete(SOON)
            agents.stop()
    assert [answer.name for answer in scene.answers if answer.node] == ["real"]
    assert [answer.problem for answer in scene.missing] == [
        "does not answer: Connection refused",
        "answers with something other than /v1/node",
        "does not answer: timed out",
    ]
