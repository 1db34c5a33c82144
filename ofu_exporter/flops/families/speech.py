"""Encoders of raw sound: wav2vec 2.0 and HuBERT.

Convolutions turn samples into frames, every layer at its own length. A linear layer and one grouped convolution over
neighbouring frames follow, then layers over every pair of frames. For transcription there is a head on every frame.
Sources: wav2vec 2.0 (arXiv:2006.11477), HuBERT (arXiv:2106.07447), and the model classes in Hugging Face
transformers. Stream: `audio`, samples of one recording; a count per token is one per sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ofu_exporter.flops.encoder_stack import stack, useful
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import linear, vector
from ofu_exporter.flops.shapes import GroupedAttention, Layer, Mlp, layer_norm
from ofu_exporter.flops.terms import Extent, Part, Per, Term

ARCHITECTURES = ("HubertForCTC", "HubertModel", "Wav2Vec2ForCTC", "Wav2Vec2Model")

NEUTRAL = listed(
    """
    adapter_kernel_size adapter_stride apply_spec_augment classifier_proj_size codevector_dim
    contrastive_logits_temperature ctc_loss_reduction ctc_zero_infinity diversity_loss_weight do_stable_layer_norm
    feat_extract_activation feat_extract_dropout gradient_checkpointing mask_feature_length mask_feature_min_masks
    mask_time_length mask_time_min_masks num_adapter_layers num_codevector_groups num_codevectors_per_group
    num_feat_extract_layers num_negatives output_hidden_size proj_codevector_dim tdnn_dilation tdnn_dim tdnn_kernel
    tie_word_embeddings use_weighted_layer_sum vocab_size xvector_output_dim
    """
)
AUDIO = "audio"
Steps = tuple[tuple[int, int], ...]


def read(fields: Fields, architecture: str) -> Model:
    """An encoder of sound."""
    for name, known in (("add_adapter", False), ("conv_pos_batch_norm", False)):
        if fields.flag(name, default=known) != known:
            raise fields.error(name, "true is not known; known: false")
    if fields.has("adapter_attn_dim"):
        raise fields.error("adapter_attn_dim", "is not known")
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    kernels, strides = fields.sizes("conv_kernel"), fields.sizes("conv_stride")
    if len(kernels) != len(strides):
        raise fields.contradiction("one of each per layer", "conv_kernel", "conv_stride")
    steps = tuple(zip(kernels, strides, strict=True))
    terms = [
        *_convolutions(fields, steps),
        *_positions(fields, hidden, steps),
        *(
            _of_frames(term, steps)
            for term in stack(hidden, _layers(fields, hidden, number), AUDIO)
        ),
    ]
    if architecture.endswith("CTC"):
        vocab = fields.size("vocab_size")
        terms.append(_frame_linear("lm_head", Part.HEAD, hidden, vocab, steps))
    return Model(
        "speech",
        architecture,
        terms=useful(terms),
        layers=number,
        counted=(AUDIO,),
        streams=(AUDIO,),
    )


def _layers(fields: Fields, hidden: int, number: int) -> tuple[Layer, ...]:
    heads = fields.size("num_attention_heads")
    if hidden % heads:
        raise fields.contradiction("the heads must divide", "hidden_size", "num_attention_heads")
    mixer = GroupedAttention(heads, heads, hidden // heads, qkv_bias=True, out_bias=True)
    block = Mlp(fields.size("intermediate_size"), gated=False, bias=True)
    return (Layer(mixer, block, 2 * layer_norm(hidden)),) * number


def _of_frames(term: Term, steps: Steps) -> Term:
    return replace(term, extent=replace(term.extent, convolved=steps))


def _frame_linear(name: str, part: Part, inputs: int, outputs: int, steps: Steps) -> Term:
    extent = Extent(stream=AUDIO, convolved=steps)
    return linear(name, part, inputs, outputs, bias=True, extent=extent, in_layers=False)


def _convolutions(fields: Fields, steps: Steps) -> Iterator[Term]:
    channels, bias = fields.sizes("conv_dim"), fields.flag("conv_bias", default=False)
    if len(channels) != len(steps):
        raise fields.contradiction("one of each per layer", "conv_dim", "conv_kernel")
    normed = fields.word("feat_extract_norm", ("group", "layer"), "group")
    before = 1
    for index, (kernel, _) in enumerate(steps):
        extent = Extent(stream=AUDIO, convolved=steps[: index + 1])
        yield linear(
            f"features.conv{index}",
            Part.CONVOLUTION,
            before * kernel,
            before := channels[index],
            bias=bias,
            extent=extent,
            in_layers=False,
        )
    norms = channels if normed == "layer" else channels[:1]
    yield vector("features.norms", sum(map(layer_norm, norms)), in_layers=False)


def _positions(fields: Fields, hidden: int, steps: Steps) -> Iterator[Term]:
    """Projection of the features, and a convolution over neighbours instead of positions."""
    last = fields.sizes("conv_dim")[-1]
    masked = any([fields.share(name) for name in ("mask_time_prob", "mask_feature_prob")])
    normed = fields.flag("feat_proj_layer_norm", default=True)
    norms = normed * layer_norm(last) + layer_norm(hidden) + masked * hidden
    yield vector("features.vectors", norms, in_layers=False)
    yield _frame_linear("features.projection", Part.PROJECTION, last, hidden, steps)
    kernel, groups = (
        fields.size("num_conv_pos_embeddings"),
        fields.size("num_conv_pos_embedding_groups"),
    )
    if hidden % groups:
        raise fields.contradiction("must divide", "hidden_size", "num_conv_pos_embedding_groups")
    whole = _frame_linear(
        "positions.conv", Part.CONVOLUTION, kernel * hidden // groups, hidden, steps
    )
    # The kernel's norm has one parameter per position in the kernel.
    yield replace(whole, parameters=whole.parameters + kernel, active=whole.active + kernel)
    if (
        kernel % 2 == 0
    ):  # padded by half a kernel on both sides, which gives one position too many; it is dropped
        once = Extent(Per.SEQUENCE, AUDIO)
        yield replace(whole, extent=once, parameters=0, active=0, linear=None)
