"""Encoder-decoder transformers: T5 and BART.

An encoder over the source tokens, every pair; a decoder over the target tokens, half of the pairs, that also attends
to every source token: 2 h^2 per target and 2 h^2 per source token and 2 h per pair of the two, per layer.
Sources: T5 (arXiv:1910.10683), BART (arXiv:1910.13461), and the model classes in Hugging Face transformers.
Streams: `source` and `target`; a count per token divides by both together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ofu_exporter.flops.encoder_stack import cross, stack, useful
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import embedding, linear, vector
from ofu_exporter.flops.shapes import GroupedAttention, Layer, Mlp, layer_norm
from ofu_exporter.flops.terms import Extent, Part, Term

SOURCE, TARGET = "source", "target"

NEUTRAL = listed(
    """
    add_bias_logits add_final_layer_norm decoder_layerdrop dense_act_fn dropout_rate encoder_layerdrop
    extra_pos_embeddings force_bos_token_to_be_generated is_gated_act max_source_positions n_positions
    normalize_before normalize_embedding num_hidden_layers output_past relative_attention_max_distance
    scale_decoder_outputs static_position_embeddings
    """
)

BART_POSITION_OFFSET = 2
"""BART's tables of positions have two rows more than positions (`BartLearnedPositionalEmbedding`)."""


def t5(fields: Fields) -> tuple[list[Term], int]:
    """Relative positions, head dimension of its own, RMS norms, no biases."""
    hidden, heads = fields.size("d_model"), fields.size("num_heads")
    mixer = GroupedAttention(heads, heads, fields.size("d_kv"))
    gated = fields.word("feed_forward_proj", ("relu", "gated-gelu", "gated-silu"), "relu") != "relu"
    block = Mlp(fields.size("d_ff"), gated)
    deep = fields.size("num_layers")
    shallow = fields.size("num_decoder_layers", default=deep)
    buckets = fields.size("relative_attention_num_buckets", default=32)
    vocab, tied = fields.size("vocab_size"), fields.flag("tie_word_embeddings", default=True)
    terms = [
        embedding("embed_tokens", vocab, hidden),
        vector("relative_positions", 2 * buckets * heads, in_layers=False),
        *stack(hidden, (Layer(mixer, block, 2 * hidden),) * deep, SOURCE, "encoder."),
        *stack(
            hidden, (Layer(mixer, block, 3 * hidden),) * shallow, TARGET, "decoder.", causal=True
        ),
        *cross(hidden, mixer, shallow, TARGET, SOURCE),
        vector("final_norms", 2 * hidden, in_layers=False),
        _head(hidden, vocab, tied),
    ]
    return terms, deep + shallow


def bart(fields: Fields) -> tuple[list[Term], int]:
    """Learned positions, layer norms, biases everywhere."""
    hidden = fields.size("d_model")
    deep, shallow = fields.size("encoder_layers"), fields.size("decoder_layers")
    encoder = _attention(fields, hidden, "encoder_attention_heads")
    decoder = _attention(fields, hidden, "decoder_attention_heads")
    norm, vocab = layer_norm(hidden), fields.size("vocab_size")
    rows = fields.size("max_position_embeddings") + BART_POSITION_OFFSET
    tied = fields.flag("tie_word_embeddings", default=True)
    above = Layer(encoder, Mlp(fields.size("encoder_ffn_dim"), False, bias=True), 2 * norm)
    below = Layer(decoder, Mlp(fields.size("decoder_ffn_dim"), False, bias=True), 3 * norm)
    terms = [
        embedding("embed_tokens", vocab, hidden),
        embedding("embed_positions", 2 * rows, hidden),
        vector("embed_norms", 2 * norm, in_layers=False),
        *stack(hidden, (above,) * deep, SOURCE, "encoder."),
        *stack(hidden, (below,) * shallow, TARGET, "decoder.", causal=True),
        *cross(hidden, decoder, shallow, TARGET, SOURCE),
        _head(hidden, vocab, tied),
    ]
    return terms, deep + shallow


ARCHITECTURES: dict[str, Callable[[Fields], tuple[list[Term], int]]] = {
    "T5ForConditionalGeneration": t5,
    "MT5ForConditionalGeneration": t5,
    "BartForConditionalGeneration": bart,
}


def read(fields: Fields, architecture: str) -> Model:
    """An encoder-decoder transformer."""
    terms, layers = ARCHITECTURES[architecture](fields)
    streams = (SOURCE, TARGET)
    return Model(
        "encoder_decoder",
        architecture,
        terms=useful(terms),
        layers=layers,
        counted=streams,
        streams=streams,
    )


def _attention(fields: Fields, hidden: int, name: str) -> GroupedAttention:
    heads = fields.size(name)
    if hidden % heads:
        raise fields.contradiction("the heads must divide", "d_model", name)
    return GroupedAttention(heads, heads, hidden // heads, qkv_bias=True, out_bias=True)


def _head(hidden: int, vocab: int, tied: bool) -> Term:
    own = linear("lm_head", Part.HEAD, hidden, vocab, extent=Extent(stream=TARGET), in_layers=False)
    return replace(own, parameters=0, active=0) if tied else own
