"""Encoder-decoder transformers: T5, BART and Whisper.

An encoder over the source tokens, with every pair. A decoder over the target tokens, with half of the pairs, that
also attends to every source token: 2 h^2 per target and 2 h^2 per source token and 2 h per pair of the two, per
layer. Sources: T5 (arXiv:1910.10683), BART (arXiv:1910.13461), Whisper (arXiv:2212.04356), and the model classes in
Hugging Face transformers. Streams: `source` and `target`; a count per token divides by both together. The
configuration fixes the length of Whisper's source.
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
    add_bias_logits apply_spec_augment classifier_proj_size mask_feature_length mask_feature_min_masks
    mask_feature_prob mask_time_length mask_time_min_masks mask_time_prob median_filter_width
    use_weighted_layer_sum add_final_layer_norm decoder_layerdrop dense_act_fn dropout_rate encoder_layerdrop
    extra_pos_embeddings force_bos_token_to_be_generated is_gated_act max_source_positions n_positions
    normalize_before normalize_embedding num_hidden_layers output_past relative_attention_max_distance
    scale_decoder_outputs static_position_embeddings
    """
)

BART_POSITION_OFFSET = 2
"""BART's tables of positions have two more rows than positions (`BartLearnedPositionalEmbedding`)."""


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


def whisper(fields: Fields) -> tuple[list[Term], int]:
    """Two convolutions over the spectrogram, learned positions, no biases of keys; each sample has all its frames."""
    hidden, bins = fields.size("d_model"), fields.size("num_mel_bins")
    deep, shallow = fields.size("encoder_layers"), fields.size("decoder_layers")
    encoder = _attention(fields, hidden, "encoder_attention_heads", key_bias=False)
    decoder = _attention(fields, hidden, "decoder_attention_heads", key_bias=False)
    norm, vocab = layer_norm(hidden), fields.size("vocab_size")
    tied = fields.flag("tie_word_embeddings", default=True)
    above = Layer(encoder, Mlp(fields.size("encoder_ffn_dim"), False, bias=True), 2 * norm)
    below = Layer(decoder, Mlp(fields.size("decoder_ffn_dim"), False, bias=True), 3 * norm)
    sources = Extent(stream=SOURCE)
    first, second = (
        linear(
            name,
            Part.CONVOLUTION,
            WIDTH * inputs,
            hidden,
            bias=True,
            extent=sources,
            in_layers=False,
        )
        for name, inputs in (("conv1", bins), ("conv2", hidden))
    )
    terms = [
        # The second convolution has a stride of 2: the first runs at two positions per token.
        replace(first, flops=2 * first.flops),
        second,
        embedding("embed_tokens", vocab, hidden),
        embedding("embed_frames", fields.size("max_source_positions"), hidden),
        embedding("embed_positions", fields.size("max_target_positions"), hidden),
        vector("final_norms", 2 * norm, in_layers=False),
        *stack(hidden, (above,) * deep, SOURCE, "encoder."),
        *stack(hidden, (below,) * shallow, TARGET, "decoder.", causal=True),
        *cross(hidden, decoder, shallow, TARGET, SOURCE),
        _head(hidden, vocab, tied),
    ]
    return terms, deep + shallow


WIDTH = 3
"""Positions that a convolution of Whisper sees."""
ARCHITECTURES: dict[str, Callable[[Fields], tuple[list[Term], int]]] = {
    "T5ForConditionalGeneration": t5,
    "MT5ForConditionalGeneration": t5,
    "BartForConditionalGeneration": bart,
    "WhisperForConditionalGeneration": whisper,
}


def read(fields: Fields, architecture: str) -> Model:
    """An encoder-decoder transformer."""
    make = ARCHITECTURES[architecture]
    terms, layers = make(fields)
    frames = fields.size("max_source_positions") if make is whisper else 0
    return Model(
        "encoder_decoder",
        architecture,
        terms=useful(terms),
        layers=layers,
        counted=(SOURCE, TARGET),
        lengths={SOURCE: frames} if frames else {},
        streams=(TARGET,) if frames else (SOURCE, TARGET),
    )


def _attention(fields: Fields, hidden: int, name: str, key_bias: bool = True) -> GroupedAttention:
    heads = fields.size(name)
    if hidden % heads:
        raise fields.contradiction("the heads must divide", "d_model", name)
    head_dim = hidden // heads
    return GroupedAttention(heads, heads, head_dim, qkv_bias=True, out_bias=True, key_bias=key_bias)


def _head(hidden: int, vocab: int, tied: bool) -> Term:
    own = linear("lm_head", Part.HEAD, hidden, vocab, extent=Extent(stream=TARGET), in_layers=False)
    return replace(own, parameters=0, active=0) if tied else own
