"""Causes in what a step runs: tiles in every honest job, recomputation, frozen parts, other passes, and padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from ofu_exporter.flops import Lengths, Part, Recompute, fixed
from ofu_exporter.flops.causes import (
    FORMULA,
    CauseFacts,
    Hypothesis,
    Side,
    cause,
    each_layer,
    every_pair,
    miscount,
    without,
)
from ofu_exporter.flops.causes.attention import every_key
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.ofu.honest_ratio import honest_ratio

USUAL_TILES = 0.02
"""What tiles add in large models: it is in every honest ratio."""
SOME_LAYERS = 1.25
"""Rarity of a job that computes the activations of some layers again, which no number tells from mistakes of the same
ratio: it stands before these, because it is none."""
TRAINS = {"job": "trains"}
"""What most of these causes say of the job."""
TEXTBOOK = 4 / 3
"""Four forwards over three: a recomputed forward in addition to the forward pass and a backward pass of two."""


def real_work(facts: CauseFacts) -> tuple[float, float]:
    """Right MFU over OFU of an honest job, from and to."""
    row = facts.row()
    low, high, _ = honest_ratio(row.key if row else None, facts.precision)
    if facts.tile_overhead is None:
        return low, high
    tiles = 1 + facts.tile_overhead
    rest = low if facts.tile_overhead_bound == "lower" else low * (1 + USUAL_TILES)
    return rest / tiles, 1 / tiles


@cause(1.0, shown_ratio="down to 0.83, 0.86 on an H100, or as given", side=Side.HARDWARE)
def tile_quantization(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Tiles, the backward pass of attention and the clock, which no MFU counts."""
    low, high = real_work(facts)
    most = f"real training shows an OFU up to {1 / low - 1:.0%} above its MFU"
    yield Hypothesis(f"{most}: {tile_quantization.meaning}", high, low)


@cause(1.0, settled_by=("recompute",), shown_ratio="computed, else 0.75", side=Side.HARDWARE)
def activation_recompute(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The job may recompute activations, which the hardware runs and MFU rightly leaves out."""
    if facts.forward_only or facts.recompute not in (None, Recompute.FULL):
        return
    doing = "the job recomputes" if facts.recompute else "the job may recompute"
    left_out = "which the hardware runs and MFU rightly leaves out"
    says = TRAINS | {"recompute": "full"}
    ratio, layers = 1 / TEXTBOOK, None
    if facts.step is not None:
        ratio = facts.step.flops() / facts.step.flops(Recompute.FULL)
        layers = facts.step.passes.recompute_layers
    rarity = 0.0 if facts.recompute else None
    yield Hypothesis(f"{doing} activations, {left_out}", ratio, rarity=rarity, says=says)
    if layers is None:
        yield Hypothesis(
            f"{doing} activations in some of its layers, {left_out}",
            1.0,
            ratio,
            rarity=0.5 if facts.recompute else SOME_LAYERS,
            says=says,
            is_alone=True,
        )


@cause(1.5, needs=("config",), settled_by=("recompute",), side=Side.HARDWARE)
def selective_recompute(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Attention cores run again in the backward pass, which MFU rightly leaves out."""
    if facts.forward_only or facts.recompute not in (None, Recompute.SELECTIVE):
        return
    if facts.step and facts.step.has(Part.CORE):
        yield Hypothesis(
            ratio=facts.step.flops() / facts.step.flops(Recompute.SELECTIVE),
            rarity=0.0 if facts.recompute else None,
            says=TRAINS | {"recompute": "selective"},
        )


@cause(2.0, shown_ratio="4/3; computed")
def recompute_counted(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The count is 4 forwards: HFU, reported as MFU."""
    if facts.forward_only:
        return
    says = TRAINS | {"count": "has backward passes"}
    yield Hypothesis(ratio=TEXTBOOK, says=says)
    if facts.step is not None:
        layers = facts.step.flops(Recompute.FULL) / facts.step.flops()
        yield Hypothesis(
            "the count is 4 forwards of the layers: HFU, reported as MFU", layers, says=says
        )


@cause(2.5, needs=("config",))
def selective_recompute_counted(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The attention cores are counted 4 times: their recomputation is in the report."""
    if facts.step and not facts.forward_only and facts.step.has(Part.CORE):
        ratio = facts.step.flops(Recompute.SELECTIVE) / facts.step.flops()
        yield Hypothesis(ratio=ratio, says=TRAINS | {"count": "has backward passes"})


@cause(2.0, needs=("config",), side=Side.HARDWARE)
def flash_backward(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Flash attention computes its scores again in the backward pass, which no MFU counts."""
    if facts.step is None or facts.forward_only:
        return
    whole = facts.step.flops()
    cores = whole - facts.step.edited(without(Part.CORE)).flops()
    if cores > 0:
        # The backward pass, two of the three forwards, has 5 products instead of 4: a sixth more for the cores.
        yield Hypothesis(ratio=whole / (whole + cores / 6), says=TRAINS)


@cause(3.5, settled_by=("training",), shown_ratio="3; 1/3")
def forward_only(facts: CauseFacts) -> Iterator[Hypothesis]:
    """A forward pass is counted as training, or training as a forward pass."""
    if facts.forward_only is not False and not facts.engine:
        yield Hypothesis(
            "the job runs forward passes only, and the count has backward passes too",
            3.0,
            rarity=1.0 if facts.forward_only else None,
            says={"job": "runs forward only", "count": "has backward passes"},
        )
    if not facts.forward_only:
        says = TRAINS | {"count": "has no backward pass"}
        evidence = "the job trains, and the count has the forward pass only"
        yield Hypothesis(evidence, 1 / 3, says=says)


@miscount(
    1.0,
    lambda step: bool(step.passes.lora or step.passes.frozen),
    TRAINS | {"count": "has backward passes"},
    shown_ratio="computed, up to 1.5 with adapters",
    needs=("config", "lora_rank"),
)
def frozen_counted(step: CountedStep) -> CountedStep:
    """Adapters or parts are trained and the rest is frozen, and the count trains everything."""
    return replace(step, passes=replace(step.passes, lora=None, frozen=frozenset()))


@cause(2.0, needs=("config", "repeats"), shown_ratio="1/repeats")
def repeats_missed(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The model runs several times per sample (timesteps, guidance, epochs), and the count has one."""
    repeats = facts.step.passes.repeats if facts.step else 1
    if repeats > 1:
        evidence = f"the model runs {repeats} times per sample, and the count has one"
        yield Hypothesis(evidence, 1 / repeats)


@cause(1.5, needs=("config", "padded_to"))
def padding_counted(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Samples are counted as long as they are padded to, and the kernels skip the padding."""
    if facts.step and facts.executed:
        change = partial(replace, lengths=facts.executed)
        yield Hypothesis(miscount=change, says={"padding": "is skipped"})


@cause(1.0, needs=("config", "padded_to"), side=Side.HARDWARE)
def padding_run(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The hardware runs the padding, which MFU rightly leaves out."""
    if facts.step and facts.executed:
        padded = replace(facts.step, lengths=facts.executed)
        ratio = facts.step.flops() / padded.flops()
        yield Hypothesis(ratio=ratio, says={"padding": "is run"})


@cause(2.0, needs=("config", "lengths"), settled_by=("pack_length",))
def pack_as_one_sequence(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Sequences are packed, and the count lets each token attend to the whole pack."""
    if facts.step is None or facts.step.lengths.streams != {"tokens"}:
        return
    lengths = facts.step.lengths
    for length in _pack_lengths(lengths, facts.pack_length):
        packs = "the whole pack" if length >= lengths.tokens() else f"a whole pack of {length}"
        yield Hypothesis(
            f"sequences are packed, and the count lets each token attend to {packs}",
            miscount=partial(_joined, length=length),
        )


def with_whole_packs(facts: CauseFacts) -> CauseFacts:
    """The same job with steps that fill a pack, where equal samples do not: no ratio depends on their number."""
    step, pack = facts.step, facts.pack_length
    if step is None or pack is None or len(step.lengths.samples) != 1:
        return facts
    steps = max(1, pack // step.lengths.longest() // step.lengths.sequences())
    lengths = Lengths(tuple((sample, number * steps) for sample, number in step.lengths.samples))
    return replace(facts, step=replace(step, lengths=lengths))


@cause(2.0, needs=("config",))
def longest_length_counted(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Sequences are counted as long as the model allows (max_position_embeddings)."""
    step = facts.step
    longest = step.model.longest if step else None
    if step is None or longest is None or step.lengths.streams != {"tokens"}:
        return
    if longest <= step.lengths.longest():
        return
    tokens = float(step.lengths.tokens())
    long = replace(step, lengths=fixed(1, tokens=longest))
    dense = each_layer(long, every_key) if step.model.shape else long
    ways = ((long, ""), (dense, ", and with every key"), (every_pair(long), ", with every pair"))
    for counted, also in ways:
        ratio = counted.flops() / longest / (step.flops() / tokens)
        evidence = f"sequences are counted as {longest} long, the model's maximum{also}"
        yield Hypothesis(evidence, ratio, says={FORMULA: "own"})


def _pack_lengths(lengths: Lengths, pack_length: int | None) -> Sequence[int]:
    """Tokens of a pack. Not given, samples of several lengths are one pack, or fill packs of a power of two."""
    if pack_length is not None:
        return (pack_length,) if pack_length >= lengths.longest() else ()
    tokens = int(lengths.tokens())
    if len(lengths.samples) < 2:
        return ()
    usual = (1 << power for power in range(11, 21))
    return (tokens, *(each for each in usual if lengths.longest() < each < tokens))


def _joined(step: CountedStep, length: int) -> CountedStep:
    """The step with its samples joined to sequences of a length; what is left over is a shorter one."""
    packs, rest = divmod(int(step.lengths.tokens()), length)
    sizes = [(number, each) for number, each in ((packs, length), (1, rest)) if number * each]
    return replace(step, lengths=sum((fixed(n, tokens=each) for n, each in sizes), Lengths()))
