"""Serves a simulated fleet over HTTP: every node's page by its path, and Prometheus' service discovery."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any
from urllib.parse import unquote

import uvicorn

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.simulation.agent import SimulatedAgent
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_BEHIND_SECONDS = 300.0
"""A node that nobody scrapes is advanced when it is this far behind, in seconds of the fleet."""
TEND_SECONDS, TEND_SHARE = 0.5, 0.1
"""How often to search for nodes that are behind, and the share of the time that advancing them may take."""
TEXT = "text/plain; charset=utf-8"


class FleetClock:
    """The current second of a fleet, whose time may pass faster than real time."""

    def __init__(
        self, begin_unix: float, speed: float = 1.0, unix: Callable[[], float] = time.time
    ) -> None:
        """`begin_unix` is the Unix time at which the fleet begins. The time from then until now counts with speed
        1."""
        self.begin_unix = begin_unix
        self._speed = speed
        self._unix = unix
        self._started = unix()

    def __call__(self) -> float:
        now = self._unix()
        return max(0.0, self._started - self.begin_unix + (now - self._started) * self._speed)


class Turns:
    """Lets one request in at a time, the newest first.

    If time is short, older requests time out before their turn. In order of arrival, every request would time out.
    """

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> None:
        if self._is_taken:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():  # this one already had its turn
                    self._pass_on()
                raise
        self._is_taken = True

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.pop()
            if not turn.done():
                turn.set_result(None)
                return
        self._is_taken = False


class FleetApp:
    """The answers of a fleet. All of it runs on the event loop, so that no state needs a lock."""

    def __init__(self, fleet: SimulatedFleet, clock: FleetClock) -> None:
        self._fleet = fleet
        self._clock = clock
        self._turns = Turns()
        now = clock()
        self.agents = {
            node.name: SimulatedAgent(fleet, number, clock.begin_unix, now)
            for number, node in enumerate(fleet.nodes)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request after another, but none whose sender has gone."""
        if scope["type"] != "http":
            return
        gone = asyncio.create_task(_disconnected(receive))
        try:
            async with self._turns:
                await asyncio.sleep(0)  # lets the loop notice who has gone
                if gone.done():
                    return
                names = ((key.decode("latin-1"), value) for key, value in scope["headers"])
                headers = {key: value.decode("latin-1") for key, value in names}
                status, body, more = self.answer(scope["path"], headers)
        finally:
            gone.cancel()
        start = [(name.encode(), value.encode()) for name, value in more.items()]
        start.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": start})
        await send({"type": "http.response.body", "body": body})

    def answer(
        self, path: str, headers: MutableMapping[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of the answer to a request."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if len(parts) == 3 and parts[0] == "nodes" and parts[2] == "metrics":
            return self._metrics(parts[1], headers)
        if parts == ["sd"]:
            text = json.dumps(self.targets(headers.get("host", "")))
            return 200, text.encode(), {"content-type": "application/json"}
        if parts == [""]:
            return 200, self._start_page().encode(), {"content-type": TEXT}
        return 404, b"nothing here: see /\n", {"content-type": TEXT}

    def _metrics(
        self, name: str, headers: MutableMapping[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        agent = self.agents.get(name)
        if agent is None:
            return 404, b"no such node\n", {"content-type": TEXT}
        agent.advance(self._clock())
        if agent.is_missing:
            return 503, b"no agent runs on this node now (simulated)\n", {"content-type": TEXT}
        page = agent.render(headers.get("accept", ""), headers.get("accept-encoding", ""))
        agent.count_request()
        return 200, page.body, page.headers

    def targets(self, host: str) -> list[dict[str, Any]]:
        """The targets, as Prometheus' HTTP service discovery takes them."""
        cluster = {"cluster": self._fleet.spec.cluster} if self._fleet.spec.cluster else {}
        return [
            {
                "targets": [host],
                "labels": {
                    "__metrics_path__": f"/nodes/{node.name}/metrics",
                    "instance": node.name,
                    **cluster,
                },
            }
            for node in self._fleet.nodes
        ]

    def _start_page(self) -> str:
        hours = self._clock() / 3600
        lines = [
            f"A simulated fleet: {len(self._fleet.nodes)} nodes, {len(self._fleet.jobs)} jobs, "
            f"hour {hours:.2f} of {self._fleet.spec.length / 60:g}. No GPU is measured.",
            "/sd: targets for Prometheus' http_sd_configs",
            f"/nodes/NAME/metrics: the page of a node, such as {self._fleet.nodes[0].name}",
        ]
        return "\n".join(lines) + "\n"

    async def tend(self) -> None:
        """Advance nodes that nobody scrapes, a little at a time, so that no scrape has to wait while hours are
        computed."""
        while True:
            await asyncio.sleep(TEND_SECONDS)
            until = time.monotonic() + TEND_SECONDS * TEND_SHARE
            now = self._clock()
            for agent in sorted(self.agents.values(), key=lambda each: each.at):
                if agent.at > now - MOST_BEHIND_SECONDS or time.monotonic() > until:
                    break
                agent.advance(agent.at + MOST_BEHIND_SECONDS)


async def _disconnected(receive: Receive) -> None:
    """Wait until the sender of a request has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class FleetServer(uvicorn.Server):
    """A server that leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(app: FleetApp, host: str, port: int) -> None:
    """Serve until the process ends. Raises ConfigError if the address cannot be used."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ConfigError(f"--listen: cannot serve on {host}:{port}: {why}") from error
    with listener:
        asyncio.run(_serve(app, listener))


async def _serve(app: FleetApp, listener: socket.socket) -> None:
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
    tending = asyncio.create_task(app.tend())
    try:
        await FleetServer(config).serve([listener])
    finally:
        tending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tending
