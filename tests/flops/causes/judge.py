"""Judges the causes by jobs whose mistakes are computed by hand: `python -m tests.flops.causes.judge`.

No count of the package makes a number here: sizes are those of the model cards, FLOPs are written out below, peaks are
those of the datasheets. A mistake is a ratio of two such counts. OFU is what the GPUs run, with up to 2 % of tiles and
an error of one point. The judge asks of 40 mistakes whether each is named first, and of 1,000 honest jobs whether any
is accused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ofu_exporter import flops
from ofu_exporter.flops.causes import CauseFacts, CountedStep, Side, causes
from ofu_exporter.flops.explain import Explanation, Observation, explain
from tests.flops.counting import config

H100, A100, PCIE = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 PCIe"
ERROR, TILES = 0.01, 0.02
SEEDS = 10
HONEST = 1000
TRAINING = flops.Passes()


@dataclass(frozen=True)
class Sizes:
    """A transformer by the numbers of its card, or as somebody takes it who has something wrong."""

    name: str
    layers: int
    hidden: int
    heads: int
    groups: int
    dim: int
    width: int
    vocab: int
    length: int = 4096
    matrices: int = 3
    experts: int = 0
    active: int = 1
    causal: bool = True
    window: int = 0
    """Of every other layer."""
    transform: int = 0
    """Width of a layer before the head."""
    head: bool = True
    embedding: bool = False
    cores: float = 1.0

    def forward(self, lengths: tuple[int, ...] = ()) -> float:
        """FLOPs of a forward pass over sequences."""
        lengths = lengths or (self.length,)
        q, kv = self.heads * self.dim, self.groups * self.dim
        block = self.matrices * self.hidden * self.width * self.active + self.hidden * self.experts
        layer = self.hidden * (2 * q + 2 * kv) + block
        ends = self.hidden * self.vocab * (self.head + self.embedding)
        ends += self.hidden * self.transform
        tokens = sum(lengths)
        seen = sum(self._pairs(length) for length in lengths)
        return 2 * tokens * (self.layers * layer + ends) + 4 * q * seen * self.cores

    def _pairs(self, length: int) -> float:
        """Pairs of query and key over all layers."""
        whole = length**2 / (2 if self.causal else 1)
        if not self.window:
            return whole * self.layers
        band = self.window * (2 * length - self.window + 1) / 2
        return (whole + band) * self.layers / 2


LLAMA = Sizes("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 8192)
QWEN = Sizes("qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, 32768)
MIXTRAL = Sizes("mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, experts=8, active=2)
QWEN_MOE = Sizes("qwen3-30b-a3b", 48, 2048, 32, 4, 128, 768, 151936, experts=128, active=8)
GPT2 = Sizes("gpt2", 12, 768, 12, 12, 64, 3072, 50257, 1024, matrices=2)
OSS = Sizes("gpt-oss-20b", 24, 2880, 64, 8, 64, 2880, 201088, experts=32, active=4, window=128)
BERT = Sizes(
    *("bert-base-uncased", 12, 768, 12, 12, 64, 3072, 30522, 4096, 2), causal=False, transform=768
)
MODELS = (LLAMA, QWEN, MIXTRAL, QWEN_MOE, GPT2, OSS, BERT)


@dataclass(frozen=True)
class Mistake:
    """A job and what its report is times the right one."""

    cause: str
    model: Sizes
    ratio: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    passes: flops.Passes = TRAINING


def counted(cause: str, right: Sizes, **wrong: Any) -> Mistake:
    """A mistake of the count, which takes the model for another one."""
    return Mistake(cause, right, replace(right, **wrong).forward() / right.forward())


def adapters(model: Sizes, rank: int) -> Mistake:
    """Everything counted as trained, where only adapters of a rank are, on each linear layer of the layers."""
    h, q, kv, f = model.hidden, model.heads * model.dim, model.groups * model.dim, model.width
    sides = 2 * (h + q) + 2 * (h + kv) + model.matrices * (h + f)
    low = 2 * model.length * model.layers * rank * sides
    whole = model.forward()
    cores = whole - replace(model, cores=0.0).forward()
    right = 2 * (whole - cores) + 3 * (low + cores)
    return Mistake(
        "frozen_counted", model, 3 * whole / right, passes=flops.Passes(lora=flops.Lora(rank))
    )


PACK = (700, 1500, 900, 3000, 2092)
FULL = {"causal": False}
BARE = {"cores": 0.0}
FP8 = {"precision": {"fp8": 1.0}}
MIX = {"precision": {"fp8": 0.7, "bf16": 0.3}}
FORWARD = flops.Passes(forward_only=True)

MISTAKES = (
    counted("full_attention_counted", LLAMA, **FULL),
    counted("full_attention_counted", QWEN, **FULL),
    counted("full_attention_counted", MIXTRAL, **FULL),
    counted("full_attention_counted", QWEN_MOE, **FULL),
    counted("attention_omitted", LLAMA, **BARE),
    counted("attention_omitted", QWEN, **BARE),
    counted("attention_omitted", QWEN_MOE, **BARE),
    counted("attention_omitted", BERT, **BARE),
    counted("embedding_counted", LLAMA, embedding=True),
    counted("embedding_counted", QWEN_MOE, embedding=True),
    counted("embedding_counted", GPT2, embedding=True),
    counted("head_omitted", LLAMA, head=False),
    counted("head_omitted", GPT2, head=False),
    counted("head_omitted", OSS, head=False),
    counted("gating_miscounted", LLAMA, matrices=2),
    counted("gating_miscounted", MIXTRAL, matrices=2),
    counted("gating_miscounted", GPT2, matrices=3),
    counted("groups_ignored", LLAMA, groups=32),
    counted("groups_ignored", QWEN, groups=32),
    counted("all_experts_counted", MIXTRAL, active=8),
    counted("all_experts_counted", QWEN_MOE, active=128),
    counted("all_experts_counted", OSS, active=32),
    counted("head_dim_from_hidden", QWEN_MOE, dim=64),
    counted("head_dim_from_hidden", OSS, dim=45),
    counted("sliding_window_ignored", OSS, window=0),
    counted("causal_half_missing", BERT, cores=0.5),
    adapters(LLAMA, 64),
    Mistake(
        "pack_as_one_sequence",
        LLAMA,
        LLAMA.forward((sum(PACK),)) / LLAMA.forward(PACK),
        lengths=PACK,
    ),
    Mistake("recompute_counted", LLAMA, 4 / 3),
    Mistake("forward_only", LLAMA, 3.0, passes=FORWARD),
    Mistake("forward_only", MIXTRAL, 1 / 3),
    Mistake("sparse_peak", LLAMA, 0.5, {"gpu": A100}),
    Mistake("sparse_peak", GPT2, 0.5, {"gpu": A100}),
    Mistake("bf16_peak_for_fp8", LLAMA, 2.0, FP8),
    Mistake("bf16_peak_for_fp8", MIXTRAL, 1 / 0.65, MIX),
    Mistake("tf32_peak", LLAMA, 2.0, {"peak_flops": 494.7e12}),
    Mistake("max_clock_peak", LLAMA, 1830 / 1980),
    Mistake("wrong_device", LLAMA, 756 / 989.4, {"gpu": PCIE, "present": frozenset({H100})}),
    Mistake("wrong_gpu_count", LLAMA, 8.0),
    Mistake("wrong_gpu_count", MIXTRAL, 1 / 64),
)


def facts_of(job: Mistake) -> CauseFacts:
    """What the user of a job says of it: everything but what is recomputed."""
    lengths = flops.packed(job.lengths) if job.lengths else flops.fixed(8, tokens=job.model.length)
    step = CountedStep(flops.read(config(job.model.name)), lengths, flops.Counting(), job.passes)
    known = {"gpu": H100, "gpus": 64, "precision": {"bf16": 1.0}, **job.facts}
    return CauseFacts(step, forward_only=job.passes.forward_only, **known)


def explained(job: Mistake, seed: int, executed: float = 1.0) -> Explanation:
    """One run of a job. `executed`: what the GPUs run over what the model needs."""
    draw = random.Random(f"{job.cause} {job.model.name} {seed}")
    right = draw.uniform(0.3, 0.55) / executed
    ofu = right * executed * (1 + draw.uniform(0, TILES)) + draw.gauss(0, ERROR)
    seen = Observation(round(right * job.ratio, 3 if job.ratio > 0.1 else 5), ofu, ERROR, right)
    return explain(seen, facts_of(job))


def missed(seed: int) -> list[tuple[str, str, str]]:
    """The mistakes that are not named first: cause, model, and what is named."""
    found = []
    for job in MISTAKES:
        first = next((each.cause for each in explained(job, seed).causes), "nothing")
        if first != job.cause:
            found.append((job.cause, job.model.name, first))
    return found


def accused() -> list[tuple[str, str]]:
    """The honest jobs that are accused, with the first cause: a third of them recompute, and nobody says so."""
    reports = {cause.slug for cause in causes() if cause.side is Side.REPORT}
    found = []
    for seed in range(HONEST):
        model = MODELS[seed % len(MODELS)]
        # The layers run again, the head does not.
        head = 2 * model.length * model.hidden * model.vocab / model.forward()
        executed = (4 - head) / 3 if seed % 3 == 0 else 1.0
        run = explained(Mistake("honest", model, 1.0), seed, executed)
        first = run.causes[0] if run.causes else None
        blamed = first is not None and bool(reports & {*first.causes})
        if blamed or (executed == 1.0 and (run.causes or run.looked)):
            found.append((model.name, first.cause if first else run.divergence.verdict.value))
    return found


def main(say: Callable[[str], None] = print) -> None:
    """Print what is missed and who is accused."""
    for seed in range(SEEDS):
        wrong = missed(seed)
        say(f"seed {seed}: {len(MISTAKES) - len(wrong)} of {len(MISTAKES)} mistakes first")
        for cause, model, first in wrong:
            say(f"  {cause} of {model}: {first}")
    found = accused()
    say(f"{len(found)} of {HONEST} honest jobs accused")
    for each in found:
        say(f"  {': '.join(each)}")


if __name__ == "__main__":
    main()
