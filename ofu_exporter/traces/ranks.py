"""Finds the rank that others wait for, by the collectives that all ranks have. Pure.

A collective ends on all ranks at about the same time, when the last has come and the data are through. So the ends
align the clocks of nodes, which may be apart by any time, and after that the starts say who came last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from ofu_exporter.traces.findings import Waiting

LEAST_COLLECTIVES = 3
"""Fewer say nothing of a rank."""
LEAST_PART = 0.5
"""Part of the collectives to which a rank comes last before it is named; of two ranks, half is chance."""


class Collective(NamedTuple):
    """One that ran on one rank, in microseconds of its node's clock."""

    start: float
    end: float


Key = tuple[str, int, int]
"""Which collective it is: family, step, and its place among those of the step."""
Collectives = Mapping[Key, Collective]


def waiting(ranks: Mapping[int, Collectives]) -> Waiting | None:
    """The rank that the others waited for most; None with one rank, or without a clear one."""
    common = set.intersection(*(set(each) for each in ranks.values())) if len(ranks) > 1 else set()
    if len(common) < LEAST_COLLECTIVES:
        return None
    keys = sorted(common)
    first = min(ranks)
    offsets = {
        rank: median(each[key].end - ranks[first][key].end for key in keys)
        for rank, each in ranks.items()
    }
    waited = dict.fromkeys(ranks, 0.0)
    last = dict.fromkeys(ranks, 0)
    for key in keys:
        starts = {rank: each[key].start - offsets[rank] for rank, each in ranks.items()}
        latest = max(starts, key=lambda rank: starts[rank])
        last[latest] += 1
        for rank, each in ranks.items():
            length = each[key].end - each[key].start
            waited[latest] += min(max(starts[latest] - starts[rank], 0.0), length)
    spent = sum(each[key].end - each[key].start for each in ranks.values() for key in keys)
    slowest = max(waited, key=lambda rank: waited[rank])
    if not spent or last[slowest] < LEAST_PART * len(keys) * _by_chance(len(ranks)):
        return None
    return Waiting(slowest, waited[slowest] / spent, last[slowest], len(keys))


def _by_chance(ranks: int) -> float:
    return 1.2 if ranks == 2 else 1.0


def numbered(collectives: Sequence[tuple[str, int, Collective]]) -> dict[Key, Collective]:
    """Collectives, given by family and step in the order of their starts, under their keys."""
    counts: dict[tuple[str, int], int] = {}
    found: dict[Key, Collective] = {}
    for family, step, collective in collectives[:MOST_COLLECTIVES]:
        place = counts[family, step] = counts.get((family, step), -1) + 1
        found[family, step, place] = collective
    return found


MOST_COLLECTIVES = 5000
"""Of one rank that are kept; 512 ranks of them take 300 MiB."""
