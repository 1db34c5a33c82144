"""Lists what may cost a job's GPUs time, and finds which of it a trace proves.

A finding is a function in a module of this package: which share of the seconds of a cell it costs at most. Its name is
the finding's, which is a label of a metric and never changes; its docstring is one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import NamedTuple

from ofu_exporter.support.registry import Registry
from ofu_exporter.traces.seconds import TimeCell
from ofu_exporter.values.text import first_names
from ofu_exporter.values.trace import Finding

MOST_NAMED, LONGEST_NAME = 3, 80


@dataclass(frozen=True, slots=True)
class Waiting:
    """The rank that others wait for, by the collectives that all of them have."""

    rank: int
    share: float
    """Of the time that all ranks spent in these collectives, what they waited for this one."""
    collectives: int
    of: int
    """How many collectives began last on this rank, of how many."""


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """What the traces of one job hold."""

    cells: Sequence[TimeCell]
    seconds: float
    """Of all GPUs together."""
    steps: int
    """Of all GPUs together."""
    cpu_collectives: Mapping[str, int]
    capability: int | None
    """Compute capability of the GPUs, times ten; None = not known, or several."""
    padding: Mapping[str, float]
    """Share of the FLOPs of a kernel that whole tiles add, by its name."""
    waiting: Waiting | None


class CostClaim(NamedTuple):
    """Seconds of a cell that a finding claims."""

    cell: TimeCell
    seconds: float


Claims = Callable[[TimeCell, TraceFacts], float]
"""The share of a cell's seconds that is lost at most, from 0 to 1."""
EvidenceOf = Callable[[Sequence[CostClaim], TraceFacts], str]
"""A sentence with the kernels, operators or calls that prove it; "" where what it would claim is no proof."""


@dataclass(frozen=True, slots=True)
class FindingKind:
    """One thing that may cost time."""

    name: str
    order: int
    """Findings claim seconds in this order, lowest first, and no second is claimed twice."""
    least: float
    """The share of the time below which it is not worth a word."""
    meaning: str
    remedy: str
    """What to do."""
    claims: Claims
    evidence: EvidenceOf


def finding(
    order: int, least: float, remedy: str, evidence: EvidenceOf
) -> Callable[[Claims], FindingKind]:
    """Makes a kind of finding of the function that says what it claims."""

    def kind(claims: Claims) -> FindingKind:
        meaning = claims.__doc__ or ""
        return FindingKind(claims.__name__, order, least, meaning, remedy, claims, evidence)

    return kind


_MODULES: Registry[ModuleType] = Registry(__name__, "subject of findings")


@cache
def kinds() -> tuple[FindingKind, ...]:
    """Every kind of finding, in the order in which they claim."""
    modules = map(_MODULES.load, _MODULES.names())
    values = (value for module in modules for value in vars(module).values())
    every = (value for value in values if isinstance(value, FindingKind))
    return tuple(sorted(every, key=lambda kind: kind.order))


def findings_of(facts: TraceFacts) -> tuple[Finding, ...]:
    """The findings, largest first."""
    left = {id(cell): cell.seconds for cell in facts.cells}
    findings = []
    for kind in kinds():
        claimed = [claim for claim in _claims(kind, facts, left) if claim.seconds > 0]
        seconds = sum(claim.seconds for claim in claimed)
        share = min(seconds / facts.seconds, 1.0) if facts.seconds else 0.0  # of sums of floats
        evidence = kind.evidence(claimed, facts) if share >= kind.least else ""
        if evidence:
            findings.append(Finding(kind.name, share, seconds, evidence, kind.remedy))
            for cell, taken in claimed:
                left[id(cell)] -= taken
    return tuple(sorted(findings, key=lambda each: -each.seconds))


def _claims(kind: FindingKind, facts: TraceFacts, left: Mapping[int, float]) -> Iterator[CostClaim]:
    for cell in facts.cells:
        if left[id(cell)] > 0 and (share := kind.claims(cell, facts)):
            yield CostClaim(cell, left[id(cell)] * min(share, 1.0))


def launches(claimed: Sequence[CostClaim]) -> int:
    return sum(claim.cell.launches for claim in claimed)


def named(claimed: Sequence[CostClaim], by: str = "name") -> str:
    """The kernels, copies or calls that took most; with `by="operator"` what launched them."""
    sums: dict[str, float] = {}
    for cell, seconds in claimed:
        if text := getattr(cell, by):
            sums[text] = sums.get(text, 0.0) + seconds
    most = sorted(sums, key=lambda each: -sums[each])
    shown = [each if len(each) <= LONGEST_NAME else f"{each[:LONGEST_NAME]}..." for each in most]
    return first_names(shown, MOST_NAMED)


def a_step(number: int, facts: TraceFacts) -> str:
    """A count, and how many that are a step where the trace has steps."""
    return f"{number:,}" + (f" ({number / facts.steps:,.0f} a step)" if facts.steps else "")
