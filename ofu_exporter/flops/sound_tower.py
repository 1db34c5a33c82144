"""Makes the terms of the sound tower of Gemma 3n and 4: the Conformer of the Universal Speech Model.

Two convolutions shorten the spectrogram; each layer has two MLPs, attention inside blocks of neighbouring frames, and a
gated convolution. Per frame after the convolutions, and per layer: 16 h^2 for the MLPs, 4 h^2 for attention, 3 h^2 +
K h for the convolution. A block of W frames meets its C = W + left + right neighbours and F distances, whatever it is
padded with: W h (2 C + F). Sources: Conformer (arXiv:2005.08100), Universal Speech Model (arXiv:2303.01037),
Transformer-XL (arXiv:1901.02860, appendix B, the distances), and the model classes in Hugging Face transformers.
Stream: `audio`, frames of the spectrogram of one recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ofu_exporter.flops.encoder_stack import useful
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import depthwise, linear, vector
from ofu_exporter.flops.terms import Extent, Part, Per, Term

AUDIO = "audio"
NEUTRAL = listed(
    """
    attention_invalid_logits_value attention_logit_cap conf_attention_logit_cap conf_residual_weight gradient_clipping
    residual_weight sscp_conv_group_norm_eps use_clipped_linears
    """
)
NORMS = 9
"""Norms of the hidden size per layer: two for each MLP, for attention and for the convolution, and one at the end."""
MLP_RATIO = 4
Steps = tuple[tuple[int, int], ...]


class Convolution(NamedTuple):
    """One of the convolutions over the spectrogram; the first number of a pair is time, the second frequency."""

    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]


class SoundTower(NamedTuple):
    """A sound tower's terms, and how its output is read."""

    terms: tuple[Term, ...]
    layers: int
    hidden: int
    frames: Steps
    """The convolutions that shorten the spectrogram to the frames on which the layers run."""


class Local(NamedTuple):
    """Attention inside blocks."""

    heads: int
    block: int
    context: int
    """Frames that the frames of a block attend to."""
    distances: int


def gemma_3n(fields: Fields) -> SoundTower:
    """The tower of Gemma 3n: each `conf_reduction_factor`-th frame is a token of the text."""
    kernels, strides = (
        _pairs(fields, "sscp_conv_kernel_size"),
        _pairs(fields, "sscp_conv_stride_size"),
    )
    channels = fields.sizes("sscp_conv_channel_size")
    if not len(channels) == len(kernels) == len(strides) == 2:
        raise fields.error("sscp_conv_channel_size", "is known for two convolutions only")
    convolutions = [Convolution(*each) for each in zip(channels, kernels, strides, strict=True)]
    left, right = _neighbours(fields, "conf_")
    local = _local(fields, "conf_", left + right + 1)
    return _tower(fields, "conf_", convolutions, fields.size("input_feat_size"), local)


def gemma_4(fields: Fields) -> SoundTower:
    """The tower of Gemma 4: the first convolution has as many channels as the spectrogram has bins."""
    channels = fields.sizes("subsampling_conv_channels")
    if len(channels) != 2 or channels[0] % 4:
        raise fields.error(
            "subsampling_conv_channels", "is known for two, the first a multiple of 4"
        )
    convolutions = [Convolution(each, (3, 3), (2, 2)) for each in channels]
    left, right = _neighbours(fields, "")
    context = fields.size("attention_chunk_size") + left + right
    return _tower(fields, "", convolutions, channels[0], _local(fields, "", context // 2 + 1))


def _pairs(fields: Fields, name: str) -> list[tuple[int, int]]:
    found = []
    for value in fields.items(name):
        sizes = Fields({name: value}).sizes(name)
        if len(sizes) != 2:
            raise fields.error(name, f"{value!r} is not one size in time and one in frequency")
        found.append((sizes[0], sizes[1]))
    return found


def _neighbours(fields: Fields, prefix: str) -> tuple[int, int]:
    """Frames on the left and on the right of a frame's own block that it attends to."""
    left = fields.size(f"{prefix}attention_context_left") - 1
    return left, fields.size(f"{prefix}attention_context_right", least=0)


def _local(fields: Fields, prefix: str, distances: int) -> Local:
    heads, hidden = fields.size(f"{prefix}num_attention_heads"), fields.size("hidden_size")
    if hidden % heads:
        raise fields.contradiction(
            "the heads must divide", "hidden_size", f"{prefix}num_attention_heads"
        )
    block = fields.size(f"{prefix}attention_chunk_size")
    return Local(heads, block, block + sum(_neighbours(fields, prefix)), distances)


def _tower(
    fields: Fields, prefix: str, convolutions: list[Convolution], bins: int, local: Local
) -> SoundTower:
    hidden, number = fields.size("hidden_size"), fields.size(f"{prefix}num_hidden_layers")
    kernel = fields.size(f"{prefix}conv_kernel_size")
    # The convolutions are padded so that every stride gives a frame.
    steps: Steps = tuple((1, each.stride[0]) for each in convolutions)
    terms = [
        *_convolutions(convolutions, bins, hidden, steps),
        *_feed_forward(hidden, number, steps),
        *_attention(hidden, number, local, steps),
        *_gated_convolution(hidden, number, kernel, steps),
        vector("norms", number * (NORMS * hidden + hidden // local.heads)),
    ]
    return SoundTower(useful(terms), number, hidden, steps)


def frame_linear(  # noqa: PLR0913 - all that describes a linear layer
    name: str,
    part: Part,
    inputs: int,
    outputs: int,
    steps: Steps,
    *,
    times: int = 1,
    bias: bool = False,
    in_layers: bool = True,
) -> Term:
    """A linear layer on every frame that `steps` leave."""
    extent = Extent(stream=AUDIO, convolved=steps)
    return linear(
        name, part, inputs, outputs, times=times, bias=bias, extent=extent, in_layers=in_layers
    )


def _convolutions(
    convolutions: list[Convolution], bins: int, hidden: int, steps: Steps
) -> Iterator[Term]:
    """Convolutions over time and frequency, normalised over their channels, and a projection of what they leave."""
    before, part = 1, Part.CONVOLUTION
    for index, (channels, (tall, wide), (_, stride)) in enumerate(convolutions):
        bins = (bins + 2 - wide) // stride + 1
        inputs, past = before * tall * wide, steps[: index + 1]
        one = frame_linear(f"conv{index}", part, inputs, channels, past, in_layers=False)
        # The convolution runs at each bin of a frame.
        used = replace(one.linear, used=bins) if one.linear else None
        yield replace(one, flops=one.flops * bins, linear=used)
        yield vector(f"conv{index}.norm", channels, in_layers=False)
        before = channels
    yield frame_linear(
        "input_projection", Part.PROJECTION, before * bins, hidden, steps, in_layers=False
    )


def _feed_forward(hidden: int, number: int, steps: Steps) -> Iterator[Term]:
    wide = MLP_RATIO * hidden
    yield frame_linear("mlp.up_proj", Part.MLP, hidden, wide, steps, times=2 * number)
    yield frame_linear("mlp.down_proj", Part.MLP, wide, hidden, steps, times=2 * number)


def _attention(hidden: int, number: int, local: Local, steps: Steps) -> Iterator[Term]:
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        yield frame_linear(
            f"attention.{name}", Part.PROJECTION, hidden, hidden, steps, times=number
        )
    once = linear(
        "attention.distances",
        Part.PROJECTION,
        hidden,
        hidden,
        times=number,
        extent=Extent(Per.STEP, AUDIO),
    )
    yield replace(once, flops=local.distances * once.flops, linear=None)
    blocks = Extent(stream=AUDIO, convolved=(*steps, (1, local.block)))
    pairs = local.block * (2 * local.context + local.distances)
    yield Term("attention.core", Part.CORE, blocks, flops=2 * pairs * hidden * number)


def _gated_convolution(hidden: int, number: int, kernel: int, steps: Steps) -> Iterator[Term]:
    yield frame_linear("conv.in_proj", Part.PROJECTION, hidden, 2 * hidden, steps, times=number)
    whole = depthwise("conv.depthwise", hidden, kernel, number, bias=False)
    yield replace(whole, extent=Extent(stream=AUDIO, convolved=steps))
    yield frame_linear("conv.out_proj", Part.PROJECTION, hidden, hidden, steps, times=number)
