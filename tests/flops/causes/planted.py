"""Plants 60 mistakes of ten kinds in six architectures, and makes 600 honest jobs.

`python -m tests.flops.causes.planted` prints what is missed and who is accused.

A job runs as real training was measured to run (docs/hardware.md): its OFU is 1.03 to 1.16 times what its FLOPs need,
through tiles, the backward pass of attention and the clock. Of the honest jobs every third recomputes all layers, and
every third some of them.
"""

from __future__ import annotations

from dataclasses import replace

from tests.flops.causes import jobs
from tests.flops.causes.jobs import (
    A100,
    B200,
    B300,
    GB200,
    H20,
    H100,
    H200,
    PCIE,
    PEAKS,
    Job,
    Sizes,
    counted,
)

HONEST = 600

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


def accused(is_rate_known: bool) -> list[tuple[str, str]]:
    """Honest jobs whose first cause blames the report: model and cause."""
    blamed = []
    for seed in range(HONEST):
        model = MODELS[seed // 3 % len(MODELS)]
        gpu = tuple(PEAKS)[seed % len(PEAKS)]
        layers = (1.0, 0.1 + seed / HONEST * 0.8, 0.0)[seed % 3]
        run = Job("honest", model, gpu=gpu, recomputes=layers).explained(seed, is_rate_known)
        if jobs.is_accused(run):
            blamed.append((model.name, run.causes[0].cause))
    return blamed


if __name__ == "__main__":
    for number in range(jobs.SEEDS):
        wrong = [*jobs.missed(MISTAKES, number)]
        print(f"seed {number}: {len(MISTAKES) - len(wrong)} of {len(MISTAKES)} mistakes first")
        for job, first, is_twin in wrong:
            print(f"  {job.cause} of {job.model.name}: {first}{' (a twin)' * is_twin}")
    for is_known in (True, False):
        blamed = accused(is_known)
        print(f"throughput known: {is_known}; {len(blamed)} honest jobs accused")
        print(*(f"  {model}: {cause}" for model, cause in blamed), sep="\n")
