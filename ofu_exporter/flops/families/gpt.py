"""Decoders like GPT-2: layer norms and biases, two-matrix feed-forward blocks, as many groups as heads.

Terms and formulas are those of `blocks.decoder`. Sources: GPT-2 (Radford et al., 2019), GPT-NeoX (arXiv:2204.06745),
GPT-J (Wang and Komatsuzaki, 2021), OPT (arXiv:2205.01068), BLOOM (arXiv:2211.05100), and the model classes in
Hugging Face transformers.
"""

from __future__ import annotations

from collections.abc import Callable

from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.shapes import Decoder, GroupedAttention, Layer, Mlp, layer_norm

NEUTRAL = listed(
    """
    activation alibi apply_residual_connection_post_layernorm attention_softmax_in_fp32 bias_dropout_fusion emb_pdrop
    embedding_fraction gelu_fused init_device learned_pos_emb logit_scale max_seq_len no_bias norm_type verbose
    masked_softmax_fusion n_ctx n_positions offset_alibi reorder_and_upcast_attn rotary rotary_dim
    scale_attn_by_inverse_layer_idx scale_attn_weights seq_length skip_bias_add skip_bias_add_qkv slow_but_exact
    summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj unk_token_id
    use_parallel_residual
    """
)

OPT_POSITION_OFFSET = 2
"""OPT's table of positions has two more rows than positions (transformers `OPTLearnedPositionalEmbedding`)."""


def gpt2(fields: Fields) -> Decoder:
    """Learned positions, tied head, biases everywhere."""
    hidden = fields.size("n_embd", "hidden_size")
    if fields.flag("add_cross_attention", default=False):
        raise fields.error("add_cross_attention", "true is not known; known: false")
    return _decoder(
        fields,
        hidden,
        fields.size("n_layer", "num_hidden_layers"),
        _attention(fields, hidden, fields.size("n_head", "num_attention_heads")),
        Mlp(fields.size("n_inner", default=4 * hidden), gated=False, bias=True),
        tied=True,
        positions=fields.size("n_positions"),
    )


def gptj(fields: Fields) -> Decoder:
    """Rotary positions, one norm per layer, no biases in attention, one on the head."""
    hidden = fields.size("n_embd")
    return _decoder(
        fields,
        hidden,
        fields.size("n_layer"),
        _attention(fields, hidden, fields.size("n_head"), bias=False),
        Mlp(fields.size("n_inner", default=4 * hidden), gated=False, bias=True),
        norms=1,
        head_bias=True,
    )


def gpt_neox(fields: Fields) -> Decoder:
    """Rotary positions, parallel residual, biases everywhere."""
    hidden = fields.size("hidden_size")
    bias = fields.flag("attention_bias", default=True)
    return _decoder(
        fields,
        hidden,
        fields.size("num_hidden_layers"),
        _attention(fields, hidden, fields.size("num_attention_heads"), bias),
        Mlp(fields.size("intermediate_size"), gated=False, bias=True),
    )


def opt(fields: Fields) -> Decoder:
    """Learned positions; the 350M model embeds at another width and normalises after its blocks."""
    hidden, bias = fields.size("hidden_size"), fields.flag("enable_bias", default=True)
    if not fields.flag("layer_norm_elementwise_affine", default=True):
        raise fields.error("layer_norm_elementwise_affine", "false is not known; known: true")
    before = fields.flag("do_layer_norm_before", default=True)
    removed = fields.flag("_remove_final_layer_norm", default=False)
    return _decoder(
        fields,
        hidden,
        fields.size("num_hidden_layers"),
        _attention(fields, hidden, fields.size("num_attention_heads"), bias),
        Mlp(fields.size("ffn_dim"), gated=False, bias=bias),
        tied=True,
        positions=fields.size("max_position_embeddings") + OPT_POSITION_OFFSET,
        final_norm=before and not removed,
        embedding_width=fields.size("word_embed_proj_dim", default=hidden),
    )


def bloom(fields: Fields) -> Decoder:
    """ALiBi instead of positions, a norm after the embedding."""
    hidden = fields.size("hidden_size", "n_embed")
    return _decoder(
        fields,
        hidden,
        fields.size("n_layer", "num_hidden_layers"),
        _attention(fields, hidden, fields.size("n_head", "num_attention_heads")),
        Mlp(fields.size("n_inner", default=4 * hidden), gated=False, bias=True),
        tied=True,
        embedding_norm=True,
    )


def falcon(fields: Fields) -> Decoder:
    """Rotary positions or ALiBi, one key for all heads or some groups, blocks side by side (arXiv:2311.16867)."""
    hidden = fields.size("hidden_size")
    number, bias = fields.size("num_hidden_layers", "n_layer"), fields.flag("bias", default=False)
    newer = fields.flag("new_decoder_architecture", default=False)
    heads = fields.size("num_attention_heads", "n_head")
    groups = fields.size("num_kv_heads", "n_head_kv", default=heads)
    if fields.flag("multi_query", default=True) and not newer:
        groups = 1
    if hidden % heads or heads % groups:
        raise fields.error(
            "num_attention_heads", f"{heads} must divide {hidden} and be whole groups"
        )
    attention = GroupedAttention(heads, groups, hidden // heads, qkv_bias=bias, out_bias=bias)
    norms = 2
    if fields.flag("parallel_attn", default=True):
        norms = fields.size("num_ln_in_parallel_attn", default=1 + newer)
    block = Mlp(fields.size("ffn_hidden_size", default=4 * hidden), gated=False, bias=bias)
    return _decoder(fields, hidden, number, attention, block, tied=True, norms=norms)


def mpt(fields: Fields) -> Decoder:
    """ALiBi, norms and linear layers without biases."""
    hidden, heads = fields.size("d_model"), fields.size("n_heads")
    if fields.has("attn_config"):
        kinds = fields.mapping("attn_config")
        if kinds.get("attn_type", "multihead_attention") != "multihead_attention":
            raise fields.error("attn_config", f"attn_type {kinds['attn_type']!r} is not known")
    block = Mlp(fields.size("expansion_ratio", default=4) * hidden, gated=False)
    layer = Layer(_attention(fields, hidden, heads, bias=False), block, 2 * hidden)
    return Decoder(
        hidden=hidden,
        vocab=fields.size("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=True),
        layers=(layer,) * fields.size("n_layers"),
        final_norm_parameters=hidden,
    )


ARCHITECTURES: dict[str, Callable[[Fields], Decoder]] = {
    "GPT2LMHeadModel": gpt2,
    "GPTJForCausalLM": gptj,
    "GPTNeoXForCausalLM": gpt_neox,
    "OPTForCausalLM": opt,
    "BloomForCausalLM": bloom,
    "FalconForCausalLM": falcon,
    "MptForCausalLM": mpt,
}


def read(fields: Fields, architecture: str) -> Model:
    """A decoder of the GPT kind."""
    shape = ARCHITECTURES[architecture](fields)
    return Model("gpt", architecture, shape, layers=len(shape.layers))


def _attention(fields: Fields, hidden: int, heads: int, bias: bool = True) -> GroupedAttention:
    if hidden % heads:
        raise fields.error(
            "hidden size", f"{hidden} and {heads} heads contradict each other: they must divide"
        )
    return GroupedAttention(heads, heads, hidden // heads, qkv_bias=bias, out_bias=bias)


def _decoder(  # noqa: PLR0913 - the switches in which these five architectures differ
    fields: Fields,
    hidden: int,
    number: int,
    attention: GroupedAttention,
    block: Mlp,
    *,
    tied: bool = False,
    norms: int = 2,
    positions: int = 0,
    final_norm: bool = True,
    embedding_norm: bool = False,
    embedding_width: int | None = None,
    head_bias: bool = False,
) -> Decoder:
    return Decoder(
        hidden=hidden,
        vocab=fields.size("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=tied),
        layers=(Layer(attention, block, norms * layer_norm(hidden)),) * number,
        final_norm_parameters=final_norm * layer_norm(hidden),
        positions=positions,
        embedding_norm_parameters=embedding_norm * layer_norm(hidden),
        embedding_width=embedding_width,
        head_bias=head_bias,
    )
