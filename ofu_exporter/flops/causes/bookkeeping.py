"""Causes in the bookkeeping: GPUs that are counted wrongly, and formulas of other conventions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import conventions
from ofu_exporter.flops.causes import FORMULA, CauseFacts, Hypothesis, cause
from ofu_exporter.flops.step_count import complete

SMALL = (2, 4, 8)
"""Sizes of parallel groups that may be confused with the world size, for an unknown number of GPUs."""
NODE = 8
MOST_MODEL_PARALLEL = 256
"""GPUs that share one copy of a model, at most."""
PARALLEL = 4.5
"""Rarity of a data-parallel size that is no usual number of GPUs."""
TOO_MANY = 5.0
"""Rarity of more GPUs than the job has: those of its nodes or racks that it leaves alone."""
USUAL = (2, 4, 8, 16, 32, 64)
"""Steps of gradient accumulation to try if their number is not given."""
GIVEN = 2.0
"""Rarity of a mistake with an accumulation that the job is known to have."""
COUNTED_TWICE = 6.0
"""Rarity of an accumulation that is not known and counted twice."""


@cause(4.0, settled_by=("gpus",), shown_ratio="world/counted")
def wrong_gpu_count(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The report divides by a wrong number of GPUs."""
    if facts.gpus is None:
        for number in SMALL:
            yield Hypothesis(f"one GPU in {number} is divided by", float(number))
        return
    world = facts.gpus
    power_of_two = 1 << (world.bit_length() - 1)
    used = {world // times for times in SMALL if world % times == 0}
    used |= {1, NODE, world - NODE, power_of_two, 3 * world // 4}
    parallel = {world // each for each in range(2, MOST_MODEL_PARALLEL + 1) if world % each == 0}
    for number in sorted(used | parallel):
        if 0 < number < world:
            size = ", which may be its data-parallel size" if number in parallel else ""
            evidence = f"{number} of the {world} GPUs are divided by{size}"
            rarity = None if number in used else PARALLEL
            yield Hypothesis(evidence, world / number, rarity=rarity)
    if world > 1:
        yield Hypothesis(f"the throughput is of one GPU, and divided by {world}", 1 / world)
    more = {2 * power_of_two} | {world * times for times in SMALL}
    more |= {world + NODE} if world % NODE == 0 else set()
    for number in sorted(more):
        evidence = f"{number} GPUs are divided by, and the job has {world}"
        yield Hypothesis(evidence, world / number, rarity=TOO_MANY)


@cause(4.5, settled_by=("accumulation",), shown_ratio="1/n; n")
def gradient_accumulation(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Several micro-batches make a step, and the count has one of them, or has them twice."""
    if facts.forward_only:
        return
    accumulation = facts.accumulation
    once, twice = (None, COUNTED_TWICE) if accumulation is None else (GIVEN, GIVEN)
    for steps in USUAL if accumulation is None else (accumulation,):
        if steps > 1:
            missing = f"{steps} micro-batches make a step, and the count has one of them"
            yield Hypothesis(missing, 1 / steps, rarity=once)
            doubled = f"the count has all {steps} micro-batches of a step, and is multiplied by {steps} once more"
            yield Hypothesis(doubled, float(steps), rarity=twice)


@cause(2.5, needs=("config",))
def other_convention(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The count follows another convention."""
    step = facts.step
    if step is None or step.passes.lora or step.passes.frozen:  # which only the own counts
        return
    if facts.engine:  # whose count is its own
        return
    right = step.flops()
    for name in conventions.names():
        with suppress(ConfigError):  # not defined for this model, these choices or lengths
            complete(step.model, step.lengths)
            ratio = replace(step, convention=name).flops() / right
            if abs(ratio - 1) > 1e-6:
                yield Hypothesis(
                    f"the convention {name} counts this way", ratio, says={FORMULA: name}
                )


@cause(5.0, shown_ratio="1.03 to 2")
def time_left_out(_: CauseFacts) -> Iterator[Hypothesis]:
    """The time of a step leaves out a part of it: data loading, the optimizer, evaluation, checkpoints."""
    yield Hypothesis(ratio=2.0, lowest=1.03, is_alone=True)


@cause(5.0, shown_ratio="0.3 to 0.97")
def warm_up_in_mean(_: CauseFacts) -> Iterator[Hypothesis]:
    """The mean has slow first steps or pauses, and OFU has not."""
    yield Hypothesis(ratio=0.97, lowest=0.3, is_alone=True)
