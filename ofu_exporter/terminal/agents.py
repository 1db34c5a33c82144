"""Asks the agents of many nodes, each on a thread of its own, so that a slow or dead node does not delay the others."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ofu_exporter.errors import OfuError
from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.support.json_answer import ask
from ofu_exporter.terminal.agent_access import AgentAccess
from ofu_exporter.terminal.hosts import Host
from ofu_exporter.terminal.scene import Scene, SceneAnswer

PATH = "/v1/node"
POLL_SECONDS = 2.0
HOSTS_PER_SECOND = 50
"""Most requests per second. If there are more nodes, each is asked less often."""
PATIENCE = (5.0, 30.0)
"""First and longest pause before a node that does not answer is asked again."""
LATE_SECONDS = 10.0
"""How long an answer is still shown after the next one was due."""


class _Heard(NamedTuple):
    """The last answer of a node, and when it came."""

    node: NodeJson | None
    problem: str
    at: float


class Agents:
    def __init__(
        self,
        hosts: Sequence[Host],
        read: Callable[[str], NodeJson] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`read` asks an agent by its URL."""
        self._hosts = hosts
        self._read = read or read_node
        self._clock = clock
        self._interval = max(POLL_SECONDS, len(hosts) / HOSTS_PER_SECOND)
        self._heard: dict[Host, _Heard] = {}
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(host,), name="ofu-top", daemon=True)
            for host in hosts
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def scene(self) -> Scene:
        now = self._clock()
        answers = tuple(self._answer(host, now) for host in self._hosts)
        return Scene(answers, "its agent" if len(self._hosts) == 1 else "their agents")

    def complete(self, seconds: float) -> Scene:
        with self._news:
            self._news.wait_for(lambda: len(self._heard) == len(self._hosts), seconds)
        return self.scene()

    def stop(self) -> None:
        self._stop.set()

    def _run(self, host: Host) -> None:
        pause = PATIENCE[0]
        while not self._stop.is_set():
            node, problem = self._ask(host)
            with self._news:
                self._heard[host] = _Heard(node, problem, self._clock())
                self._news.notify_all()
            if node is None:
                self._stop.wait(pause)
                pause = min(2 * pause, PATIENCE[1])
            else:
                pause = PATIENCE[0]
                self._stop.wait(self._interval)

    def _ask(self, host: Host) -> tuple[NodeJson | None, str]:
        try:
            return self._read(host.url), ""
        except OfuError as error:
            return None, str(error)
        except Exception as error:  # noqa: BLE001 - it costs this node its row, and is named there
            return None, f"cannot be asked: {type(error).__name__}"

    def _answer(self, host: Host, now: float) -> SceneAnswer:
        """The last answer of a node, unless it is too old to be shown."""
        with self._news:
            heard = self._heard.get(host)
        if heard is None:
            return SceneAnswer(host.name, None)
        since = now - heard.at
        if heard.node is None:
            return SceneAnswer(host.name, None, heard.problem)
        if since > self._interval + LATE_SECONDS:
            return SceneAnswer(host.name, None, f"has not answered for {since:.0f} s")
        return SceneAnswer(host.name, heard.node, age=heard.node.age_seconds + since)


def read_node(url: str) -> NodeJson:
    """What the agent at a URL says of its node. Raises NoAnswerError and ConfigError."""
    return ask(url, PATH, NodeJson, access=AgentAccess(os.environ))
