"""Kimi Linear: delta nets that decay per channel and latent attention, with dense or sparse blocks.

Terms and formulas are those of `recurrences.kimi_delta`, `blocks.latent_attention` and `blocks.experts`. Sources: Kimi
Linear (arXiv:2510.26692), and the model classes in Hugging Face transformers.
"""

from __future__ import annotations

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.families import deepseek
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.shapes import Decoder, Experts, KimiDelta, Layer, Mlp

ARCHITECTURES = ("KimiLinearForCausalLM",)

NEUTRAL = listed(
    """
    first_k_dense_replace head_dim mla_use_nope model_max_length moe_layer_freq moe_renormalize
    moe_router_activation_func num_expert_group topk_group use_grouped_topk
    """
)


def read(fields: Fields, architecture: str) -> Model:
    """A decoder of delta nets and latent attention."""
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    kernel = fields.size("linear_conv_kernel_dim", default=4)
    delta = KimiDelta(fields.size("linear_num_heads"), fields.size("linear_head_dim"), kernel)
    attention = deepseek.attention(fields)
    kinds = fields.words("layer_types", (hf_config.FULL, "linear_attention"), number)
    routed = fields.words("mlp_layer_types", ("dense", "sparse"), number)
    dense, sparse = Mlp(fields.size("intermediate_size"), gated=True), _experts(fields)
    layers = tuple(
        Layer(
            attention if kind == hf_config.FULL else delta,
            sparse if block == "sparse" else dense,
            2 * hidden,
        )
        for kind, block in zip(kinds, routed, strict=True)
    )
    if fields.flag("tie_word_embeddings", default=False):
        raise fields.error("tie_word_embeddings", "true is not known; known: false")
    shape = Decoder(
        hidden=hidden,
        vocab=fields.size("vocab_size"),
        tied=False,
        layers=layers,
        final_norm_parameters=hidden,
    )
    return Model("kimi", architecture, shape, layers=number)


def _experts(fields: Fields) -> Experts:
    number, used = hf_config.experts_used(fields, "num_experts")
    width = fields.size("moe_intermediate_size")
    shared = fields.size("num_shared_experts", default=0, least=0)
    return Experts(
        number, used, width, gated=True, shared_width=shared * width, correction_bias=True
    )
