"""Trains a small language model on one GPU as one job of a site would, and reports its MFU through the client.

    python -m tests.hardware.training PHASE SECONDS FOLDER

PHASE is a name of `PHASES`. FOLDER gets PHASE.json: the model's config, the FLOPs of a step as torch's own counter sees
them, and when each step ended on the monotonic and the wall clock. The weights are random and the tokens too: neither
changes what the hardware executes. Needs torch and transformers.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ofu_exporter.client import Reporter

PEAK_TFLOPS = 989.4
"""H100 SXM, dense BF16."""
CONFIG: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-5,
}
TINY = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 16}
TINY |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256}
"""For a try without a GPU."""


@dataclass(frozen=True)
class Phase:
    """How one job trains, and what it says of itself."""

    job_id: str
    name: str
    batch: int = 8
    seq_len: int = 2048
    recompute: bool = False
    counts_full_attention: bool = False
    """Whether its formula counts every pair of query and key: a common mistake with a causal model."""
    precision: str = "bf16"
    loader_seconds: float = 0.0
    """Time that each step waits for data."""
    peak_tflops: float = PEAK_TFLOPS
    """What its MFU divides by."""
    attention: str = "sdpa"
    """As transformers names it: this is torch's, which is flash attention; `eager` is none."""
    selective: bool = False
    """Whether all but the products of weights is recomputed."""
    lora_rank: int = 0
    """Of the adapters, which alone are trained; 0 = the weights are."""


PHASES: Mapping[str, Phase] = {
    "plain": Phase("101", "llama-1b"),
    "recompute": Phase("102", "llama-1b-recompute", recompute=True),
    "full-attention": Phase(
        "103", "llama-1b-long", batch=2, seq_len=8192, counts_full_attention=True
    ),
    "waiting": Phase("104", "llama-1b-slow-loader", loader_seconds=0.2),
    "tf32": Phase("105", "llama-1b-tf32", batch=4, precision="tf32"),
}


def formula(phase: Phase, config: Mapping[str, Any]) -> float:
    """FLOPs of a step, forward and backward, written out by hand: 6 for each weight that multiplies, and attention."""
    hidden, head = config["hidden_size"], config["head_dim"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    layer = 2 * hidden * heads * head + 2 * hidden * groups * head
    layer += 3 * hidden * config["intermediate_size"]
    weights = config["num_hidden_layers"] * layer + hidden * config["vocab_size"]
    pairs = phase.seq_len if phase.counts_full_attention else phase.seq_len / 2
    attention = config["num_hidden_layers"] * 12 * heads * head * pairs
    sides = 2 * (2 * hidden + (heads + groups) * head) + 3 * (hidden + config["intermediate_size"])
    adapters = config["num_hidden_layers"] * phase.lora_rank * sides
    of_weight = 4 if phase.lora_rank else 6  # frozen weights have no gradients of their own
    of_token = of_weight * weights + 6 * adapters + attention
    return float(phase.batch * phase.seq_len * of_token)


class Training:
    """One model and its optimizer."""

    def __init__(self, phase: Phase, config: Mapping[str, Any], device: str) -> None:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        self._torch, self._phase, self._device = torch, phase, device
        torch.manual_seed(1)
        torch.set_float32_matmul_precision("high")  # TF32 where weights are FP32
        type_ = torch.float32 if phase.precision == "tf32" else torch.bfloat16
        given = {k: v for k, v in config.items() if k != "architectures"}
        made = LlamaConfig(**given, attn_implementation=phase.attention)
        with torch.device(
            device
        ):  # made where it stays: 1.1 billion random numbers take the CPU half a minute
            self._model = LlamaForCausalLM(made).to(dtype=type_)
        if phase.recompute or phase.selective:
            how = {"use_reentrant": False} | (_saving_products() if phase.selective else {})
            self._model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=how)
        if phase.precision == "fp8":
            self._model = _in_fp8(self._model, device)
        if phase.lora_rank:
            self._model = _with_adapters(self._model, phase.lora_rank)
        self._model.train()
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(), lr=1e-4, fused=device != "cpu"
        )

    def step(self) -> None:
        """Data, forward, backward, optimizer; waits for the end as a loop does that logs its loss."""
        if self._phase.loader_seconds:
            time.sleep(self._phase.loader_seconds)
        shape = (self._phase.batch, self._phase.seq_len)
        vocabulary = self._model.config.vocab_size
        tokens = self._torch.randint(0, vocabulary, shape, device=self._device)
        loss = self._model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        loss.item()

    def executed_flops(self) -> Mapping[str, float]:
        """By operation: the FLOPs of a step that torch's own counter sees."""
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            self.step()
        return {str(op): float(n) for op, n in counter.get_flop_counts()["Global"].items()}


def _saving_products() -> dict[str, Any]:
    """How a checkpoint keeps what products of weights gave; element-wise work and attention are done again."""
    import torch
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    kept = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
    return {"context_fn": partial(create_selective_checkpoint_contexts, kept)}


def _in_fp8(model: Any, device: str) -> Any:
    """Its products of weights in FP8, but for the last, by torchao."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    config = Float8LinearConfig(emulate=device == "cpu")
    return convert_to_float8_training(
        model, config=config, module_filter_fn=lambda _, name: name != "lm_head"
    )


def _with_adapters(model: Any, rank: int) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
    return get_peft_model(model, config, autocast_adapter_dtype=False)


def run(name: str, seconds: float, folder: Path, device: str) -> None:
    phase = PHASES[name]
    config = {**CONFIG, **(TINY if device == "cpu" else {})}
    flops = formula(phase, config)
    training = Training(phase, config, device)
    executed = training.executed_flops()
    reporter = Reporter(
        job_id=phase.job_id,
        gpus=1,
        precision=phase.precision,
        peak_tflops=phase.peak_tflops,
        framework="transformers",
        recompute="full" if phase.recompute else "none",
        model={"config": dict(config), "seq_len": phase.seq_len},
        every=5.0,
    )
    steps: list[tuple[float, float]] = []
    began = before = time.monotonic()
    while before < began + seconds:
        training.step()
        now = time.monotonic()
        mfu = flops / (now - before) / (phase.peak_tflops * 1e12)
        reporter.report(mfu=mfu, step=len(steps))
        steps.append((now, time.time()))
        before = now
    reporter.close()
    story = {"phase": name, "config": config, "batch": phase.batch, "seq_len": phase.seq_len}
    story |= {"formula_flops": flops, "executed_flops": executed, "began": began, "steps": steps}
    story |= {"disabled": reporter.disabled}
    (folder / f"{name}.json").write_text(json.dumps(story) + "\n")


def main(args: list[str]) -> None:
    if len(args) not in (3, 4) or args[0] not in PHASES:
        raise SystemExit(__doc__)
    run(args[0], float(args[1]), Path(args[2]), args[3] if len(args) > 3 else "cuda:0")


if __name__ == "__main__":
    main(sys.argv[1:])
