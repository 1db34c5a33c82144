"""Writes whole pages of some nodes as history: what a Prometheus would have scraped from their agents."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ofu_exporter.fleet.simulation.agent import SimulatedAgent
from ofu_exporter.fleet.simulation.spec import MINUTE
from ofu_exporter.serving.page import METRICS
from tests.simulated_history.fleet import RecordedFleet

UP = "up"


def raw_lines(
    fleet: RecordedFleet, begin_unix: float, minutes: tuple[int, int]
) -> Iterator[tuple[str, int]] | None:
    """The pages of the nodes that the specification names, within some minutes; None if there are none."""
    wanted = {
        raw.number: (max(raw.start, minutes[0]), min(raw.end, minutes[1]))
        for raw in fleet.raw
        if raw.start < minutes[1] and minutes[0] < raw.end
    }
    return _families(fleet, begin_unix, wanted) if wanted else None


def _families(
    fleet: RecordedFleet, begin_unix: float, wanted: dict[int, tuple[int, int]]
) -> Iterator[tuple[str, int]]:
    """The lines of all nodes, a metric at a time, as the format wants it."""
    lines: dict[str, list[str]] = {}
    for number, (begin, end) in wanted.items():
        for name, line in _scraped(fleet, begin_unix, number, (MINUTE * begin, MINUTE * end)):
            lines.setdefault(name, []).append(line)
    for name in sorted(lines):
        yield (
            f"# TYPE {name} unknown\n" + "".join(sorted(lines[name], key=_series)),
            len(lines[name]),
        )


def _series(line: str) -> str:
    """A line without value and time."""
    return line.rsplit(" ", 2)[0]


def _scraped(
    fleet: RecordedFleet, begin_unix: float, number: int, seconds: tuple[int, int]
) -> Iterator[tuple[str, str]]:
    """Each sample of a node, by the name of its metric. The agent starts where its pages begin."""
    labels = f'instance="{fleet.nodes[number].name}",job="{fleet.spec.scrape_job}"'
    if fleet.spec.cluster:
        labels = f'cluster="{fleet.spec.cluster}",{labels}'
    agent = SimulatedAgent(fleet, number, begin_unix, seconds[0])
    for at in range(seconds[0], seconds[1], fleet.spec.scrape_interval):
        agent.advance(at)
        stamp = f"{begin_unix + at:.0f}"
        is_up = not agent.is_missing
        yield UP, f"{UP}{{{labels}}} {float(is_up)} {stamp}\n"
        if is_up:
            page = agent.page.render("", "").body.decode()
            agent.page.count_request(METRICS, 200)
            for line in page.splitlines():
                if line and not line.startswith("#"):
                    yield from _sample(line, labels, stamp)


def _sample(line: str, labels: str, stamp: str) -> Iterator[tuple[str, str]]:
    series, _, value = line.rpartition(" ")
    name, brace, labels_of_page = series.partition("{")
    if not math.isnan(float(value)):
        yield name, f"{name}{{{labels}{',' + labels_of_page if brace else '}'} {value} {stamp}\n"
