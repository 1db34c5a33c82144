"""Many agents at once: one that hangs or is away costs the others nothing, and old answers are not shown."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.support.bounded_get import NoAnswerError
from ofu_exporter.terminal.agents import (
    LATE_SECONDS,
    MOST_HOSTS,
    POLL_SECONDS,
    Agents,
    Host,
    parse_hosts,
    read_hosts,
    read_node,
)
from tests.helpers.agent import SIMULATED, SOON, agent, page_server, until
from tests.helpers.every import every
from tests.helpers.scenes import shown_node
from tests.helpers.values import FakeClock

SENSELESS = ("1e999", "NaN", "-Infinity", "9" * 9999)
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


def node_with(number: str) -> str:
    """What an agent says of a node without GPUs that was sampled this many seconds ago."""
    node = {**shown_node().model_dump(mode="json"), "gpus": [], "jobs": []}
    return json.dumps({**node, "age_seconds": "AGE"}).replace('"AGE"', number)


def test_numbers_of_any_form_are_read() -> None:
    for number in ("0", "2", "2.5", "1e3", "1E-9"):
        with page_server(lambda number=number: node_with(number)) as url:  # type: ignore[misc]
            assert read_node(url.removesuffix("/metrics")).age_seconds == float(number)


def is_no_answer(body: str) -> None:
    with page_server(lambda: body) as url, pytest.raises(NoAnswerError, match="than /v1/node"):
        read_node(url.removesuffix("/metrics"))


@every(["[]", '{"node": 3}', "{", "[" * 100_000])
def test_an_answer_of_another_shape_is_no_answer(body: str) -> None:
    is_no_answer(body)


@every(SENSELESS)
def test_what_is_no_number_is_no_answer(number: str) -> None:
    is_no_answer(node_with(number))


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
            scene = agents.complete(SOON)
            agents.stop()
    assert [answer.name for answer in scene.answers if answer.node] == ["real"]
    assert [answer.problem for answer in scene.missing] == [
        "does not answer: Connection refused",
        "answers with something other than /v1/node",
        "does not answer: timed out",
    ]


@pytest.mark.slow
def test_what_an_agent_says_is_read() -> None:
    with agent(*SIMULATED) as running:
        until(lambda: running.value("ofu_gpu_up", gpu="0"))
        assert len(read_node(running.url).gpus) == 8


@every(
    [
        ("node[1-3]", "node1 node2 node3"),
        ("node[08-11],m7", "node08 node09 node10 node11 m7"),
        ("r[1-2]n[1,3]", "r1n1 r1n3 r2n1 r2n3"),
        ("a, b\n c", "a b c"),
        ("a,a,b", "a b"),
        ("n[5]", "n5"),
        ("n[1-2,7].example.org", "n1.example.org n2.example.org n7.example.org"),
    ]
)
def test_a_list_names_its_hosts_in_order(text: str, names: str) -> None:
    assert [host.name for host in parse_hosts(text, 9846)] == names.split()


@every(
    [
        ("node1", "http://node1:9846"),
        ("node1:80", "http://node1:80"),
        ("10.0.0.1", "http://10.0.0.1:9846"),
        ("fe80::1", "http://[fe80::1]:9846"),
        ("[fe80::1]:80", "http://[fe80::1]:80"),
        ("[fe80::1]", "http://[fe80::1]:9846"),
        ("https://node1/ofu", "https://node1/ofu"),
        ("unix:/run/a.sock", "unix:/run/a.sock"),
    ]
)
def test_an_item_is_a_name_or_an_address(item: str, url: str) -> None:
    assert [host.url for host in parse_hosts(item, 9846)] == [url]


def test_names_may_be_those_of_agents_with_tls() -> None:
    hosts = parse_hosts("n[1-2],n3:80,fe80::1,http://n4", 9846, "https")
    assert [host.url for host in hosts] == [
        "https://n1:9846",
        "https://n2:9846",
        "https://n3:80",
        "https://[fe80::1]:9846",
        "http://n4",
    ]


def test_a_password_is_sent_and_not_shown() -> None:
    (host,) = parse_hosts("http://ada:secret@node1:9846", 9846)
    assert host == Host("node1:9846", "http://ada:secret@node1:9846")


@every(["", " , ", "node[", "node]", "node[a]", "node[3-1]", "node[1-2", "n[]", "n[1--2]"])
def test_what_names_no_host_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_hosts(text, 9846)


@every(["n[1-999999999]", "n[1-9][1-9][1-9][1-9]", "n[0-1024]"])
def test_more_hosts_than_can_be_asked_are_refused_at_once(text: str) -> None:
    with pytest.raises(ConfigError, match=f"over {MOST_HOSTS} hosts"):
        parse_hosts(text, 9846)


def test_a_file_lists_hosts_with_comments(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# rack 1\nnode[1-2]  # two\n\nhttps://far:1\n")
    assert [host.name for host in read_hosts(file, 9846)] == ["node1", "node2", "far:1"]


@pytest.mark.parametrize("content", [None, b"", b"# none\n", b"\xff", b"node["])
def test_a_file_without_hosts_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "hosts"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="hosts"):
        read_hosts(file, 9846)
