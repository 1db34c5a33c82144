"""Lists the causes that may make a job's reported MFU differ from the OFU of its GPUs.

A cause is a function in a module of this package. From the facts of a job it makes hypotheses, each with the ratio
that it would give, or none if the facts exclude the cause: reported MFU over right MFU, for a mistake in the report, or
right MFU over OFU, for work that the report rightly leaves out. A mistake in the count is not a number but a change of
the counted step, so that two of them combine as they would in a formula.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache, wraps
from types import ModuleType

from ofu_exporter.flops import Lengths, Part, Recompute
from ofu_exporter.flops.counted_step import CountedStep, Edit
from ofu_exporter.flops.mfu import dense_peak, effective_peak, row_of
from ofu_exporter.flops.passes import check_recompute
from ofu_exporter.flops.shapes import Decoder, Layer
from ofu_exporter.hardware.gpu_models import GpuModel
from ofu_exporter.support.registry import Registry
from ofu_exporter.values.reported import Bound

LayerChange = Callable[[Layer, Decoder], Layer]
"""Takes a layer of a decoder for another."""


def in_part(part: Part, edit: Edit) -> Edit:
    """The edit in the terms of a part alone."""
    return lambda term: edit(term) if term.part is part else term


def without(part: Part) -> Edit:
    """An edit that leaves out the terms of a part."""
    return in_part(part, lambda _: None)


def every_pair(step: CountedStep) -> CountedStep:
    """The step with every pair of query and key."""
    return replace(step, counting=replace(step.counting, causal=False))


def layers_of(step: CountedStep | None) -> Collection[Layer]:
    """The layers of a decoder, of which most are one object: each once."""
    layers = step.model.shape.layers if step and step.model.shape else ()
    return {id(layer): layer for layer in layers}.values()


def each_layer(step: CountedStep, change: LayerChange) -> CountedStep:
    """The step of a model whose layers are changed, those of multi-token prediction included."""
    shape = step.model.shape
    assert shape is not None
    changed = {id(layer): change(layer, shape) for layer in layers_of(step)}
    layers = tuple(changed[id(layer)] for layer in shape.layers)
    return replace(step, model=replace(step.model, shape=replace(shape, layers=layers)))


@dataclass(frozen=True, slots=True)
class CauseFacts:
    """What is known of a job. None = not known, which excludes no cause."""

    step: CountedStep | None = field(default=None, hash=False)
    executed: Lengths | None = None
    """The samples of a step with their padding, if the job pads."""
    forward_only: bool | None = None
    recompute: Recompute | None = None
    gpu: str | None = None
    """The GPU's name in NVML."""
    gpus: int | None = None
    precision: Mapping[str, float] | None = field(default=None, hash=False)
    """The share of the FLOPs in each precision."""
    peak_flops: float | None = None
    """FLOP/s of one GPU that the report divides by."""
    tile_overhead: float | None = None
    """What tiles add to the FLOPs: executed over theoretical, minus 1."""
    tile_overhead_bound: Bound | None = None
    """Whether the overhead is exact or a lower bound (tiles add at least this share)."""
    accumulation: int | None = None
    """Micro-batches whose gradients one step of the optimizer adds up."""
    pack_length: int | None = None
    """Tokens of the packs that the samples of a step are joined to."""
    present: frozenset[str] = frozenset()
    """The names in NVML of all GPUs of the node, as far as they are known."""
    engine: str = ""
    """The serving engine whose own count of forward passes it is; "" = of none."""

    def __post_init__(self) -> None:
        check_recompute(self.forward_only, self.recompute)

    def row(self) -> GpuModel | None:
        return None if self.gpu is None else row_of(self.gpu)

    def right_peak(self) -> float | None:
        """The dense peak that the report should divide by; None if GPU or precision is not known."""
        if self.gpu is None or self.precision is None:
            return None
        return effective_peak(self.precision, {p: dense_peak(self.gpu, p) for p in self.precision})


Change = Callable[[CountedStep], CountedStep]
FORMULA = "formula"
"""The subject "which convention the count follows"."""


class Side(str, Enum):
    """Which of the two numbers a cause changes."""

    REPORT = "report"
    """The reported MFU is wrong."""
    HARDWARE = "hardware"
    """The hardware runs FLOPs that a right MFU does not count."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One cause with one ratio."""

    evidence: str = ""
    """One sentence: what went wrong, and which facts speak for it; "" = the cause's own meaning."""
    ratio: float = 1.0
    """Reported over right MFU, or right MFU over OFU; the upper end of a range."""
    lowest: float | None = None
    """The lower end of a range."""
    miscount: Change | None = None
    """Makes the step as the report counts it; used instead of a ratio."""
    rarity: float | None = None
    """Replaces the cause's own rarity if the facts make the cause likelier."""
    is_alone: bool = False
    """Whether it makes no pair with another cause: with a wide range, nearly any would fit."""
    says: Mapping[str, str] = field(default_factory=dict)
    """What must be true of the job, its count or its peak, by subject, if this is the cause."""

    def contradicts(self, other: Hypothesis) -> bool:
        """Whether the two cannot both be true of one report, because they say different things about one subject."""
        ours, theirs = self._statements(), other._statements()
        return any(ours[subject] != theirs[subject] for subject in ours.keys() & theirs.keys())

    def _statements(self) -> Mapping[str, str]:
        """A mistake in the job's own count is not part of a published convention."""
        return {FORMULA: "own", **self.says} if self.miscount else self.says


Hypotheses = Callable[[CauseFacts], Iterator[Hypothesis]]


@dataclass(frozen=True, slots=True)
class MfuCause:
    """One thing that goes wrong, or is rightly left out."""

    slug: str
    """A stable name, which is used in labels of metrics."""
    rarity: float
    """-ln of how often the cause occurs in jobs whose facts allow it. This is an estimate: 1 is common, 5 is rare."""
    meaning: str
    """What is wrong, or rightly left out, in any job: the sentence where a hypothesis has no evidence of its own."""
    hypotheses: Hypotheses
    needs: tuple[str, ...]
    """Facts without which the cause has no ratio."""
    settled_by: tuple[str, ...]
    """Facts that say by themselves whether it is this cause."""
    shown_ratio: str
    """The ratio in the documentation; "computed" from the model's own terms, with and without the mistake."""
    side: Side


def cause(
    rarity: float,
    *,
    needs: tuple[str, ...] = (),
    settled_by: tuple[str, ...] = (),
    shown_ratio: str = "computed",
    side: Side = Side.REPORT,
) -> Callable[[Hypotheses], MfuCause]:
    """Makes a cause of a function of its hypotheses, whose name is the slug and whose docstring the meaning."""

    def named(make: Hypotheses) -> MfuCause:
        sentence = (make.__doc__ or "").removesuffix(".")
        meaning = sentence[:1].lower() + sentence[1:]
        return MfuCause(make.__name__, rarity, meaning, make, needs, settled_by, shown_ratio, side)

    return named


def miscount(
    rarity: float,
    applies: Callable[[CountedStep], bool],
    says: Mapping[str, str] | None = None,
    shown_ratio: str = "computed",
    needs: tuple[str, ...] = ("config",),
) -> Callable[[Change], MfuCause]:
    """Makes a cause of a function that changes a step to what is counted, where the mistake `applies`."""

    def named(change: Change) -> MfuCause:
        @wraps(change)
        def hypotheses(facts: CauseFacts) -> Iterator[Hypothesis]:
            if facts.step and applies(facts.step):
                yield Hypothesis(miscount=change, says=says or {})

        return cause(rarity, needs=needs, shown_ratio=shown_ratio)(hypotheses)

    return named


_MODULES: Registry[ModuleType] = Registry(__name__, "subject of causes")


@cache
def causes() -> tuple[MfuCause, ...]:
    """Every cause, in the order of their modules' names and of their lines."""
    modules = map(_MODULES.load, _MODULES.names())
    values = (value for module in modules for value in vars(module).values())
    return tuple(value for value in values if isinstance(value, MfuCause))
