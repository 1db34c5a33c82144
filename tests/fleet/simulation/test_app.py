"""A fleet is served by path, with Prometheus' service discovery."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from ofu_exporter.fleet.simulation.app import FleetApp, FleetClock, Turns
from tests.helpers.fleets import BEGIN, NODES, ONE_JOB, fleet, values


class Wall:
    """A clock on the wall that is set by hand."""

    def __init__(self) -> None:
        self.unix = BEGIN

    def __call__(self) -> float:
        return self.unix


class Client:
    """Asks a fleet, without a socket."""

    def __init__(self, app: FleetApp) -> None:
        self._transport = httpx.ASGITransport(app=app)

    def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        async def answer() -> httpx.Response:
            address = "http://fleet:9848"
            async with httpx.AsyncClient(transport=self._transport, base_url=address) as client:
                return await client.get(path, headers=headers)

        return asyncio.run(answer())


def served(text: str, folder: Path, wall: Wall, speed: float = 1.0) -> Client:
    return Client(FleetApp(fleet(text, folder), FleetClock(BEGIN, speed, wall)))


def test_every_node_is_a_target_with_its_path(tmp_path: Path) -> None:
    client = served(NODES + "cluster: c1\n", tmp_path, Wall())
    targets = client.get("/sd")
    assert targets.headers["content-type"] == "application/json"
    assert json.loads(targets.text) == [
        {
            "targets": ["fleet:9848"],
            "labels": {
                "__metrics_path__": f"/nodes/{name}/metrics",
                "instance": name,
                "cluster": "c1",
            },
        }
        for name in ("n1", "n2")
    ]
    for target in targets.json():
        assert client.get(target["labels"]["__metrics_path__"]).status_code == 200


def test_a_page_goes_on_with_the_clock(tmp_path: Path) -> None:
    wall = Wall()
    client = served(ONE_JOB + "}\n", tmp_path, wall)
    for seconds in (0, 14, 16, 60):
        wall.unix = BEGIN + seconds
        text = client.get("/nodes/n1/metrics").text
        (stamp,) = values(text, "ofu_exporter_snapshot_timestamp_seconds").values()
        assert stamp == BEGIN + seconds // 15 * 15


def test_time_may_run_faster(tmp_path: Path) -> None:
    wall = Wall()
    client = served(ONE_JOB + "}\n", tmp_path, wall, speed=60.0)
    wall.unix += 10
    held = values(client.get("/nodes/n2/metrics").text, "ofu_job_held_gpu_seconds_total")
    assert [*held.values()] == [4 * 600.0]


def test_a_fleet_that_began_before_is_served_from_where_it_is(tmp_path: Path) -> None:
    wall = Wall()
    wall.unix = BEGIN + 3600
    client = served(ONE_JOB + "}\n", tmp_path, wall)
    wall.unix += 30
    text = client.get("/nodes/n1/metrics").text
    assert [*values(text, "ofu_job_gpu_seconds_total").values()] == [4 * 30.0]
    assert [*values(text, "ofu_job_held_gpu_seconds_total").values()] == [4 * 3630.0]


def test_a_node_without_an_agent_does_not_answer(tmp_path: Path) -> None:
    fault = "faults:\n  - {fault: agent_missing, nodes: [n1]}\n"
    client = served(NODES + fault, tmp_path, Wall())
    assert client.get("/nodes/n1/metrics").status_code == 503
    assert client.get("/nodes/n2/metrics").status_code == 200
    assert len(client.get("/sd").json()) == 2


@pytest.mark.parametrize("path", ["/nodes/n9/metrics", "/metrics", "/nodes", "/nodes/n1"])
def test_what_is_not_there_is_not_found(path: str, tmp_path: Path) -> None:
    client = served(NODES, tmp_path, Wall())
    assert client.get(path).status_code == 404


def test_the_start_page_says_what_there_is(tmp_path: Path) -> None:
    client = served(NODES, tmp_path, Wall())
    text = client.get("/").text
    assert "2 nodes" in text
    assert "No GPU is measured" in text


def test_a_page_comes_in_the_format_and_encoding_that_is_asked_for(tmp_path: Path) -> None:
    client = served(NODES, tmp_path, Wall())
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    found = client.get("/nodes/n1/metrics", headers=headers)
    assert found.headers["content-type"].startswith("application/openmetrics-text")
    assert found.headers["content-encoding"] == "gzip"
    assert found.text.endswith("# EOF\n")


def test_nodes_that_nobody_scrapes_are_moved_on(tmp_path: Path) -> None:
    wall = Wall()
    app = FleetApp(fleet(NODES, tmp_path), FleetClock(BEGIN, 1.0, wall))
    wall.unix += 900

    async def tended() -> None:
        task = asyncio.create_task(app.tend())
        while min(agent.at for agent in app.agents.values()) < 900 - 300:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(asyncio.wait_for(tended(), 20))


def test_whoever_has_gone_costs_nothing(tmp_path: Path) -> None:
    wall = Wall()
    app = FleetApp(fleet(NODES, tmp_path), FleetClock(BEGIN, 1.0, wall))
    wall.unix += 60

    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        """To nobody."""

    scope = {"type": "http", "method": "GET", "path": "/nodes/n1/metrics", "headers": []}
    asyncio.run(app({**scope, "query_string": b""}, gone, send))
    assert app.agents["n1"].at == 0


def test_whoever_came_last_is_next() -> None:
    order: list[str] = []

    async def come(turns: Turns, name: str) -> None:
        async with turns:
            order.append(name)
            await asyncio.sleep(0)

    async def all_come() -> None:
        turns = Turns()
        waiting = [asyncio.create_task(come(turns, name)) for name in "abcd"]
        await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        await come(turns, "e")

    asyncio.run(all_come())
    assert order == ["a", "d", "c", "b", "e"]
