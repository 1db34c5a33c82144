"""Serves a simulated fleet over HTTP: every node's page by its path, and Prometheus' service discovery."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse, Response

from ofu_exporter.fleet.reports.figures import counted
from ofu_exporter.fleet.simulation.agent import SimulatedAgent
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet
from ofu_exporter.serving.page import METRICS

MOST_BEHIND_SECONDS = 300.0
"""A node that nobody scrapes is advanced when it is this far behind, in seconds of the fleet."""
TEND_SECONDS, TEND_SHARE = 0.5, 0.1
"""How often to search for nodes that are behind, and the share of the time that advancing them may take."""


class FleetClock:
    """The current second of a fleet, whose time may pass faster than real time."""

    def __init__(
        self, begin_unix: float, speed: float, unix: Callable[[], float] = time.time
    ) -> None:
        """`begin_unix` is the Unix time at which the fleet begins. The time from then until now counts with speed 1."""
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
            await turn
        self._is_taken = True

    async def __aexit__(self, *_: object) -> None:
        if self._waiting:
            self._waiting.pop().set_result(None)
        else:
            self._is_taken = False


class FleetApp(FastAPI):
    """The answers of a fleet. All of it runs on the event loop, so that no state needs a lock."""

    def __init__(self, fleet: SimulatedFleet, clock: FleetClock) -> None:
        super().__init__(openapi_url=None)
        self._fleet = fleet
        self._clock = clock
        self._turns = Turns()
        now = clock()
        self.agents = {
            node.name: SimulatedAgent(fleet, number, clock.begin_unix, now)
            for number, node in enumerate(fleet.nodes)
        }
        self.add_api_route("/", self._start_page, response_class=PlainTextResponse)
        self.add_api_route("/sd", self._targets)
        self.add_api_route("/nodes/{name}/metrics", self._metrics)

    async def _metrics(self, name: str, request: Request) -> Response:
        """The page of a node, unless who asked has gone."""
        agent = self.agents.get(name)
        if agent is None:
            raise HTTPException(404, f"no node {name}: see /")
        async with self._turns:
            await asyncio.sleep(0)  # lets the loop notice who has gone
            if await request.is_disconnected():
                return Response()
            agent.advance(self._clock())
            if agent.is_missing:
                raise HTTPException(503, "no agent runs on this node now (simulated)")
            headers = request.headers
            page = agent.page.render(headers.get("accept", ""), headers.get("accept-encoding", ""))
            agent.page.count_request(METRICS, 200)
        return Response(page.body, headers=page.headers)

    async def _targets(self, request: Request) -> list[dict[str, Any]]:
        cluster = {"cluster": self._fleet.spec.cluster} if self._fleet.spec.cluster else {}
        return [
            {
                "targets": [request.headers.get("host", "")],
                "labels": {
                    "__metrics_path__": f"/nodes/{node.name}/metrics",
                    "instance": node.name,
                    **cluster,
                },
            }
            for node in self._fleet.nodes
        ]

    async def _start_page(self) -> str:
        return (
            f"A simulated fleet: {counted(len(self._fleet.nodes), 'node')}, {counted(len(self._fleet.jobs), 'job')}, "
            f"hour {self._clock() / 3600:.2f} of {self._fleet.spec.length / 60:g}. No GPU is measured.\n"
            "/sd: targets for Prometheus' http_sd_configs\n"
            f"/nodes/NAME/metrics: the page of a node, such as {self._fleet.nodes[0].name}\n"
        )

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


class FleetServer(uvicorn.Server):
    """A server that leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(app: FleetApp, listener: socket.socket) -> None:
    """Serve until the process ends, and close the listener."""
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")

    async def serve_and_tend() -> None:
        tending = asyncio.create_task(app.tend())
        await FleetServer(config).serve([listener])
        tending.cancel()

    with listener:
        asyncio.run(serve_and_tend())
