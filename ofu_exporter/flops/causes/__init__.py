"""What may make a job's reported MFU differ from the OFU of its GPUs, and how the causes are found.

A cause is a row of `CAUSES` in a module of this package. Given the facts of a job it yields hypotheses, each with
the ratio that it would give, or none where the facts exclude it. Two kinds of ratio: what is wrong in the report
(reported MFU over the right one), and what the hardware ran that the report rightly leaves out (right MFU over
OFU). Mistakes of a count are changes of the counted job and not numbers, so that two of them combine as they
would in a formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Protocol

from ofu_exporter.flops import (
    Counting,
    Lengths,
    Model,
    Part,
    Passes,
    Recompute,
    Term,
    dense_peak,
    effective_peak,
)
from ofu_exporter.flops.models import own_terms
from ofu_exporter.flops.passes import plan
from ofu_exporter.flops.shapes import Decoder
from ofu_exporter.flops.terms import total
from ofu_exporter.hardware.gpu_models import GpuModel, find
from ofu_exporter.support.registry import Registry
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reported import Bound

Edit = Callable[[Sequence[Term]], Sequence[Term]]


def without(part: Part) -> Edit:
    """An edit that leaves the terms of a part out."""
    return lambda terms: [term for term in terms if term.part is not part]


@dataclass(frozen=True, slots=True)
class CountedStep:
    """What one step of a job is counted from."""

    model: Model
    lengths: Lengths
    counting: Counting
    passes: Passes
    edits: tuple[Edit, ...] = ()
    """What is changed in the terms before they're added up."""

    def terms(self) -> Sequence[Term]:
        """The model's own terms, as edited."""
        terms: Sequence[Term] = own_terms(self.model, self.counting)
        for edit in self.edits:
            terms = edit(terms)
        return terms

    def flops(self, recompute: Recompute | None = None) -> float:
        """FLOPs of a step; with `recompute`, those too that computing activations again adds."""
        layers = None if recompute is None else self.passes.recompute_layers
        again = recompute or Recompute.NONE
        passes = replace(self.passes, recompute=again, recompute_layers=layers)
        runs = plan(self.terms(), passes, self.model.towers, self.model.layers)
        lengths = self.lengths.with_fixed(self.model.lengths)
        return float(
            total(
                lengths.of(run.term.extent) * run.term.flops * (run.model + run.recomputed)
                for run in runs
                if run.term.flops
            )
            * self.passes.repeats
        )

    def edited(self, edit: Edit) -> CountedStep:
        """With one more edit of the terms."""
        return replace(self, edits=(*self.edits, edit))

    def reshaped(self, change: Callable[[Decoder], Decoder]) -> CountedStep:
        """With another decoder in the place of the model's."""
        assert self.model.shape is not None
        return replace(self, model=replace(self.model, shape=change(self.model.shape)))


@dataclass(frozen=True, slots=True)
class CauseFacts:
    """What is known of a job. None = not known, which excludes nothing."""

    job: CountedStep | None = None
    executed: Lengths | None = None
    """The samples of a step with their padding, where the job pads."""
    forward_only: bool | None = None
    recompute: Recompute | None = None
    gpu: str | None = None
    """As NVML names it."""
    gpus: int | None = None
    precision: Mapping[str, float] | None = None
    """The share of the FLOPs in each."""
    peak_flops: float | None = None
    """FLOP/s of one GPU that the report divides by."""
    tile_overhead: float | None = None
    """What tiles add to the FLOPs: executed over theoretical, minus 1."""
    tile_overhead_bound: Bound | None = None
    """Where it is a lower one, tiles add at least so much."""

    def row(self) -> GpuModel | None:
        """The GPU's row of the table."""
        return None if self.gpu is None else find(Gpu(index="", uuid="", name=self.gpu))

    def right_peak(self) -> float | None:
        """The dense peak that the report should divide by; None where GPU or precision isn't known."""
        if self.gpu is None or self.precision is None:
            return None
        return effective_peak(self.precision, {p: dense_peak(self.gpu, p) for p in self.precision})


class Side(str, Enum):
    """Which of the two numbers a cause moves."""

    REPORT = "report"
    """The reported MFU is wrong."""
    HARDWARE = "hardware"
    """The hardware runs what a right MFU does not count."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One cause with one ratio."""

    evidence: str
    """One sentence: what would be so, and which facts speak for it."""
    ratio: float = 1.0
    """Reported over right MFU, or right MFU over OFU; the upper end where it is a range."""
    lowest: float | None = None
    """The lower end of a range."""
    miscount: Callable[[CountedStep], CountedStep] | None = None
    """The job as the report counts it, in the place of a ratio."""
    rarity: float | None = None
    """In the place of the cause's own, where the facts make it likelier."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that goes wrong, or is rightly left out."""

    slug: str
    """A stable name: it stands in labels of metrics."""
    side: Side
    rarity: float
    """-ln of how often it is met where the facts allow it: a guess, written down. 1 is common, 5 is rare."""
    hypotheses: Callable[[CauseFacts], Iterator[Hypothesis]]
    needs: tuple[str, ...] = ()
    """Facts without which it has no ratio."""


class _Module(Protocol):
    CAUSES: tuple[Cause, ...]


_MODULES: Registry[_Module] = Registry(__name__, "subject of causes")


@cache
def causes() -> tuple[Cause, ...]:
    """Every cause, in the order of their modules' names."""
    return tuple(cause for name in _MODULES.names() for cause in _MODULES.load(name).CAUSES)
