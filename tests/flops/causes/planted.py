"""Plants 60 mistakes of ten kinds in six architectures, and makes 600 honest jobs.

`python -m tests.flops.causes.planted` prints what is missed and who is accused.

Nothing of the package counts here. FLOPs are written out from the sizes of the model cards, peaks are those of the data
sheets. A job runs as real training was measured to run (docs/hardware.md): its OFU is 1.00 to 1.13 times what its FLOPs
need, through tiles, the backward pass of attention and the clock, and every third job recomputes and does not say so.
The user knows configuration, length, card, number of GPUs, precision and tokens per second.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ofu_exporter import flops
from ofu_exporter.flops.causes import CauseFacts, CountedStep, Side, causes
from ofu_exporter.flops.explain import Explanation, Observation, explain
from tests.flops.counting import config

SEEDS, HONEST = 10, 600
ERROR = 0.01
"""Standard error of OFU."""
REAL = (1.0, 1.13)
"""OFU over the FLOPs that a job runs: from matrix products alone to real training."""
SAME = 0.01
"""Two mistakes whose reports differ by less than this are told apart by no number."""

PEAKS = {
    "NVIDIA A100-SXM4-80GB": 312,
    "NVIDIA H100 80GB HBM3": 989.4,
    "NVIDIA H100 PCIe": 756,
    "NVIDIA H200": 989.4,
    "NVIDIA H20": 148,
    "NVIDIA B200": 2250,
    "NVIDIA GB200": 2500,
    "NVIDIA B300 SXM6 AC": 2250,
    "NVIDIA GB300": 2500,
}
"""Dense BF16 TFLOP/s."""
A100, H100, PCIE, H200, H20, B200, GB200, B300, GB300 = PEAKS


@dataclass(frozen=True)
class Sizes:
    """A model by the numbers of its card, or as somebody takes it who has something wrong."""

    name: str
    length: int
    layers: int
    """Layers with attention."""
    hidden: int
    heads: int
    groups: int
    dim: int
    width: int
    vocab: int
    matrices: int = 3
    blocks: int | None = None
    """Layers with a dense block; None = as many as have attention."""
    sparse: int = 0
    """Layers with experts."""
    experts: int = 0
    active: int = 0
    shared: int = 0
    expert_width: int = 0
    latent: int = 0
    """Rank of the latent keys and values; heads then are `dim` wide, and 64 more for the positions of the keys."""
    window: int = 0
    """Of every other layer."""
    states: int = 0
    """Layers of Mamba-2: 128 heads of 64, 8 groups of 128 states, kernels of 4."""
    causal: bool = True
    cores: bool = True
    head: bool = True
    embedding: bool = False

    def forward(self) -> float:
        """FLOPs of a forward pass over one sequence: two for each multiply-add."""
        dense = self.layers if self.blocks is None else self.blocks
        per_token = self.layers * self._projections() + self.states * self._mamba()
        per_token += dense * self.matrices * self.hidden * self.width
        used = self.active + self.shared
        per_token += self.sparse * self.hidden * (3 * used * self.expert_width + self.experts)
        per_token += self.hidden * self.vocab * (self.head + self.embedding)
        return 2 * self.length * per_token + 2 * self._core()

    def _projections(self) -> float:
        q, kv = self.heads * self.dim, self.groups * self.dim
        if not self.latent:
            return self.hidden * (2 * q + 2 * kv)
        query = self.hidden * self.heads * (self.dim + 64)
        keys = self.hidden * (self.latent + 64) + self.latent * 2 * q
        return query + keys + q * self.hidden

    def _core(self) -> float:
        """Queries with keys, and their weights with values."""
        widths = self.heads * (2 * self.dim + (64 if self.latent else 0))
        whole = self.length**2 / (2 if self.causal else 1)
        band = self.window * self.length - self.window * (self.window - 1) / 2
        pairs = (whole + band) / 2 if self.window else whole
        return self.cores * self.layers * widths * pairs

    def _mamba(self) -> float:
        inner, groups, states = 128 * 64, 8, 128
        ins = self.hidden * (2 * inner + 2 * groups * states + 128)
        return ins + inner * self.hidden + 3.5 * inner * states


QWEN = Sizes("qwen2.5-7b", 16384, 28, 3584, 28, 4, 128, 18944, 152064)
NEOX = Sizes("gpt-neox-20b", 8192, 44, 6144, 64, 64, 96, 24576, 50432, matrices=2)
GEMMA = Sizes("gemma-2-9b", 16384, 42, 3584, 16, 8, 256, 14336, 256000, window=4096)
DEEPSEEK = Sizes(
    *("deepseek-v2-lite", 8192, 27, 2048, 16, 16, 128, 10944, 102400),
    blocks=1,
    sparse=26,
    experts=64,
    active=6,
    shared=2,
    expert_width=1408,
    latent=512,
)
NEMOTRON = Sizes(
    *("nemotron-h-8b", 32768, 4, 4096, 32, 8, 128, 21504, 131072, 2), blocks=24, states=24
)
OLMOE = Sizes(
    *("olmoe-1b-7b", 4096, 16, 2048, 16, 16, 128, 1024, 50304),
    blocks=0,
    sparse=16,
    experts=64,
    active=8,
    expert_width=1024,
)
MODELS = (QWEN, NEOX, GEMMA, DEEPSEEK, NEMOTRON, OLMOE)
OLMOE_CONFIG = {
    "architectures": ["OlmoeForCausalLM"],
    "model_type": "olmoe",
    "hidden_size": 2048,
    "intermediate_size": 1024,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "vocab_size": 50304,
    "tie_word_embeddings": False,
}


@dataclass(frozen=True)
class Job:
    """A job, and what its report is times the right one."""

    cause: str
    model: Sizes
    ratio: float = 1.0
    gpu: str = H100
    precision: Mapping[str, float] = field(default_factory=lambda: {"bf16": 1.0})
    gpus: int = 64
    facts: Mapping[str, Any] = field(default_factory=dict)
    recomputes: bool = False
    """Whether the layers run again in the backward pass; the head does not."""


def counted(cause: str, right: Sizes, **wrong: Any) -> Job:
    """A mistake of the count, which takes the model for another one."""
    return Job(cause, right, replace(right, **wrong).forward() / right.forward())


def hybrid_as_dense() -> Job:
    """Nemotron-H with attention and an MLP in each of its 52 layers."""
    dense = replace(NEMOTRON, layers=52, blocks=52, states=0)
    return Job("hybrid_as_dense", NEMOTRON, dense.forward() / NEMOTRON.forward())


def of_other_card(model: Sizes, gpu: str, other: str) -> Job:
    return Job("wrong_device", model, PEAKS[gpu] / PEAKS[other], gpu)


def at_boost_clock(model: Sizes, gpu: str, rated_mhz: int, boost_mhz: int) -> Job:
    return Job("max_clock_peak", model, rated_mhz / boost_mhz, gpu)


def fp8(model: Sizes, gpu: str, share: float) -> Job:
    """The BF16 peak for a share of FP8, which takes half of the time."""
    mix = {"fp8": share, "bf16": 1 - share} if share < 1 else {"fp8": 1.0}
    return Job("bf16_peak_for_fp8", model, 1 / (1 - share / 2), gpu, mix)


def accumulated(model: Sizes, steps: int, ratio: float) -> Job:
    return Job("gradient_accumulation", model, ratio, facts={"accumulation": steps})


MISTAKES = (
    *(counted("full_attention_counted", each, causal=False) for each in (QWEN, NEOX)),
    *(counted("full_attention_counted", each, causal=False) for each in (DEEPSEEK, OLMOE)),
    counted("sliding_window_ignored", GEMMA, window=0),
    hybrid_as_dense(),
    *(counted("attention_omitted", each, cores=False) for each in MODELS),
    *(counted("embedding_counted", each, embedding=True) for each in MODELS),
    *(counted("head_omitted", each, head=False) for each in MODELS),
    *(counted("gating_miscounted", each, matrices=2) for each in (QWEN, GEMMA)),
    *(counted("gating_miscounted", each, matrices=3) for each in (NEOX, NEMOTRON)),
    *(counted("all_experts_counted", each, active=64) for each in (DEEPSEEK, OLMOE)),
    *(Job("recompute_counted", each, 4 / 3) for each in MODELS),
    of_other_card(QWEN, B300, A100),
    of_other_card(NEOX, B200, A100),
    of_other_card(GEMMA, H20, A100),
    of_other_card(DEEPSEEK, GB200, B200),
    of_other_card(NEMOTRON, H200, A100),
    of_other_card(OLMOE, PCIE, H100),
    at_boost_clock(QWEN, B200, 1856, 1965),
    at_boost_clock(NEOX, B300, 1856, 2032),
    at_boost_clock(GEMMA, H100, 1830, 1980),
    at_boost_clock(DEEPSEEK, H200, 1830, 1980),
    at_boost_clock(NEMOTRON, GB200, 2008, 2062),
    at_boost_clock(OLMOE, PCIE, 1620, 1755),
    Job("wrong_gpu_count", QWEN, 8.0),
    Job("wrong_gpu_count", NEOX, 1 / 64),
    Job("wrong_gpu_count", GEMMA, 64 / 56),
    accumulated(DEEPSEEK, 16, 16.0),
    accumulated(NEMOTRON, 4, 1 / 4),
    accumulated(OLMOE, 32, 1 / 32),
    Job("sparse_peak", QWEN, 0.5, A100),
    Job("sparse_peak", NEOX, 0.5, A100),
    fp8(GEMMA, H100, 1.0),
    fp8(DEEPSEEK, B200, 0.7),
    fp8(NEMOTRON, H200, 0.8),
    Job("forward_only", OLMOE, 1 / 3),
)


def facts_of(job: Job) -> CauseFacts:
    """What the user of a job says of it: everything but what is recomputed."""
    of = OLMOE_CONFIG if job.model is OLMOE else config(job.model.name)
    lengths = flops.fixed(8, tokens=job.model.length)
    step = CountedStep(flops.read(of), lengths, flops.Counting(), flops.Passes())
    said = {"gpu": job.gpu, "gpus": job.gpus, "precision": job.precision, **job.facts}
    return CauseFacts(step, forward_only=False, **said)


def explained(job: Job, seed: int) -> Explanation:
    """One run of a job; the reported MFU has three digits after the point, or three that count."""
    draw = random.Random(f"{job.cause} {job.model.name} {job.gpu} {seed}")
    ran = draw.uniform(*REAL)
    if job.recomputes:
        head = 2 * job.model.length * job.model.hidden * job.model.vocab
        ran *= (4 - head / job.model.forward()) / 3
    right = draw.uniform(0.25, 0.5)
    seen = Observation(
        round(right * job.ratio, 3 if right * job.ratio > 0.1 else 5),
        right * ran + draw.gauss(0, ERROR),
        ERROR,
        right_mfu(job, right),
    )
    return explain(seen, facts_of(job))


def right_mfu(job: Job, right: float) -> float:
    """MFU as the package has it from the tokens per second, which are made of the FLOPs and peaks written here."""
    # FP8 runs at twice the rate of BF16 (data sheets), so a share of it takes half of the time.
    peak = (
        PEAKS[job.gpu]
        * 1e12
        / sum(share / (2 if name == "fp8" else 1) for name, share in job.precision.items())
    )
    rate = right * job.gpus * peak / (3 * job.model.forward() / job.model.length)
    step = facts_of(job).step
    assert step
    used = flops.utilization(
        flops.count(step.model, step.lengths),
        flops.Pace(tokens_per_second=rate),
        gpu=job.gpu,
        number=job.gpus,
        precision=job.precision,
    )
    return used.mfu


class Missed(NamedTuple):
    """A mistake that is not named first."""

    job: Job
    first: str
    """What is named instead; "nothing" if nothing fits."""
    is_twin: bool
    """Whether no number tells the two apart."""


def missed(seed: int) -> list[Missed]:
    """The mistakes that are not named first."""
    wrong = []
    for job in MISTAKES:
        first = next(iter(explained(job, seed).causes), None)
        if first is None or first.cause != job.cause:
            is_twin = first is not None and abs(first.expected_ratio / job.ratio - 1) < SAME
            wrong.append(Missed(job, first.cause if first else "nothing", is_twin))
    return wrong


def accused() -> list[tuple[str, str]]:
    """Honest jobs whose first cause blames the report: model and cause."""
    blaming = {cause.slug for cause in causes() if cause.side is Side.REPORT}
    found = []
    for seed in range(HONEST):
        model = MODELS[seed // 3 % len(MODELS)]
        gpu = tuple(PEAKS)[seed % len(PEAKS)]
        run = explained(Job("honest", model, gpu=gpu, recomputes=seed % 3 == 0), seed)
        if run.causes and blaming & {*run.causes[0].causes}:
            found.append((model.name, run.causes[0].cause))
    return found


def main(say: Callable[[str], None] = print) -> None:
    """Print what is missed and who is accused."""
    for seed in range(SEEDS):
        wrong = missed(seed)
        say(f"seed {seed}: {len(MISTAKES) - len(wrong)} of {len(MISTAKES)} mistakes first")
        for job, first, is_twin in wrong:
            say(f"  {job.cause} of {job.model.name}: {first}{' (a twin)' * is_twin}")
    found = accused()
    say(f"{len(found)} of {HONEST} honest jobs accused")
    for each in found:
        say(f"  {': '.join(each)}")


if __name__ == "__main__":
    main()
