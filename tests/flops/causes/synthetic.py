"""Makes jobs of known mistakes: the mistaken count is counted with the FLOPs package itself, never with a cause.

OFU is what the hardware executes at the right peak, as in real training (docs/hardware.md), with 1 point of noise.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ofu_exporter import flops
from ofu_exporter.flops.causes import CauseFacts, causes
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.flops.explain import UNDECIDED, Explanation, Observation, explain
from tests.flops.counting import config

H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-80GB"
BF16 = {"bf16": 1.0}
TRAINING = flops.Passes()
NOISE = 0.01
REAL = (1.03, 1.16)
"""OFU over the FLOPs that a job runs, as on an H100."""


@dataclass(frozen=True)
class Step:
    """A step of a model as it is, and the facts that its user knows."""

    config: Mapping[str, Any]
    lengths: flops.Lengths
    passes: flops.Passes = TRAINING
    gpu: str = H100
    gpus: int = 64
    present: frozenset[str] = frozenset()
    precision: Mapping[str, float] | None = None
    padded: flops.Lengths | None = None

    @cached_property
    def model(self) -> flops.Model:
        return flops.read(self.config)

    @cached_property
    def overhead(self) -> float:
        """FLOPs that the hardware executes over those that the model needs."""
        return self.executed() / self.flops()

    def flops(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        counting: flops.Counting | None = None,
        passes: flops.Passes | None = None,
        lengths: flops.Lengths | None = None,
        without: tuple[flops.Part, ...] = (),
    ) -> float:
        """Model FLOPs of the step, or as somebody takes it who has something wrong."""
        how = flops.How("model", counting or flops.Counting(), passes or self.passes)
        model = flops.read(config) if config else self.model
        counted = flops.count(model, lengths or self.lengths, how)
        return float(sum(line.model for line in counted.lines if line.term.part not in without))

    def executed(self) -> float:
        """With what is computed again."""
        how = flops.How("model", flops.Counting(), self.passes)
        counted = flops.count(self.model, self.lengths, how, self.padded)
        return float(counted.hardware_flops_per_step)

    def facts(self) -> CauseFacts:
        """What its user can say. Nobody says what is recomputed."""
        plain = replace(self.passes, recompute=flops.Recompute.NONE, recompute_layers=None)
        return CauseFacts(
            CountedStep(self.model, self.lengths, flops.Counting(), plain),
            executed=self.padded,
            forward_only=self.passes.forward_only,
            gpu=self.gpu,
            present=self.present,
            gpus=self.gpus,
            precision=self.precision or BF16,
        )


def explained(step: Step, mistake: float, seed: int, throughput: bool = False) -> Explanation:
    """The explanation of one noisy run. `mistake`: reported MFU over the right one."""
    draw = random.Random(f"job {seed}")
    right = draw.uniform(0.3, 0.6) / max(step.overhead, 1)
    ofu = right * step.overhead * draw.uniform(*REAL) + draw.gauss(0, NOISE)
    seen = Observation(right * mistake, ofu, NOISE, right if throughput else None)
    return explain(seen, step.facts())


def named(found: Explanation) -> list[str]:
    """The causes of an explanation that have a name, in their order."""
    return [each.cause for each in found.causes if each.cause != UNDECIDED]


def ratios(slug: str, facts: CauseFacts) -> list[float]:
    """The ratios of all hypotheses of a cause."""
    (cause,) = [each for each in causes() if each.slug == slug]
    found = []
    for each in cause.hypotheses(facts):
        if each.miscount is None:
            found.append(each.ratio)
        else:
            assert facts.step
            found.append(each.miscount(facts.step).flops() / facts.step.flops())
    return found


def known(of: Step, **changed: object) -> CauseFacts:
    """The facts of a step, some of them changed."""
    return replace(of.facts(), **changed)  # type: ignore[arg-type]


def batch(size: int = 8, **streams: int) -> flops.Lengths:
    return flops.fixed(size, **streams)


LLAMA = Step(config("llama-3-8b"), batch(tokens=8192))
LONG = Step(config("qwen3-8b"), batch(tokens=32768))
GPT2 = Step(config("gpt2"), batch(tokens=1024))
MIXTRAL = Step(config("mixtral-8x7b"), batch(tokens=4096))
QWEN_MOE = Step(config("qwen3-30b-a3b"), batch(tokens=4096))
DEEPSEEK = Step(config("deepseek-v2-lite"), batch(tokens=4096))
LATENT = Step(
    json.loads((Path(__file__).parent / "configs" / "latent-moe-16b.json").read_text()),
    batch(tokens=4096),
)
HYBRID = Step(config("nemotron-h-8b"), batch(tokens=8192))
SPARSE_HYBRID = Step(config("nemotron-3-nano-30b-a3b"), batch(tokens=8192))
BERT = Step(config("bert-base-uncased"), batch(tokens=8192))
