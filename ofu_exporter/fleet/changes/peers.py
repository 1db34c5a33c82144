"""Compares every GPU with the others of the same job in the same hour, and every node with the other nodes.

A job is as fast as its slowest GPU, so its own OFU hides which one that is. What is compared is either the work that a
GPU does (OFU) or the clock at which it works. Logs are natural; a difference of logs is nearly a percentage.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, NamedTuple

from ofu_exporter.fleet.changes.point import IDLE_OFU, NORMAL_MAD
from ofu_exporter.fleet.changes_result import ComparedValue, PeerRow, SlowRow

FEWEST_PEERS = 3
"""Fewest peers that a GPU or node needs in a job: of two that differ, nobody can say which is slow."""
FEWEST_HOURS = 12
"""Fewest hours beside peers before a GPU or node is judged."""
FEWEST_JOB_HOURS = 3
"""Fewest hours in a job with which a GPU or node counts as having been in it."""
LEAST_SLOWER = 0.03
"""A GPU that is slower by less than this is not reported: healthy GPUs differ by as much."""
LEVEL = 0.05
"""Chance that a report calls even one healthy GPU or node slow."""
SMALLEST_SPREAD = 0.005
"""Spread of healthy GPUs that is always assumed."""
ROUNDS = 10


class PeerGroup(NamedTuple):
    """GPUs that can be compared: of one job and one model."""

    cluster: str
    job_id: str
    model: str


class Place(NamedTuple):
    """A node, or one of its GPUs."""

    cluster: str
    node: str
    gpu: str = ""
    """Empty for the node as a whole."""
    uuid: str = ""


@dataclass(slots=True)
class _Sum:
    total: float = 0.0
    hours: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.hours += 1

    @property
    def mean(self) -> float:
        return self.total / self.hours


Deviations = dict[PeerGroup, dict[Place, _Sum]]


@dataclass(slots=True)
class PeerHours:
    """How far GPUs and nodes were from the middle of their jobs, summed up hour by hour."""

    gpus: Deviations = field(default_factory=dict)
    nodes: Deviations = field(default_factory=dict)

    def add(self, group: PeerGroup, values: Mapping[Place, float]) -> dict[Place, float]:
        """Count one hour of a job. The deviations of its nodes come back, if there are enough of them."""
        logs = {place: math.log(value) for place, value in values.items() if value > IDLE_OFU}
        _count(self.gpus, group, _deviations(logs))
        by_node: dict[Place, list[float]] = defaultdict(list)
        for place, value in logs.items():
            by_node[Place(place.cluster, place.node)].append(value)
        nodes = _deviations({node: median(each) for node, each in by_node.items()})
        _count(self.nodes, group, nodes)
        return nodes


def _deviations(logs: Mapping[Place, float]) -> dict[Place, float]:
    """Each one's distance from the middle; none where too few are there."""
    if len(logs) <= FEWEST_PEERS:
        return {}
    middle = median(logs.values())
    return {place: value - middle for place, value in logs.items()}


def _count(deviations: Deviations, group: PeerGroup, values: Mapping[Place, float]) -> None:
    if values:
        sums = deviations.setdefault(group, {})
        for place, value in values.items():
            sums.setdefault(place, _Sum()).add(value)


class PeerComparison(NamedTuple):
    slow: list[SlowRow]
    row: PeerRow


def compare_peers(
    deviations: Deviations, compared: ComparedValue, of: Literal["gpu", "node"]
) -> PeerComparison:
    """Which ones are slower than their peers, beyond what healthy ones differ by."""
    cells = {
        group: {place: each.mean for place, each in sums.items() if each.hours >= FEWEST_JOB_HOURS}
        for group, sums in deviations.items()
    }
    hours: dict[Place, int] = defaultdict(int)
    jobs: dict[Place, set[str]] = defaultdict(set)
    for group, sums in deviations.items():
        for place, each in sums.items():
            hours[place] += each.hours
            if place in cells[group]:
                jobs[place].add(group.job_id)
    all_effects, rest = polished(cells)
    effects = {
        place: effect
        for place, effect in all_effects.items()
        if hours[place] >= FEWEST_HOURS and jobs[place]
    }
    spread, too_few = PeerSpread.of(effects, rest), len(hours) - len(effects)
    summary = PeerRow(
        compared=compared, of=of, count=len(effects), too_few_hours=too_few, spread=spread.between
    )
    rows = (
        _judged(place, effect, spread, summary, hours[place], sorted(jobs[place]))
        for place, effect in sorted(effects.items())
    )
    slow = [row for row in rows if row.slower >= LEAST_SLOWER and row.chance <= LEVEL]
    return PeerComparison(sorted(slow, key=lambda row: (not row.sure, -row.slower)), summary)


def polished(
    cells: Mapping[PeerGroup, Mapping[Place, float]],
) -> tuple[dict[Place, float], dict[Place, list[float]]]:
    """How fast each is by itself, whoever its peers were, and what is left of it in each job (median polish).

    In a small job, a slow GPU drags the middle down, and its peers look fast. Their speed in other jobs corrects that.
    """
    effects: dict[Place, float] = defaultdict(float)
    rest: dict[Place, list[float]] = {}
    for _ in range(ROUNDS):
        rest = defaultdict(list)
        for values in cells.values():
            if values:
                shift = median(value - effects[place] for place, value in values.items())
                for place, value in values.items():
                    rest[place].append(value - shift)
        effects = defaultdict(float, {place: median(each) for place, each in rest.items()})
    left = {place: [value - effects[place] for value in each] for place, each in rest.items()}
    return dict(effects), left


class PeerSpread(NamedTuple):
    """By how much healthy ones differ from each other, and each from itself in another job."""

    between: float
    within: float
    """From job to job. 0 where hardly any was in two jobs; `between` then has both parts."""

    @classmethod
    def of(
        cls, effects: Mapping[Place, float], rest: Mapping[Place, Sequence[float]]
    ) -> PeerSpread:
        twice = [value for each in rest.values() if len(each) > 2 for value in each]
        within = NORMAL_MAD * median(abs(value) for value in twice) if len(twice) > 9 else 0.0
        middle = median(effects.values()) if effects else 0.0
        distances = [abs(effect - middle) for effect in effects.values()]
        between = NORMAL_MAD * median(distances) if distances else 0.0
        return cls(max(between, SMALLEST_SPREAD), within)

    def error(self, jobs: int) -> float:
        """Standard error of the speed of one that was in some jobs; 1.25 because it is a median."""
        return 1.25 * max(self.within, SMALLEST_SPREAD) / math.sqrt(jobs)


def _judged(
    place: Place, effect: float, spread: PeerSpread, peers: PeerRow, hours: int, jobs: list[str]
) -> SlowRow:
    """How much slower than all that were seen one is, by its effect in some jobs."""
    error = spread.error(len(jobs))
    z = -effect / math.hypot(spread.between, error)
    return SlowRow(
        cluster=place.cluster,
        node=place.node,
        gpu=place.gpu or None,
        uuid=place.uuid or None,
        compared=peers.compared,
        slower=1 - math.exp(effect),
        slower_low=1 - math.exp(effect + 1.96 * error),
        slower_high=1 - math.exp(effect - 1.96 * error),
        sure=len(jobs) >= 2,
        chance=min(1.0, peers.count * math.erfc(max(z, 0.0) / math.sqrt(2)) / 2),
        hours=hours,
        jobs=jobs,
    )


def without_nodes(gpus: Iterable[SlowRow], nodes: Iterable[SlowRow]) -> Iterator[SlowRow]:
    """The slow GPUs whose node is not slow as a whole."""
    whole = {(row.cluster, row.node) for row in nodes}
    return (row for row in gpus if (row.cluster, row.node) not in whole)
