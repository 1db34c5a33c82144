"""DeepSeek V2, V3 and V3.2, and GLM: multi-head latent attention, shared and routed experts, multi-token prediction.

Terms and formulas are those of `mixers.LatentAttention` and `shapes.Experts`. With sparse attention a query attends
to the index_topk best keys of its past, which small heads find by scoring every key. Sources: DeepSeek-V2
(arXiv:2405.04434), DeepSeek-V3 (arXiv:2412.19437, section 2), DeepSeek-V3.2 (arXiv:2512.02556), GLM-4.7-Flash and
GLM-5 (model cards), and the model classes in Hugging Face transformers, whose kernels mask the other keys instead of
leaving them out. `moe_latent_size` is Megatron-LM's field: activations are projected to that width before the routed
experts. The published 671B parameters and 37B active ones are without layers of multi-token prediction.
"""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.mixers import Indexer, LatentAttention
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.shapes import Experts, Layer, Mlp

ARCHITECTURES = {
    "DeepseekV2ForCausalLM": False,
    "DeepseekV3ForCausalLM": False,
    "DeepseekV32ForCausalLM": True,
    "Glm4MoeLiteForCausalLM": False,
    "GlmMoeDsaForCausalLM": True,
}
"""Each architecture, and whether its attention is sparse."""


def read(fields: Fields, architecture: str) -> Model:
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    sparse_attention = ARCHITECTURES[architecture]
    mixers = _attentions(fields, number, sparse_attention)
    if architecture != "DeepseekV2ForCausalLM":
        fields.refuse(True, "mlp_bias")
    bias = fields.flag("mlp_bias", default=False)
    dense = Mlp(fields.size("intermediate_size"), gated=True, bias=bias)
    sparse = _experts(fields, architecture)
    layers = tuple(
        Layer(mixer, sparse if routed else dense, 2 * hidden)
        for mixer, routed in zip(mixers, _sparse_layers(fields, number), strict=True)
    )
    shape = hf_config.decoder_of(fields, hidden, layers)
    return Model("deepseek", architecture, shape, layers=number)


def _sparse_layers(fields: Fields, number: int) -> list[bool]:
    every = fields.size("moe_layer_freq", default=1)
    if fields.has("mlp_layer_types"):
        kinds = fields.words("mlp_layer_types", ("dense", "sparse"), number)
        fields.has("first_k_dense_replace")
        return [kind == "sparse" for kind in kinds]
    first = fields.size("first_k_dense_replace", least=0)
    if first > number:
        names = ("first_k_dense_replace", "num_hidden_layers")
        raise fields.contradiction("more dense layers than layers", *names)
    return [index >= first and index % every == 0 for index in range(number)]


def _attentions(fields: Fields, number: int, sparse: bool) -> list[LatentAttention]:
    """The attention of each layer, with its own indexer or with the choice of an earlier layer."""
    plain = attention(fields)
    if not sparse:
        return [plain] * number
    keys = fields.size("index_topk")
    indexer = Indexer(fields.size("index_n_heads"), fields.size("index_head_dim"))
    shared = replace(plain, keys=keys)
    full = replace(shared, indexer=indexer)
    if not fields.has("indexer_types"):
        return [full] * number
    kinds = fields.words("indexer_types", ("full", "shared"), number)
    return [full if kind == "full" else shared for kind in kinds]


def attention(fields: Fields) -> LatentAttention:
    """The latent attention of a configuration, of every pair."""
    heads = fields.size("num_attention_heads")
    if fields.size("num_key_value_heads", default=heads) != heads:
        names = ("num_attention_heads", "num_key_value_heads")
        raise fields.contradiction("latent attention has no groups", *names)
    mixer = LatentAttention(
        heads=heads,
        query_rank=fields.optional("q_lora_rank"),
        key_value_rank=fields.size("kv_lora_rank"),
        nope_dim=fields.size("qk_nope_head_dim"),
        rope_dim=fields.size("qk_rope_head_dim"),
        value_dim=fields.size("v_head_dim"),
        bias=fields.flag("attention_bias", default=False),
    )
    both = mixer.nope_dim + mixer.rope_dim
    if fields.size("qk_head_dim", default=both) != both:
        parts = ("qk_head_dim", "qk_nope_head_dim", "qk_rope_head_dim")
        raise fields.contradiction("the head is its rope and its nope part", *parts)
    return mixer


def _experts(fields: Fields, architecture: str) -> Experts:
    names = ("moe_intermediate_size", "n_routed_experts", "num_local_experts", "num_experts")
    routed = hf_config.experts(fields, *names)
    method = "greedy" if architecture == "DeepseekV2ForCausalLM" else "noaux_tc"
    methods = ("greedy", "group_limited_greedy", "noaux_tc")
    return replace(
        routed,
        shared_width=fields.size("n_shared_experts", default=0, least=0) * routed.width,
        outer_bias=fields.flag("mlp_bias", default=False),
        correction_bias=fields.word("topk_method", methods, default=method) == "noaux_tc",
    )
