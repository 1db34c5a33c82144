"""A simulated fleet as OpenMetrics: every page that its agents show, or what rules keep of it hour by hour."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from ofu_exporter.fleet.simulation.agent import SimulatedAgent
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet
from ofu_exporter.fleet.simulation.server import SimulatedServer
from ofu_exporter.fleet.simulation.spec import MINUTE
from ofu_exporter.serving.page import METRICS
from tests.helpers.stored_fleet import HOUR, labelled, openmetrics

LOOK = 300
"""Seconds between two looks of a report at what is no sum of an hour."""
_RECORDED = re.compile(r"\w+:\w+:\w+")


def scraped(fleet: SimulatedFleet, begin: float, interval: int = 30) -> str:
    """What a Prometheus would have scraped from all agents, which start with the fleet."""
    families: dict[str, list[str]] = defaultdict(list)
    for number in range(len(fleet.nodes)):
        for name, line in _of_node(fleet, number, begin, interval):
            families[name].append(line)
    ordered = {name: sorted(lines, key=_series) for name, lines in sorted(families.items())}
    return openmetrics(ordered)


def _series(line: str) -> str:
    """A line without value and time."""
    return line.rsplit(" ", 2)[0]


def _of_node(
    fleet: SimulatedFleet, number: int, begin: float, interval: int
) -> Iterator[tuple[str, str]]:
    """Each sample of a node, by the name of its metric."""
    where = labelled(cluster=fleet.spec.cluster, instance=fleet.nodes[number].name, job="ofu")
    agent = SimulatedAgent(fleet, number, begin, 0.0)
    for at in range(0, MINUTE * fleet.spec.length, interval):
        agent.advance(at)
        yield "up", f"up{where} {float(not agent.is_missing)} {begin + at:.0f}"
        if agent.is_missing:
            continue
        page = agent.page.render("", "").body.decode()
        agent.page.count_request(METRICS, 200)
        for line in page.splitlines():
            series, _, value = line.rpartition(" ")
            name, _, labels = series.partition("{")
            if not line.startswith("#") and value != "NaN":
                own = f"{where[:-1]},{labels}" if labels else where
                yield name, f"{name}{own} {value} {begin + at:.0f}"


def kept(fleet: SimulatedFleet, begin: float) -> str:
    """What rules keep of jobs and models in hours without faults. Looks within an hour all see its mean."""
    families: dict[str, list[str]] = {}
    for expression, series in SimulatedServer(fleet, begin).series.items():
        name = _RECORDED.findall(expression)[0]
        if name not in families and not name.startswith("job_gpu:"):
            looks = range(0, round(HOUR), LOOK) if ":5m]" in expression else (0,)
            families[name] = [
                f"{name}{labelled(**one.labels)} {value!r} {time - look:.0f}"
                for one in series
                for time, value in one.points
                for look in reversed(looks)
            ]
    return openmetrics(families)
