"""Reads a list of nodes, and asks the agent of each on a thread of its own: a slow or dead one delays no other."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import ConfigError, OfuError
from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.support.bounded_get import Limits, NoAnswerError, content, shown_url
from ofu_exporter.support.measured_json import measured_json
from ofu_exporter.support.small_files import read_small
from ofu_exporter.terminal.agent_access import AgentAccess
from ofu_exporter.terminal.scene import Scene, SceneAnswer

MOST_HOSTS = 1024
_ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_GROUP = re.compile(r"\[([0-9,-]+)\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class Host(NamedTuple):
    """A node by the name it was given, and where its agent is."""

    name: str
    url: str


def parse_hosts(text: str, port: int, scheme: str = "http") -> list[Host]:
    """The hosts that a list names: node[1-8],m7, or addresses; the scheme is that of names without one.

    Raises ConfigError.
    """
    rest = re.sub(r"[,\s]", "", _ITEM.sub("", text))
    if rest:
        raise ConfigError(f"hosts {shown_url(text)!r}: a bracket is not closed")
    names = dict.fromkeys(
        name for item in _ITEM.findall(text) for name in _limited(item, _expanded(item))
    )
    if not names:
        raise ConfigError("no host is named")
    return [_host(name, port, scheme) for name in _limited(text, names)]


def read_hosts(path: Path, port: int, scheme: str = "http") -> list[Host]:
    """The hosts that a file lists; what follows a # is a comment. Raises ConfigError."""
    lines = read_small(path, "--hosts-file").splitlines()
    try:
        return parse_hosts(" ".join(line.partition("#")[0] for line in lines), port, scheme)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _limited(what: str, names: Iterable[str]) -> list[str]:
    hosts = list(islice(names, MOST_HOSTS + 1))
    if len(hosts) > MOST_HOSTS:
        raise ConfigError(f"{shown_url(what)} names over {MOST_HOSTS} hosts")
    return hosts


def _expanded(item: str) -> Iterator[str]:
    """The names that one item with any number of brackets stands for; an IPv6 address has none to expand."""
    if "://" in item or re.fullmatch(r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\](:[0-9]+)?", item):
        yield item
        return
    group = _GROUP.search(item)
    if group is None:
        if "[" in item:
            raise ConfigError(f"host {item!r}: brackets hold numbers, as in node[1-4,7]")
        yield item
        return
    before, after = item[: group.start()], item[group.end() :]
    for number in _numbers(group[1]):
        yield from _expanded(f"{before}{number}{after}")


def _numbers(text: str) -> Iterator[str]:
    """The numbers of a bracket, with the leading zeros of the first of a range."""
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        first, last = (match[1], match[2] or match[1]) if match else ("1", "0")
        if int(first) > int(last):
            raise ConfigError(f"[{text}] is no list of numbers and ranges, as in [1-4,7]")
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}}"


def _host(name: str, port: int, scheme: str) -> Host:
    if "://" in name or name.startswith("unix:"):
        return Host(re.sub(r"^\w+://", "", shown_url(name)), name)
    if name.count(":") > 1 and not name.startswith("["):
        return Host(name, f"{scheme}://[{name}]:{port}")
    has_port = re.search(r"(?:^[^:]*|\]):[0-9]+$", name)
    return Host(name, f"{scheme}://{name}" if has_port else f"{scheme}://{name}:{port}")


PATH = "/v1/node"
ANSWER = Limits(seconds=2.0, most_bytes=8 << 20)
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


def read_node(url: str) -> NodeJson:
    """What the agent at a URL says of its node. Raises NoAnswerError and ConfigError."""
    body = content(url, PATH, "application/json", ANSWER, AgentAccess(os.environ))
    try:
        return NodeJson.model_validate(measured_json(body))
    except (ValueError, RecursionError) as error:
        raise NoAnswerError(f"answers with something other than {PATH}") from error
