"""Makes the terms of MobileNetV5-300M, the vision tower of Gemma 3n: convolutions, and attention with one key head.

Four stages over an image of 768 pixels to a side. A block widens its channels, convolves each on its own and narrows
them again; attention has keys and values of one head, at half the resolution in the third stage. The outputs of the
last two stages side by side become 16 x 16 features. Sources: MobileNetV4 (arXiv:2404.10518), Gemma 3n (model card),
and `timm/models/mobilenetv5.py` of pytorch-image-models. FLOPs are those of one image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ofu_exporter.flops.encoder_stack import useful
from ofu_exporter.flops.products import linear, vector
from ofu_exporter.flops.terms import Extent, Part, Term

SIDE, STEM = 768, 64
"""Pixels per side of an image, and channels after the first convolution."""
FEATURES = 256
"""Features of an image."""
WIDTH = 2048
"""Channels of a feature."""


class Edge(NamedTuple):
    """A full convolution of 3 x 3 that widens the channels, and a matrix that narrows them."""

    stride: int
    expansion: int = 4


class Inverted(NamedTuple):
    """An inverted residual: the kernels per channel before and after the widening; 0 = none."""

    before: int
    behind: int = 0
    stride: int = 1
    expansion: int = 4


class Attention(NamedTuple):
    """Attention of many query heads over one head of keys and values, whose number a convolution reduces."""

    heads: int
    head_dim: int
    stride: int


Block = Edge | Inverted | Attention
NARROW = Inverted(0, expansion=2)
THIRD = (Inverted(5, 5, 2, 6), *[Inverted(5)] * 7, Inverted(0, expansion=1))
FINE: tuple[Block, ...] = (Attention(12, 64, 2), NARROW)
COARSE: tuple[Block, ...] = (Attention(16, 96, 1), NARROW)
STAGES: tuple[tuple[int, tuple[Block, ...]], ...] = (
    (128, (Edge(2), Edge(1), Edge(1))),
    (256, (Inverted(3, 5, 2, 6), *[Inverted(5), Inverted(3)] * 2)),
    (640, (*THIRD, *FINE * 14)),
    (1280, (Inverted(5, 5, 2, 6), *COARSE * 19)),
)
"""The channels of each stage, and its blocks."""


def tower(stream: str) -> tuple[Term, ...]:
    """The terms of the tower; `stream` counts images."""
    side, channels, ends = SIDE // 2, STEM, []
    terms = [
        _convolution("stem", 3, STEM, side, 3, bias=True),
        vector("stem.norm", STEM, in_layers=False),
    ]
    for number, (width, blocks) in enumerate(STAGES):
        for block in blocks:
            terms += _block(f"stage{number}", block, channels, width, side)
            side, channels = side // getattr(block, "stride", 1) ** _shrinks(block), width
        ends.append((channels, side))
    terms += _fusion(ends[-2:])
    return useful(replace(term, extent=Extent(stream=stream)) for term in terms)


def _shrinks(block: Block) -> bool:
    """Whether a block's stride makes the image smaller. The stride of attention reduces its keys instead."""
    return not isinstance(block, Attention)


def _block(name: str, block: Block, inputs: int, outputs: int, side: int) -> Iterator[Term]:
    if isinstance(block, Edge):
        yield from _edge(name, block, inputs, outputs, side // block.stride)
    elif isinstance(block, Inverted):
        yield from _inverted(name, block, inputs, outputs, side)
    else:
        yield from _attention(name, block, outputs, side)


def _edge(name: str, block: Edge, inputs: int, outputs: int, side: int) -> Iterator[Term]:
    wide = block.expansion * inputs
    yield _convolution(f"{name}.expand", inputs, wide, side, 3)
    yield _convolution(f"{name}.project", wide, outputs, side)
    yield vector(f"{name}.norms", wide + outputs, in_layers=False)


def _inverted(name: str, block: Inverted, inputs: int, outputs: int, side: int) -> Iterator[Term]:
    wide, smaller = block.expansion * inputs, side // block.stride
    if block.before:
        yield _of_each(f"{name}.before", inputs, side, block.before)
    yield _convolution(f"{name}.expand", inputs, wide, side)
    if block.behind:
        yield _of_each(f"{name}.behind", wide, smaller, block.behind)
    yield _convolution(f"{name}.project", wide, outputs, smaller)
    norms = bool(block.before) * inputs + (1 + bool(block.behind)) * wide + outputs
    # The output of a block is scaled per channel.
    yield vector(f"{name}.norms", norms + outputs, in_layers=False)


def _attention(name: str, block: Attention, channels: int, side: int) -> Iterator[Term]:
    query, smaller = block.heads * block.head_dim, side // block.stride
    yield _convolution(f"{name}.attention.q_proj", channels, query, side)
    for kind in ("k_proj", "v_proj"):
        if block.stride > 1:
            yield _of_each(f"{name}.attention.fewer", channels, smaller, 3)
        yield _convolution(f"{name}.attention.{kind}", channels, block.head_dim, smaller)
    pairs = side**2 * smaller**2
    yield Term(f"{name}.attention.core", Part.CORE, flops=4 * query * pairs, in_layers=False)
    yield _convolution(f"{name}.attention.o_proj", query, channels, side)
    norms = 2 + 2 * (block.stride > 1)
    yield vector(f"{name}.norms", norms * channels, in_layers=False)


def _fusion(ends: list[tuple[int, int]]) -> Iterator[Term]:
    """The outputs of two stages at the larger one's resolution, side by side, through two matrices."""
    inputs, side = sum(channels for channels, _ in ends), max(size for _, size in ends)
    yield _convolution("fusion.expand", inputs, 2 * inputs, side)
    yield _convolution("fusion.project", 2 * inputs, WIDTH, side)
    yield vector("fusion.norms", 2 * inputs + 2 * WIDTH, in_layers=False)


def _convolution(
    name: str, inputs: int, outputs: int, side: int, kernel: int = 1, bias: bool = False
) -> Term:
    """A convolution over an output of side x side positions; with one position it is a matrix."""
    part = Part.PROJECTION if kernel == 1 else Part.CONVOLUTION
    one = linear(name, part, inputs * kernel**2, outputs, bias=bias, in_layers=False)
    used = replace(one.linear, used=side**2) if one.linear else None
    return replace(one, flops=one.flops * side**2, linear=used)


def _of_each(name: str, channels: int, side: int, kernel: int) -> Term:
    """A convolution of each channel on its own."""
    weights = channels * kernel**2
    return Term(
        name,
        Part.CONVOLUTION,
        flops=2 * weights * side**2,
        parameters=weights,
        active=weights,
        in_layers=False,
    )
