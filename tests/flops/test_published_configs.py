"""86 published configurations: most are counted, each as it is counted here by formulas written out; images are 0.

The files stand beside the project where it is developed, and not in it: without them these tests are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError

FOLDER = Path(__file__).parents[3] / "shared" / "samples" / "configs"
CONFIGS: dict[str, Any] = {p.stem: json.loads(p.read_text()) for p in sorted(FOLDER.glob("*.json"))}
LENGTH = 4096
FEWEST = 83
"""How many of the 86 are counted."""

Config = Mapping[str, Any]


def pairs(window: int | None = None) -> Fraction:
    """Keys that the queries of a sequence see: half of the square, or a triangle and then a band."""
    seen = Fraction(LENGTH**2, 2)
    return min(seen, Fraction(window * (2 * LENGTH - window + 1), 2)) if window else seen


def chunked(size: int) -> Fraction:
    """The same where no query sees another chunk."""
    return Fraction(LENGTH // size * size**2 + (LENGTH % size) ** 2, 2)


def grouped(c: Config, seen: Fraction, **other: int) -> Fraction:
    """Projections of queries, keys, values and output, and the two products of every pair."""
    heads, hidden = c["num_attention_heads"], c["hidden_size"]
    dim = c.get("head_dim") or hidden // heads
    groups = c.get("num_key_value_heads", heads)
    n = {"heads": heads, "groups": groups, "key": dim, "value": dim, "matrices": 2, **other}
    sides = n["heads"] * (n["key"] + n["value"]) + n["groups"] * n["key"]
    sides += n["groups"] * n["value"] * (n["matrices"] - 1)
    return Fraction(2 * LENGTH * hidden * sides + 2 * n["heads"] * (n["key"] + n["value"]) * seen)


def latent(c: Config, chooses: bool | None = None) -> Fraction:
    """DeepSeek's attention; `chooses`: each query sees index_topk keys, which the layer itself finds or another."""
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    rank, rows = c["q_lora_rank"], c["kv_lora_rank"]
    nope, rope, value = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    weights = hidden * rank + rank * heads * (nope + rope) + hidden * (rows + rope)
    weights += rows * heads * (nope + value) + heads * value * hidden
    seen = pairs() if chooses is None else pairs(c["index_topk"])
    total = 2 * LENGTH * weights + 2 * heads * (nope + rope + value) * seen
    if chooses:
        small, dim = c["index_n_heads"], c["index_head_dim"]
        total += 2 * LENGTH * (rank * small * dim + hidden * dim + hidden * small)
        total += 2 * small * (dim + 1) * pairs()
    return Fraction(total)


def block(width: int, hidden: int, matrices: int = 3) -> Fraction:
    return Fraction(2 * LENGTH * matrices * hidden * width)


def experts(c: Config, number: int, used: int, width: int, shared: int = 0) -> Fraction:
    """The router, the experts of a token, and those that every token goes to."""
    hidden = c["hidden_size"]
    return Fraction(2 * LENGTH * hidden * number + block(used * width + shared, hidden))


def head(c: Config) -> Fraction:
    return Fraction(2 * LENGTH * c["hidden_size"] * c["vocab_size"])


def dense(c: Config) -> Fraction:
    layer = grouped(c, pairs()) + block(c["intermediate_size"], c["hidden_size"])
    return Fraction(c["num_hidden_layers"] * layer + head(c))


def sparse(c: Config) -> Fraction:
    """Qwen3, Mixtral and MiniMax-M2: every layer has experts."""
    number = c.get("num_experts") or c["num_local_experts"]
    width = c.get("moe_intermediate_size") or c["intermediate_size"]
    layer = grouped(c, pairs()) + experts(c, number, c["num_experts_per_tok"], width)
    return Fraction(c["num_hidden_layers"] * layer + head(c))


def gpt_oss(c: Config) -> Fraction:
    block_of_each = experts(
        c, c["num_local_experts"], c["num_experts_per_tok"], c["intermediate_size"]
    )
    windows = [c["sliding_window"] if k == "sliding_attention" else None for k in c["layer_types"]]
    return sum(grouped(c, pairs(window)) + block_of_each for window in windows) + head(c)


def deepseek(c: Config) -> Fraction:
    """DeepSeek-V3 and V3.2, Kimi and GLM-5."""
    layers = c["num_hidden_layers"]
    first = c.get("first_k_dense_replace", 0)
    kinds = c.get("mlp_layer_types") or ["dense"] * first + ["sparse"] * (layers - first)
    shared = c["n_shared_experts"] * c["moe_intermediate_size"]
    routed = (c["n_routed_experts"], c["num_experts_per_tok"], c["moe_intermediate_size"], shared)
    blocks = {"sparse": experts(c, *routed)}
    blocks["dense"] = block(c["intermediate_size"], c["hidden_size"])
    chooses: list[bool | None] = [None] * layers
    if "index_topk" in c:
        chooses = [kind == "full" for kind in c.get("indexer_types") or ["full"] * layers]
    attention = sum(latent(c, each) for each in chooses)
    return attention + sum(blocks[kind] for kind in kinds) + head(c)


def kimi(c: Config) -> Fraction:
    return deepseek(c["text_config"])


def llama_4(c: Config) -> Fraction:
    """Every fourth layer sees all, the others chunks; experts in each or every other layer."""
    c = c["text_config"]
    layers, width = c["num_hidden_layers"], c["intermediate_size"]
    chunk = chunked(c["attention_chunk_size"])
    attention = sum(grouped(c, pairs() if (each + 1) % 4 == 0 else chunk) for each in range(layers))
    number = len(range(c["interleave_moe_layer_step"] - 1, layers, c["interleave_moe_layer_step"]))
    routed = experts(c, c["num_local_experts"], c["num_experts_per_tok"], width, shared=width)
    plain = block(c["intermediate_size_mlp"], c["hidden_size"])
    return Fraction(attention + number * routed + (layers - number) * plain + head(c))


def gemma_4(c: Config) -> Fraction:
    """Layers that see all have wide heads whose keys are the values; an MLP stands beside the experts."""
    c = c["text_config"]
    wide = {"key": c["global_head_dim"], "value": c["global_head_dim"]}
    if c["attention_k_eq_v"]:
        wide |= {"groups": c["num_global_key_value_heads"], "matrices": 1}
    full, local = grouped(c, pairs(), **wide), grouped(c, pairs(c["sliding_window"]))
    feeds = block(c["intermediate_size"], c["hidden_size"])
    if c["enable_moe_block"]:
        feeds += experts(c, c["num_experts"], c["top_k_experts"], c["moe_intermediate_size"])
    total = sum(full if kind == "full_attention" else local for kind in c["layer_types"])
    return Fraction(total + c["num_hidden_layers"] * feeds + head(c))


def mimo_v2(c: Config) -> Fraction:
    full = grouped(c, pairs(), value=c["v_head_dim"])
    local = grouped(
        c,
        pairs(c["sliding_window"]),
        heads=c["swa_num_attention_heads"],
        groups=c["swa_num_key_value_heads"],
        key=c["swa_head_dim"],
        value=c["swa_v_head_dim"],
    )
    routed = experts(c, c["n_routed_experts"], c["num_experts_per_tok"], c["moe_intermediate_size"])
    plain = block(c["intermediate_size"], c["hidden_size"])
    mixers = sum(local if windowed else full for windowed in c["hybrid_layer_pattern"])
    return mixers + sum(routed if sparse else plain for sparse in c["moe_layer_freq"]) + head(c)


def deepseek_v4(c: Config) -> Fraction:
    """A window and compressed keys: all of 128 tokens each, or the best of those of 4; streams that are mixed."""
    hidden, heads, dim = c["hidden_size"], c["num_attention_heads"], c["head_dim"]
    rank, groups, out = c["q_lora_rank"], c["o_groups"], c["o_lora_rank"]
    small, narrow, streams = c["index_n_heads"], c["index_head_dim"], c["hc_mult"]
    weights = hidden * rank + rank * heads * dim + hidden * dim
    weights += heads * dim * out + groups * out * hidden
    streaming = 2 * streams * hidden * (streams**2 + 2 * streams) + 2 * streams**2 * hidden
    near = 2 * LENGTH * (weights + streaming) + 4 * heads * dim * pairs(c["sliding_window"])
    heavy = 2 * LENGTH * 2 * hidden * dim + 4 * heads * dim * pairs() / 128
    sparse_keys = 2 * LENGTH * (4 * hidden * dim + 4 * hidden * narrow)
    sparse_keys += 2 * LENGTH * (rank * small * narrow + hidden * small)
    sparse_keys += 4 * heads * dim * pairs(4 * c["index_topk"]) / 4
    sparse_keys += 2 * small * (narrow + 1) * pairs() / 4
    width = c["moe_intermediate_size"]
    shared = c["n_shared_experts"] * width
    routed = experts(c, c["n_routed_experts"], c["num_experts_per_tok"], width, shared)
    more = {0: Fraction(0), 4: sparse_keys, 128: heavy}
    layers = c["num_hidden_layers"]
    total = layers * (near + routed) + sum(more[each] for each in c["compress_ratios"][:layers])
    return Fraction(total + head(c) + 2 * LENGTH * streams * hidden * streams)


def step_3_7(c: Config) -> Fraction:
    """Windows in most layers, and a gate of one number a head; the first layers are dense."""
    windows = [c["sliding_window"] if k == "sliding_attention" else None for k in c["layer_types"]]
    gates = 2 * LENGTH * c["hidden_size"] * c["num_attention_heads"]
    routed = experts(
        c,
        c["num_experts"],
        c["num_experts_per_tok"],
        c["moe_intermediate_size"],
        c["share_expert_dim"],
    )
    first, plain = c["first_k_dense_replace"], block(c["intermediate_size"], c["hidden_size"])
    total = sum(grouped(c, pairs(window)) + gates for window in windows) + first * plain
    return Fraction(total + (c["num_hidden_layers"] - first) * routed + head(c))


def qwen_3_5(c: Config) -> Fraction:
    """Gated delta nets, whose state has four products of its size, and gated attention."""
    c = c["text_config"]
    hidden, layers = c["hidden_size"], c["num_hidden_layers"]
    keys = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    heads, dim = c["linear_num_value_heads"], c["linear_value_head_dim"]
    values = heads * dim
    delta = 2 * hidden * (2 * keys + 2 * values + 2 * heads) + 2 * values * hidden
    delta += 2 * c["linear_conv_kernel_dim"] * (2 * keys + values) + 8 * heads * dim**2
    gate = 2 * LENGTH * hidden * c["num_attention_heads"] * c["head_dim"]
    full = grouped(c, pairs()) + gate
    if "num_experts" in c:
        width, shared = c["moe_intermediate_size"], c["shared_expert_intermediate_size"]
        feeds = experts(c, c["num_experts"], c["num_experts_per_tok"], width, shared)
        feeds += 2 * LENGTH * hidden  # the gate of the shared expert
    else:
        feeds = block(c["intermediate_size"], hidden)
    number = c["layer_types"].count("full_attention")
    mixers = number * full + (layers - number) * LENGTH * delta
    return Fraction(mixers + layers * feeds + head(c))


def nemotron_h(c: Config) -> Fraction:
    """One block a layer: Mamba-2 (7 FLOPs for each channel and state), attention, or a block of two matrices."""
    hidden = c["hidden_size"]
    inner = c["mamba_num_heads"] * c["mamba_head_dim"]
    both = 2 * c["n_groups"] * c["ssm_state_size"]
    mamba = 2 * hidden * (2 * inner + both + c["mamba_num_heads"]) + 2 * inner * hidden
    mamba += 2 * c["conv_kernel"] * (inner + both) + 7 * inner * c["ssm_state_size"]
    total = Fraction(0)
    words = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
    pattern = c.get("hybrid_override_pattern") or [words[each] for each in c["layers_block_type"]]
    for letter in pattern:
        if letter == "M":
            total += LENGTH * mamba
        elif letter == "*":
            total += grouped(c, pairs())
        elif letter == "-":
            total += block(c["intermediate_size"], hidden, matrices=2)
        else:
            inside = c.get("moe_latent_size") or hidden
            routed = c["num_experts_per_tok"] * c["moe_intermediate_size"]
            total += block(routed, inside, 2) + 2 * LENGTH * hidden * c["n_routed_experts"]
            shared = c["n_shared_experts"] * c["moe_shared_expert_intermediate_size"]
            total += block(shared, hidden, 2)
            total += 4 * LENGTH * hidden * inside if inside != hidden else 0
    return total + head(c)


def nas(c: Config) -> Fraction:
    """A Llama whose layers have 2/3 of ffn_mult hidden sizes, in steps of 256, or lack a block."""
    total, hidden = head(c), c["hidden_size"]
    for each in c["block_configs"]:
        shared, ratio = each["attention"]["n_heads_in_group"], each["ffn"]["ffn_mult"]
        if shared:
            total += grouped(c, pairs(), groups=c["num_attention_heads"] // shared)
        if ratio:
            total += block(-(-int(2 * ratio * hidden / 3) // 256) * 256, hidden)
    return total


def text_of(count: Callable[[Config], Fraction]) -> Callable[[Config], Fraction]:
    return lambda c: count(c["text_config"])


COUNTS: dict[str, Callable[[Config], Fraction]] = {
    "LlamaForCausalLM": dense,
    "Qwen3ForCausalLM": dense,
    "MiMoForCausalLM": dense,
    "Qwen3VLForConditionalGeneration": text_of(dense),
    "Qwen3MoeForCausalLM": sparse,
    "MixtralForCausalLM": sparse,
    "MiniMaxM2ForCausalLM": sparse,
    "Qwen3VLMoeForConditionalGeneration": text_of(sparse),
    "GptOssForCausalLM": gpt_oss,
    "DeepseekV3ForCausalLM": deepseek,
    "DeepseekV32ForCausalLM": deepseek,
    "GlmMoeDsaForCausalLM": deepseek,
    "KimiK25ForConditionalGeneration": kimi,
    "Llama4ForConditionalGeneration": llama_4,
    "Gemma4ForConditionalGeneration": gemma_4,
    "MiMoV2FlashForCausalLM": mimo_v2,
    "Qwen3_5ForConditionalGeneration": qwen_3_5,
    "Qwen3_5MoeForConditionalGeneration": qwen_3_5,
    "NemotronHForCausalLM": nemotron_h,
    "Step3p7FlashForCausalLM": step_3_7,
    "DeepseekV4ForCausalLM": deepseek_v4,
    "DeciLMForCausalLM": nas,
}


published = pytest.mark.skipif(not CONFIGS, reason="the published configurations are not here")


@published
def test_most_are_counted_and_the_rest_is_refused_in_one_sentence() -> None:
    others = {stem: c for stem, c in CONFIGS.items() if c["architectures"][0] not in COUNTS}
    assert len(CONFIGS) - len(others) >= FEWEST
    for c in others.values():
        with pytest.raises(ConfigError, match="has no closed form here"):
            flops.read(c)


@published
@pytest.mark.parametrize("stem", [s for s, c in CONFIGS.items() if c["architectures"][0] in COUNTS])
def test_a_published_configuration_is_counted_to_the_last_integer(stem: str) -> None:
    c = CONFIGS[stem]
    model = flops.read(c)
    lengths = flops.fixed(1, tokens=LENGTH, **({"image": 0} if "image" in model.streams else {}))
    counted = flops.count(model, lengths).model_flops_per_step
    assert counted == 3 * COUNTS[c["architectures"][0]](c)
