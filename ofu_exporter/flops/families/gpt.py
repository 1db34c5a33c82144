"""Decoders like GPT-2: layer norms and biases, two-matrix feed-forward blocks, as many groups as heads.

Terms and formulas are those of `shapes.Decoder`. Sources: GPT-2 (Radford et al., 2019), GPT-NeoX (arXiv:2204.06745),
GPT-J (Wang and Komatsuzaki, 2021), OPT (arXiv:2205.01068), BLOOM (arXiv:2211.05100), Falcon (arXiv:2311.16867), and
the model classes in Hugging Face transformers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.hf_config import decoder_of, multi_head
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import layer_norm
from ofu_exporter.flops.shapes import Decoder, Layer, Mlp

OPT_POSITION_OFFSET = 2
"""OPT's table of positions has two more rows than positions (transformers `OPTLearnedPositionalEmbedding`)."""


def gpt2(fields: Fields) -> Decoder:
    """Learned positions, tied head, biases everywhere."""
    hidden = fields.size("n_embd", "hidden_size")
    fields.refuse(True, "add_cross_attention")
    attention = multi_head(fields, hidden, "n_head", "num_attention_heads")
    layer = Layer(attention, _block(fields, "n_inner", hidden), 2 * layer_norm(hidden))
    shape = _decoder(fields, hidden, layer, "n_layer", "num_hidden_layers")
    return replace(shape, positions=fields.size("n_positions"))


def gptj(fields: Fields) -> Decoder:
    """Rotary positions, one norm per layer, no biases in attention, one on the head."""
    hidden = fields.size("n_embd")
    attention = multi_head(fields, hidden, "n_head", bias=False)
    layer = Layer(attention, _block(fields, "n_inner", hidden), layer_norm(hidden))
    return replace(_decoder(fields, hidden, layer, "n_layer", tied=False), head_bias=True)


def gpt_neox(fields: Fields) -> Decoder:
    """Rotary positions, parallel residual, biases everywhere."""
    hidden = fields.size("hidden_size")
    bias = fields.flag("attention_bias", default=True)
    attention = multi_head(fields, hidden, "num_attention_heads", bias=bias)
    block = Mlp(fields.size("intermediate_size"), gated=False, bias=True)
    layer = Layer(attention, block, 2 * layer_norm(hidden))
    return _decoder(fields, hidden, layer, "num_hidden_layers", tied=False)


def opt(fields: Fields) -> Decoder:
    """Learned positions; the 350M model embeds at another width and normalises after its blocks."""
    hidden, bias = fields.size("hidden_size"), fields.flag("enable_bias", default=True)
    fields.refuse(False, "layer_norm_elementwise_affine")
    before = fields.flag("do_layer_norm_before", default=True)
    removed = fields.flag("_remove_final_layer_norm", default=False)
    attention = multi_head(fields, hidden, "num_attention_heads", bias=bias)
    block = Mlp(fields.size("ffn_dim"), gated=False, bias=bias)
    layer = Layer(attention, block, 2 * layer_norm(hidden))
    return replace(
        _decoder(fields, hidden, layer, "num_hidden_layers"),
        positions=fields.size("max_position_embeddings") + OPT_POSITION_OFFSET,
        final_norm_parameters=(before and not removed) * layer_norm(hidden),
        embedding_width=fields.size("word_embed_proj_dim", default=hidden),
    )


def bloom(fields: Fields) -> Decoder:
    """ALiBi instead of positions, a norm after the embedding."""
    hidden = fields.size("hidden_size", "n_embed")
    attention = multi_head(fields, hidden, "n_head", "num_attention_heads")
    layer = Layer(attention, _block(fields, "n_inner", hidden), 2 * layer_norm(hidden))
    shape = _decoder(fields, hidden, layer, "n_layer", "num_hidden_layers")
    return replace(shape, embedding_norm_parameters=layer_norm(hidden))


def falcon(fields: Fields) -> Decoder:
    """Rotary positions or ALiBi, one key for all heads or some groups, blocks side by side."""
    hidden, bias = fields.size("hidden_size"), fields.flag("bias", default=False)
    newer = fields.flag("new_decoder_architecture", default=False)
    attention = multi_head(fields, hidden, "num_attention_heads", "n_head", bias=bias)
    groups = fields.size("num_kv_heads", "n_head_kv", default=attention.heads)
    if fields.flag("multi_query", default=True) and not newer:
        groups = 1
    if attention.heads % groups:
        raise fields.error("num_kv_heads", f"{groups} must divide the {attention.heads} heads")
    norms = 2
    if fields.flag("parallel_attn", default=True):
        norms = fields.size("num_ln_in_parallel_attn", default=1 + newer)
    block = _block(fields, "ffn_hidden_size", hidden, bias)
    layer = Layer(replace(attention, groups=groups), block, norms * layer_norm(hidden))
    return _decoder(fields, hidden, layer, "num_hidden_layers", "n_layer")


def mpt(fields: Fields) -> Decoder:
    """ALiBi, norms and linear layers without biases."""
    hidden = fields.size("d_model")
    if fields.has("attn_config"):
        kinds = fields.mapping("attn_config")
        if kinds.get("attn_type", "multihead_attention") != "multihead_attention":
            raise fields.error("attn_config", f"attn_type {kinds['attn_type']!r} is not known")
    block = Mlp(fields.size("expansion_ratio", default=4) * hidden, gated=False)
    layer = Layer(multi_head(fields, hidden, "n_heads", bias=False), block, 2 * hidden)
    return decoder_of(fields, hidden, (layer,) * fields.size("n_layers"), tied=True)


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
    shape = ARCHITECTURES[architecture](fields)
    return Model("gpt", architecture, shape, layers=len(shape.layers))


def _decoder(fields: Fields, hidden: int, layer: Layer, *names: str, tied: bool = True) -> Decoder:
    """Layer norms, and equal layers, as many as a field says."""
    layers = (layer,) * fields.size(*names)
    return decoder_of(fields, hidden, layers, tied=tied, norm=layer_norm)


def _block(fields: Fields, name: str, hidden: int, bias: bool = True) -> Mlp:
    """Two matrices of a width that a field says, otherwise of 4 times the hidden size."""
    return Mlp(fields.size(name, default=4 * hidden), gated=False, bias=bias)
