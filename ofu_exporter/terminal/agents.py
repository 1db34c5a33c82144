"""Asks the agent of each node on a thread of its own: a slow or dead one delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from ofu_exporter.errors import OfuError
from ofu_exporter.jobs.hosts import Host
from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.serving.node_reader import read_node
from ofu_exporter.terminal.scene import Scene, SceneAnswer

POLL_SECONDS = 2.0
HOSTS_PER_SECOND = 50
"""Most requests per second. If there are more nodes, each is asked less often."""
PATIENCE = (5.0, 30.0)
"""First and longest pause before a node that does not answer is asked again."""
LATE_SECONDS = 10.0
"""How long an answer is still shown after the next one was due."""


class Agents:
    def __init__(
        self,
        hosts: Sequence[Host],
        read: Callable[[str], NodeJson] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hosts = hosts
        self._read = read or read_node
        self._clock = clock
        self._interval = max(POLL_SECONDS, len(hosts) / HOSTS_PER_SECOND)
        self._heard: dict[Host, tuple[SceneAnswer, float]] = {}
        """The last answer of each node, and when it came."""
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
            answer = self._ask(host)
            with self._news:
                self._heard[host] = answer, self._clock()
                self._news.notify_all()
            if answer.node is None:
                self._stop.wait(pause)
                pause = min(2 * pause, PATIENCE[1])
            else:
                pause = PATIENCE[0]
                self._stop.wait(self._interval)

    def _ask(self, host: Host) -> SceneAnswer:
        try:
            node = self._read(host.url)
        except OfuError as error:
            return SceneAnswer(host.name, None, str(error))
        except Exception as error:  # noqa: BLE001 - it costs this node its row, and is named there
            return SceneAnswer(host.name, None, f"cannot be asked: {type(error).__name__}")
        return SceneAnswer(host.name, node, age=node.age_seconds)

    def _answer(self, host: Host, now: float) -> SceneAnswer:
        """The last answer of a node, unless it is too old to be shown."""
        with self._news:
            answer, at = self._heard.get(host, (SceneAnswer(host.name, None), now))
        since = now - at
        if answer.node is None:
            return answer
        if since > self._interval + LATE_SECONDS:
            return SceneAnswer(host.name, None, f"has not answered for {since:.0f} s")
        return answer._replace(age=answer.age + since)
