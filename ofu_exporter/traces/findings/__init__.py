"""Lists what may cost a job's GPUs time, each in a module of this package, and finds which of it a trace proves.

The name of a module is the finding's, which is a label of a metric and never changes. It has five public names beside
the sentence that is its docstring:

- `ORDER`: findings claim seconds in this order, lowest first, and no second is claimed twice;
- `LEAST`: the share of the time below which it is not worth a word;
- `REMEDY`: what to do;
- `claims`: which share of the seconds of a cell it costs at most;
- `evidence`: what proves it; "" where what it would claim is no proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ofu_exporter.support.registry import Registry
from ofu_exporter.traces.seconds import TimeCell
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
    steps: int = 0
    """Of all GPUs together."""
    cpu_collectives: Mapping[str, int] = field(default_factory=dict)
    capability: int | None = None
    """Compute capability of the GPUs, times ten; None = not known, or several."""
    padding: Mapping[str, float] = field(default_factory=dict)
    """Share of the FLOPs of a kernel that whole tiles add, by its name."""
    waiting: Waiting | None = None


class CostClaim(NamedTuple):
    """Seconds of a cell that a finding claims."""

    cell: TimeCell
    seconds: float


class FindingModule(Protocol):
    """What a module of this package offers."""

    __doc__: str | None
    ORDER: int
    LEAST: float
    REMEDY: str

    def claims(self, cell: TimeCell, facts: TraceFacts) -> float:
        """The share of a cell's seconds that is lost at most, from 0 to 1."""

    def evidence(self, claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
        """A sentence with the kernels, operators or calls that prove it."""


_MODULES: Registry[FindingModule] = Registry(__name__, "finding")
names, load = _MODULES.names, _MODULES.load


def found(facts: TraceFacts) -> tuple[Finding, ...]:
    """The findings, largest first."""
    left = {id(cell): cell.seconds for cell in facts.cells}
    findings = []
    for name in sorted(names(), key=lambda each: load(each).ORDER):
        module = load(name)
        claimed = [claim for claim in _claims(module, facts, left) if claim.seconds > 0]
        seconds = sum(claim.seconds for claim in claimed)
        share = seconds / facts.seconds if facts.seconds else 0.0
        evidence = module.evidence(claimed, facts) if share >= module.LEAST else ""
        if evidence:
            findings.append(Finding(name, share, seconds, evidence, module.REMEDY))
            for cell, taken in claimed:
                left[id(cell)] -= taken
    return tuple(sorted(findings, key=lambda each: -each.seconds))


def _claims(
    module: FindingModule, facts: TraceFacts, left: Mapping[int, float]
) -> Iterator[CostClaim]:
    for cell in facts.cells:
        if left[id(cell)] > 0 and (share := module.claims(cell, facts)):
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
    more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    return ", ".join(shown[:MOST_NAMED]) + more


def a_step(number: int, facts: TraceFacts) -> str:
    """A count, and how many that are a step where the trace has steps."""
    return f"{number:,}" + (f" ({number / facts.steps:,.0f} a step)" if facts.steps else "")
