"""LFM2: short gated convolutions and grouped attention, with dense or sparse blocks.

Terms and formulas are those of `recurrences.short_convolution` and `blocks`. A width that adjusts itself is two thirds
of intermediate_size, rounded up to whole multiples. Sources: LFM2 (arXiv:2511.23404), and the model classes in Hugging
Face transformers.
"""

from __future__ import annotations

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.shapes import (
    Decoder,
    Experts,
    FeedForward,
    GroupedAttention,
    Layer,
    Mlp,
    ShortConvolution,
)

ARCHITECTURES = ("Lfm2ForCausalLM", "Lfm2MoeForCausalLM")

NEUTRAL = listed(
    """
    block_dim block_mlp_init_scale block_norm_eps block_out_init_scale block_use_swiglu block_use_xavier_init conv_dim
    conv_dim_out conv_use_xavier_init full_attn_idxs num_heads theta use_pos_enc
    """
)


def read(fields: Fields, architecture: str) -> Model:
    """A decoder of convolutions and attention."""
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    heads = hf_config.heads(fields, hidden)
    attention = GroupedAttention(*heads, norm_parameters=2 * heads[2])
    convolution = ShortConvolution(
        fields.size("conv_L_cache"), fields.flag("conv_bias", default=False)
    )
    blocks = _sparse(fields, number) if "Moe" in architecture else [_dense(fields)] * number
    kinds = _kinds(fields, number)
    layers = tuple(
        Layer(attention if kind == hf_config.FULL else convolution, block, 2 * hidden)
        for kind, block in zip(kinds, blocks, strict=True)
    )
    shape = Decoder(
        hidden=hidden,
        vocab=fields.size("vocab_size"),
        tied=fields.flag("tie_embedding", default=fields.flag("tie_word_embeddings", default=True)),
        layers=layers,
        final_norm_parameters=hidden,
    )
    return Model("lfm", architecture, shape, layers=number)


def _kinds(fields: Fields, number: int) -> tuple[str, ...]:
    if fields.has("layer_types"):
        return fields.words("layer_types", (hf_config.FULL, "conv"), number)
    full = fields.sizes("full_attn_idxs", least=0)
    return tuple(hf_config.FULL if index in full else "conv" for index in range(number))


def _dense(fields: Fields) -> Mlp:
    width = fields.size("intermediate_size", "block_ff_dim")
    factor, multiple = (
        fields.number("block_ffn_dim_multiplier", 1.0),
        fields.size("block_multiple_of", default=256),
    )
    if fields.flag("block_auto_adjust_ff_dim", default=True):
        width = int(factor * int(2 * width / 3))
        width = -(-width // multiple) * multiple
    return Mlp(width, gated=True)


def _sparse(fields: Fields, number: int) -> list[FeedForward]:
    experts, used = hf_config.experts_used(fields, "num_experts")
    sparse = Experts(
        experts,
        used,
        fields.size("moe_intermediate_size"),
        gated=True,
        correction_bias=fields.flag("use_expert_bias", default=True),
    )
    first, dense = (
        fields.size("num_dense_layers", least=0),
        Mlp(fields.size("intermediate_size"), True),
    )
    return [dense if index < first else sparse for index in range(number)]
