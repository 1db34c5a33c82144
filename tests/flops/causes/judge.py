"""Plants 40 other mistakes of twenty kinds in seven models, and makes 1,000 honest jobs.

`python -m tests.flops.causes.judge` prints what is missed and who is accused.

A job runs as on an H100: its OFU is 1.03 to 1.16 times what its FLOPs need.
"""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter import flops
from ofu_exporter.flops.explain import Explanation
from tests.flops.causes import jobs
from tests.flops.causes.jobs import A100, H100, PCIE, Job, Sizes, counted

HONEST = 1000
REAL = (1.03, 1.16)

LLAMA = Sizes("llama-3-8b", 8192, 32, 4096, 32, 8, 128, 14336, 128256)
QWEN = Sizes("qwen3-8b", 32768, 36, 4096, 32, 8, 128, 12288, 151936)
MIXTRAL = Sizes(
    *("mixtral-8x7b", 4096, 32, 4096, 32, 8, 128, 0, 32000),
    sparse=32,
    experts=8,
    active=2,
    expert_width=14336,
)
QWEN_MOE = Sizes(
    *("qwen3-30b-a3b", 4096, 48, 2048, 32, 4, 128, 0, 151936),
    sparse=48,
    experts=128,
    active=8,
    expert_width=768,
)
GPT2 = Sizes("gpt2", 1024, 12, 768, 12, 12, 64, 3072, 50257, matrices=2)
OSS = Sizes(
    *("gpt-oss-20b", 4096, 24, 2880, 64, 8, 64, 0, 201088),
    sparse=24,
    experts=32,
    active=4,
    expert_width=2880,
    window=128,
)
BERT = Sizes(
    *("bert-base-uncased", 4096, 12, 768, 12, 12, 64, 3072, 30522, 2), causal=False, transform=768
)
MODELS = (LLAMA, QWEN, MIXTRAL, QWEN_MOE, GPT2, OSS, BERT)


def adapters(model: Sizes, rank: int) -> Job:
    """Everything counted as trained, where only adapters of a rank are, on each linear layer of the layers."""
    h, q, kv, f = model.hidden, model.heads * model.dim, model.groups * model.dim, model.width
    sides = 2 * (h + q) + 2 * (h + kv) + model.matrices * (h + f)
    low = 2 * model.length * model.layers * rank * sides
    whole = model.forward()
    cores = whole - replace(model, cores=0.0).forward()
    right = 2 * (whole - cores) + 3 * (low + cores)
    return Job(
        "frozen_counted", model, 3 * whole / right, passes=flops.Passes(lora=flops.Lora(rank))
    )


PACK = (700, 1500, 900, 3000, 2092)
FULL = {"causal": False}
BARE = {"cores": 0.0}
FP8 = {"fp8": 1.0}
MIX = {"fp8": 0.7, "bf16": 0.3}
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
    Job(
        "pack_as_one_sequence",
        LLAMA,
        LLAMA.forward((sum(PACK),)) / LLAMA.forward(PACK),
        lengths=PACK,
    ),
    Job("recompute_counted", LLAMA, 4 / 3),
    Job("forward_only", LLAMA, 3.0, passes=FORWARD),
    Job("forward_only", MIXTRAL, 1 / 3),
    Job("sparse_peak", LLAMA, 0.5, A100),
    Job("sparse_peak", GPT2, 0.5, A100),
    Job("bf16_peak_for_fp8", LLAMA, 2.0, precision=FP8),
    Job("bf16_peak_for_fp8", MIXTRAL, 1 / 0.65, precision=MIX),
    Job("tf32_peak", LLAMA, 2.0, facts={"peak_flops": 494.7e12}),
    Job("max_clock_peak", LLAMA, 1830 / 1980),
    Job("wrong_device", LLAMA, 756 / 989.4, gpu=PCIE, facts={"present": frozenset({H100})}),
    Job("wrong_gpu_count", LLAMA, 8.0),
    Job("wrong_gpu_count", MIXTRAL, 1 / 64),
)


def explained(job: Job, seed: int) -> Explanation:
    """One run of a job."""
    return job.explained(seed, REAL, (0.3, 0.55), counts=False)


def accused() -> list[tuple[str, str]]:
    """The honest jobs that are accused: model, and the first cause."""
    blamed = []
    for seed in range(HONEST):
        job = Job("honest", MODELS[seed % len(MODELS)], recomputes=seed % 3 == 0)
        run = explained(job, seed)
        if jobs.is_accused(run):
            blamed.append((job.model.name, next((each.cause for each in run.causes), "nothing")))
    return blamed


if __name__ == "__main__":
    jobs.tell(MISTAKES, explained, accused())
