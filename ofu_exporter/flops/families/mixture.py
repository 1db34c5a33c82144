"""Decoders with grouped attention and sparse layers: Mixtral, Qwen MoE, OLMoE, GLM-4 MoE, gpt-oss.

Terms and formulas are those of `shapes.Decoder`: a token costs its k experts, the shared one and the router,
never all experts; which layers are sparse is the architecture's rule. Sources: Mixtral (arXiv:2401.04088), Qwen2
(arXiv:2407.10671), Qwen3 (arXiv:2505.09388), OLMoE (arXiv:2409.02060), GLM-4.5 (arXiv:2508.06471), gpt-oss
(arXiv:2508.10925), Granite MoE, Phi-3.5-MoE, MiniMax-M2, Step-3.7 and ERNIE 4.5 (model cards), and the model classes in
Hugging Face transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.families import decoder
from ofu_exporter.flops.families.decoder import DecoderPlan
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import layer_norm
from ofu_exporter.flops.shapes import Experts, FeedForward, Layer, Mlp

Blocks = Callable[[Fields, int], list[FeedForward]]
"""Makes the feed-forward blocks of a number of layers."""
NUMBER, SHARED = "num_local_experts", "shared_intermediate_size"


@dataclass(frozen=True, slots=True)
class MixturePlan(DecoderPlan):
    """The same of a sparse decoder."""

    block: Blocks = field(kw_only=True)
    sinks: bool = False
    """Whether every head has a learned sink."""
    norm_field: str = "use_qk_norm"
    head_gates: bool = False


def everywhere(number: str, shared: str = "", **biases: bool) -> Blocks:
    """Every layer is sparse. Experts are as wide as intermediate_size, `number` is the field that says how many there
    are, `shared` the one with the width of a shared expert, and `biases` are those of `Experts`.
    """

    def blocks(fields: Fields, layers: int) -> list[FeedForward]:
        block = hf_config.experts(fields, "intermediate_size", number)
        width = fields.size(shared, default=0, least=0) if shared else 0
        return [replace(block, shared_width=width, **biases)] * layers

    return blocks


def qwen(fields: Fields, number: int) -> list[FeedForward]:
    """Every decoder_sparse_step-th layer is sparse; those of Qwen2 have a gated shared expert."""
    block = hf_config.experts(fields, "moe_intermediate_size", "num_experts", "num_local_experts")
    shared = fields.size("shared_expert_intermediate_size", default=0, least=0)
    sparse = replace(block, shared_width=shared, shared_gate=shared > 0)
    dense_indices = hf_config.dense_indices(fields, number)
    dense = Mlp(fields.size("intermediate_size"), gated=True)
    return [dense if index in dense_indices else sparse for index in range(number)]


def glm(fields: Fields, number: int) -> list[FeedForward]:
    """The first layers are dense. Experts have a bias that balances the load, and there are shared experts."""
    names = ("n_routed_experts", "num_local_experts")
    block = hf_config.experts(fields, "moe_intermediate_size", *names)
    shared = fields.size("n_shared_experts", default=0, least=0)
    sparse = replace(block, shared_width=shared * block.width, correction_bias=True)
    first = fields.size("first_k_dense_replace", least=0)
    dense = Mlp(fields.size("intermediate_size"), gated=True)
    return [dense if index < first else sparse for index in range(number)]


def step(fields: Fields, number: int) -> list[FeedForward]:
    """The first layers are dense. The shared expert has a width of its own."""
    block = hf_config.experts(fields, "moe_intermediate_size", "num_experts", "n_routed_experts")
    if fields.size("n_shared_experts", default=1) != 1:
        raise fields.error("n_shared_experts", "is not known; known: 1")
    sparse = replace(block, shared_width=fields.size("share_expert_dim"), correction_bias=True)
    first = fields.size("first_k_dense_replace", least=0)
    dense = Mlp(fields.size("intermediate_size"), gated=True)
    return [dense if index < first else sparse for index in range(number)]


def minimax(fields: Fields, number: int) -> list[FeedForward]:
    """Every layer is sparse. Attention is full in layers of type 1, the only type of M2."""
    if fields.has("attn_type_list") and {*fields.sizes("attn_type_list", least=0)} != {1}:
        raise fields.error("attn_type_list", "has another type than 1, full attention")
    return everywhere(NUMBER, SHARED, correction_bias=True)(fields, number)


def llama_4(fields: Fields, number: int) -> list[FeedForward]:
    """Every interleave_moe_layer_step-th layer is sparse, with a shared expert; others have their own width."""
    width = fields.size("intermediate_size")
    experts, used = hf_config.experts_used(fields, "num_local_experts")
    sparse = Experts(experts, used, width, gated=True, shared_width=width)
    dense = Mlp(fields.size("intermediate_size_mlp"), gated=True)
    every = fields.size("interleave_moe_layer_step", default=1)
    chosen: Collection[int] = range(every - 1, number, every)
    if fields.has("moe_layers"):
        chosen = fields.places("moe_layers", number, "num_hidden_layers")
    return [sparse if index in chosen else dense for index in range(number)]


def hunyuan(fields: Fields, number: int) -> list[FeedForward]:
    """Every layer is sparse, with a shared expert; a list has the number of experts of each layer."""
    width = fields.size("intermediate_size")
    stored = hf_config.per_layer(fields, "num_experts", number)
    used = hf_config.per_layer(fields, "moe_topk", number)
    for name, expected in (("moe_intermediate_size", width), ("num_shared_expert", 1)):
        if fields.has(name) and {*hf_config.per_layer(fields, name, number)} != {expected}:
            raise fields.error(name, f"is not known; known: {expected}")
    sizes = [*zip(stored, used, strict=True)]
    if any(few < many for few, many in sizes):
        raise fields.contradiction("more experts than there are", "num_experts", "moe_topk")
    return [Experts(each, active, width, True, shared_width=width) for each, active in sizes]


def ernie(fields: Fields, number: int) -> list[FeedForward]:
    """Every moe_layer_interval-th layer from moe_layer_start_index to moe_layer_end_index is sparse."""
    width, bias = fields.size("moe_intermediate_size"), fields.flag("use_bias", default=False)
    dense = Mlp(fields.size("intermediate_size"), True, bias)
    experts, used = fields.size("moe_num_experts"), fields.size("moe_k")
    if used > experts:
        raise fields.contradiction("more experts than there are", "moe_num_experts", "moe_k")
    shared = fields.size("moe_num_shared_experts", default=0, least=0)
    sparse = Experts(experts, used, width, True, shared * width)
    sparse = replace(sparse, outer_bias=bias, correction_bias=True)
    every = fields.size("moe_layer_interval", default=1)
    start = fields.size("moe_layer_start_index", least=0)
    end = fields.integer("moe_layer_end_index", default=-1)
    end = number - 1 if end == -1 else end
    return [
        sparse if start <= index <= end and (index + 1) % every == 0 else dense
        for index in range(number)
    ]


ARCHITECTURES: dict[str, MixturePlan] = {
    "MixtralForCausalLM": MixturePlan(block=everywhere(NUMBER)),
    "Qwen2MoeForCausalLM": MixturePlan(block=qwen, bias=True, output_bias=False),
    "Qwen3MoeForCausalLM": MixturePlan(block=qwen, query_key_norm="head"),
    "OlmoeForCausalLM": MixturePlan(block=everywhere("num_experts"), query_key_norm="all"),
    "FlexOlmoForCausalLM": MixturePlan(block=everywhere("num_experts"), query_key_norm="all"),
    "GraniteMoeForCausalLM": MixturePlan(block=everywhere(NUMBER)),
    "GraniteMoeSharedForCausalLM": MixturePlan(block=everywhere(NUMBER, SHARED)),
    "PhimoeForCausalLM": MixturePlan(block=everywhere(NUMBER), norm=layer_norm),
    "MiniMaxM2ForCausalLM": MixturePlan(block=minimax, query_key_norm="all"),
    "Step3p7FlashForCausalLM": MixturePlan(block=step, query_key_norm="head", head_gates=True),
    "Ernie4_5_MoeForCausalLM": MixturePlan(block=ernie, bias_field="use_bias", tied=True),
    "Glm4MoeForCausalLM": MixturePlan(block=glm, output_bias=False),
    "HunYuanMoEV1ForCausalLM": MixturePlan(block=hunyuan, query_key_norm="head"),
    "Llama4ForCausalLM": MixturePlan(block=llama_4, optional_norm=""),
    "GptOssForCausalLM": MixturePlan(
        block=everywhere(NUMBER, bias=True, router_bias=True), bias=True, sinks=True, full_every=2
    ),
}


def read(fields: Fields, architecture: str) -> Model:
    plan = ARCHITECTURES[architecture]
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    if fields.has("qkv_bias"):
        fields.has(plan.bias_field)
        plan = replace(plan, bias_field="qkv_bias")
    mixer = decoder.attention(fields, plan, hidden)
    sinks = plan.sinks * mixer.heads
    norms = mixer.norm_parameters + sinks
    mixer = replace(mixer, norm_parameters=norms, head_gates=plan.head_gates)
    if fields.has("attention_chunk_size"):
        mixers = hf_config.chunked(fields, mixer, number)
    else:
        mixers = hf_config.windowed(fields, mixer, number, plan.full_every)
    pairs = zip(mixers, plan.block(fields, number), strict=True)
    layers = [Layer(*pair, 2 * plan.norm(hidden)) for pair in pairs]
    shape = hf_config.decoder_of(fields, hidden, layers, tied=plan.tied, norm=plan.norm)
    bias = plan.block is ernie and fields.flag("use_bias", default=False)
    shape = replace(shape, head_bias=fields.flag("lm_head_bias", default=bias))
    return Model("mixture", architecture, shape, layers=number)
