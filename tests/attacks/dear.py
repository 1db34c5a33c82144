"""Reports whose cost is not their length: models and facts that make the agent count, each time others.

`python -m tests.attacks.dear` prints what one of each costs, for tests/attacks/results.md.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from ofu_exporter.errors import OfuError
from ofu_exporter.flops import explain
from ofu_exporter.flops.fields import MOST_LAYERS
from ofu_exporter.flops.hf_config import MOST_KINDS
from ofu_exporter.flops.recipes import MOST_IN_ALL
from ofu_exporter.reports.causes import facts_of
from ofu_exporter.reports.hardware import Hardware
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.reported_model import flops_per_token
from ofu_exporter.support import unique_keys
from tests.attacks.attack import Attack
from tests.attacks.clients import report
from tests.attacks.requests import WRITERS, report_on
from tests.attacks.target import Target

H100 = "NVIDIA H100 80GB HBM3"
STREAMS = ("tokens", "image", "audio", "latent", "source", "target", "prompt", "patches")
PERS = ("1", *STREAMS, *(f"{one}*{other}" for one in STREAMS for other in STREAMS))
Model = Mapping[str, Any]
DECODER = {
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 8192,
    "vocab_size": 128_000,
}


def recipe(factors: int, each: int = 8) -> Model:
    """Terms of fractions whose extents all differ, so that nothing can be added up."""
    chance = random.Random(1)
    parts = ("core", "mlp", "projection", "head", "embedding")
    terms = [
        {
            "name": f"t{number}",
            "part": parts[number % len(parts)],
            "in_layers": True,
            "causal": True,
            "window": 1 + number,
            "forward": {
                per: f"{chance.randrange(10**20)}/{10**9 + chance.randrange(200)}"
                for per in chance.sample(PERS, each)
            },
        }
        for number in range(factors // each)
    ]
    fit: Model = {"fitted_at": [], "verified_at": None, "executed_flops": 1, "recipe_flops": 1}
    fields = {"recipe_version": 1, "architecture": "X", "made_with": {}, "trained_parameters": 1}
    lengths = dict.fromkeys(STREAMS, 1000)
    return {"recipe": {**fields, "lengths": lengths, "fit": fit, "terms": terms}}


def config(architecture: str, **fields: object) -> Model:
    return {"config": {"architectures": [architecture], **fields}}


PATTERN = {
    **config(
        "NemotronHForCausalLM",
        **DECODER,
        hybrid_override_pattern="*-M-" * (MOST_LAYERS // 4),
        mamba_num_heads=32,
        mamba_head_dim=128,
        ssm_state_size=128,
        n_groups=8,
        conv_kernel=4,
        num_nextn_predict_layers=MOST_LAYERS,
        mtp_layers_block_type=["attention", "mlp"] * (MOST_LAYERS // 2),
    ),
    "seq_len": 8192,
    "mtp": True,
}
KINDS = {
    **config(
        "HunYuanMoEV1ForCausalLM",
        **DECODER,
        num_hidden_layers=MOST_LAYERS,
        num_experts=[2 + number % MOST_KINDS for number in range(MOST_LAYERS)],
        moe_topk=1,
    ),
    "seq_len": 8192,
}
PLACES = {
    **config(
        "BambaForCausalLM",
        **DECODER,
        num_hidden_layers=MOST_LAYERS,
        mamba_expand=2,
        mamba_n_heads=128,
        mamba_d_head=64,
        mamba_n_groups=1,
        mamba_d_state=128,
        mamba_d_conv=4,
        attn_layer_indices=list(range(0, MOST_LAYERS, 2)),
    ),
    "seq_len": 8192,
}
LSTM = {"module": "recurrent", "kind": "lstm", "hidden_size": 100, "sequence_length": 100}
MODULES = config(
    "Modules",
    modules=[
        {**LSTM, "input_size": 100 + number, "num_layers": MOST_LAYERS, "repeat": MOST_LAYERS}
        for number in range(1_200)
    ],
)
LLAMA = {**config("LlamaForCausalLM", **DECODER, num_hidden_layers=32), "seq_len": 1}
LENGTHS = {**recipe(MOST_IN_ALL), "lengths": dict.fromkeys(STREAMS, 1 << 31)}


def changing(model: Model, **facts: object) -> Callable[[int], bytes]:
    """A report with another batch each time, and an MFU that its GPUs do not have."""

    def body(number: int) -> bytes:
        batch = {**model, "batch_size": 1 + number}
        return report(mfu=0.95, gpus=1, model=batch, **facts)

    return body


def packs(number: int) -> bytes:
    """A pack of a billion sequences of one token."""
    return report(mfu=0.95, gpus=1, model=LLAMA, pack_length=(1 << 30) + number)


def tiles(number: int) -> bytes:
    """Another overhead each time: a fact that is new is a divergence to explain anew."""
    return report(mfu=0.95, gpus=1, model=LLAMA, tile_overhead=(1 + number % 10_000) / 1e5)


def turning(number: int) -> bytes:
    """Four jobs whose verdicts turn, each with the dearest model there is."""
    mfu = (0.95, 0.01)[number // 200 % 2]
    return report(job_id=str(1001 + number % 4), mfu=mfu, gpus=1, model=recipe(MOST_IN_ALL))


DEAR: Mapping[str, tuple[Callable[[int], bytes], str]] = {
    "recipes": (changing(recipe(MOST_IN_ALL)), f"a recipe of {MOST_IN_ALL:,} factors"),
    "refused recipes": (changing(recipe(4_000, 16)), "a recipe of 4,000 factors"),
    "lengths": (changing(LENGTHS), "the same recipe at the longest lengths"),
    "patterns": (changing(PATTERN), f"{MOST_LAYERS:,} letters and as many depths of prediction"),
    "kinds": (changing(KINDS), f"{MOST_LAYERS:,} layers of {MOST_KINDS} kinds"),
    "places": (changing(PLACES), f"half of {MOST_LAYERS:,} layers in a list"),
    "modules": (changing(MODULES), f"1,200 stacks of {MOST_LAYERS:,} layers, repeated as often"),
    "packs": (packs, "a billion sequences to a pack"),
    "tiles": (tiles, "another tile overhead"),
    "turning verdicts": (turning, "such a recipe of four jobs whose verdicts turn"),
}
"""By the name of the attack: the body of the n-th report, and what is in it."""


def flood(body: Callable[[int], bytes]) -> Callable[[Target], Any]:
    async def run(target: Target) -> None:
        await report_on(target, body)

    return run


ATTACKS = tuple(
    Attack(
        f"dear: {name}",
        f"{WRITERS} connections, each time with {what}",
        "what a model may have; CPU time of a job, an address and all",
        flood(body),
    )
    for name, (body, what) in DEAR.items()
)


def costs(body: bytes) -> tuple[float, ...]:
    """CPU time of one report in ms: to read, to count its model, and to explain its divergence."""
    hardware = Hardware(1, H100, frozenset({H100}), {"bf16": 989.4e12})
    times = [time.thread_time()]
    try:
        read = MfuReport.model_validate(unique_keys.parsed(body))
        times.append(time.thread_time())
        if read.model is not None:
            flops_per_token(read.model)
        times.append(time.thread_time())
        explain.explain(explain.Observation(0.95, 0.3), facts_of(read, hardware, 989.4e12))
    except (OfuError, ValueError):
        pass
    times.append(time.thread_time())
    return tuple(1e3 * (end - begin) for begin, end in itertools.pairwise(times))


def main() -> None:
    print("| report | kB | read | count | explain |\n|---|---|---|---|---|")
    costs(tiles(0))  # whose first call imports
    for name, (body, _) in DEAR.items():
        spent = [f"{each:.0f}" for each in costs(body(1))]
        kilobytes = f"{len(body(1)) / 1e3:.0f}"
        print("| " + " | ".join((name, kilobytes, *spent, *["refused"] * (3 - len(spent)))) + " |")


if __name__ == "__main__":
    main()
