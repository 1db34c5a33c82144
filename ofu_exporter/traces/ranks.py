"""Finds the rank that others wait for, by the collectives that all ranks have. Pure.

A collective ends on all ranks at about the same time, when the last has come and the data are through. So the ends
align the clocks of nodes, which may be apart by any time, and after that the starts say who came last. Traces lack
events, so a collective is told by its kind, its step and its end, and not by its place.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ofu_exporter.traces.findings import Waiting

LEAST_COLLECTIVES = 3
"""Fewer say nothing of a rank."""
LEAST_PART = 0.6
"""Part of the collectives to which a rank comes last before it is named."""
APART = 500.0
"""Most microseconds between the ends of one collective on two ranks whose clocks are aligned."""
NEIGHBOURS = 3
"""At most this many places apart two records of one collective may be, where a trace lacks some."""
MOST_COLLECTIVES = 5000
"""Of one rank that are kept; 512 ranks of them take 300 MiB."""


class Collective(NamedTuple):
    """One that ran on one rank, in microseconds of its node's clock."""

    kind: str
    step: int
    """The step that launched it; -1 = none did."""
    start: float
    end: float


def waiting(ranks: Mapping[int, Sequence[Collective]]) -> Waiting | None:
    """The rank that the others waited for most; None with one rank, or without a clear one."""
    groups = list(_common(ranks)) if len(ranks) > 1 else []
    if len(groups) < LEAST_COLLECTIVES:
        return None
    waited, last = dict.fromkeys(ranks, 0.0), dict.fromkeys(ranks, 0)
    spent = 0.0
    for group in groups:
        latest = max(group, key=lambda rank: group[rank].start)
        last[latest] += 1
        for each in group.values():
            length = each.end - each.start
            spent += length
            waited[latest] += min(group[latest].start - each.start, length)
    slowest = max(waited, key=lambda rank: waited[rank])
    if not spent or last[slowest] < LEAST_PART * len(groups):
        return None
    return Waiting(slowest, waited[slowest] / spent, last[slowest], len(groups))


def _common(ranks: Mapping[int, Sequence[Collective]]) -> Iterator[Mapping[int, Collective]]:
    """The collectives that all ranks have, by rank, on the clock of the first."""
    first, *others = sorted(ranks)
    counterparts = {rank: _counterparts(ranks[first], ranks[rank]) for rank in others}
    for place, each in enumerate(ranks[first]):
        if all(place in of_rank for of_rank in counterparts.values()):
            yield {first: each, **{rank: of_rank[place] for rank, of_rank in counterparts.items()}}


def _counterparts(
    some: Sequence[Collective], others: Sequence[Collective]
) -> Mapping[int, Collective]:
    """What another rank has of each collective, by its place, on the first one's clock."""
    kinds = _by_kind(others)
    offset = _offset(_by_kind(some), kinds)
    counterparts: dict[int, Collective] = {}
    if offset is None:
        return counterparts
    ends = {kind: [each.end - offset for each in those] for kind, those in kinds.items()}
    for place, each in enumerate(some):
        kind = (each.kind, each.step)
        at = bisect_left(ends.get(kind, []), each.end)
        near = [n for n in (at - 1, at) if 0 <= n < len(ends.get(kind, []))]
        nearest = min(near, key=lambda n: abs(ends[kind][n] - each.end), default=None)
        if nearest is not None and abs(ends[kind][nearest] - each.end) <= APART:
            other = kinds[kind][nearest]
            counterparts[place] = other._replace(start=other.start - offset, end=other.end - offset)
    return counterparts


Kinds = Mapping[tuple[str, int], Sequence[Collective]]


def _by_kind(some: Sequence[Collective]) -> Kinds:
    """The collectives by kind and step, in the order in which they end."""
    kinds: dict[tuple[str, int], list[Collective]] = {}
    for each in sorted(some, key=lambda each: each.end):
        kinds.setdefault((each.kind, each.step), []).append(each)
    return kinds


def _offset(some: Kinds, others: Kinds) -> float | None:
    """What a rank's clock is ahead of another's: the difference on which most pairs of ends agree."""
    differences = sorted(
        other.end - each.end
        for kind, ours in some.items()
        for place, each in enumerate(ours)
        for other in others.get(kind, ())[max(place - NEIGHBOURS, 0) : place + NEIGHBOURS + 1]
    )
    agreeing = [bisect_right(differences, each + APART) - n for n, each in enumerate(differences)]
    if not agreeing:
        return None
    best = max(range(len(agreeing)), key=agreeing.__getitem__)
    return differences[best + (agreeing[best] - 1) // 2]
