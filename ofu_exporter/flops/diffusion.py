"""Makes the terms that diffusion transformers share: two streams of tokens, and layers that run once per sample.

`latent` are the tokens that are denoised: image, video or audio latents after patching, followed by reference or
control latents. `prompt` are the tokens that condition them. Modulation, time and pooled embeddings run once per
sample, not per token. VeRL-Omni `verl_omni/utils/mfu` and its page "Diffusion FLOPs / MFU" count the same two streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import linear, outside
from ofu_exporter.flops.terms import Extent, Part, Per, Term, merge

LATENT, PROMPT = "latent", "prompt"
PER_LATENT, PER_PROMPT = Extent(stream=LATENT), Extent(stream=PROMPT)
PER_SAMPLE = Extent(Per.SEQUENCE, LATENT)
SELF = Extent(Per.PAIR, LATENT)
CROSS = Extent(Per.CROSS, LATENT, PROMPT)
JOINT = Extent(Per.JOINT, LATENT, PROMPT)

TIME_CHANNELS = 256
"""Channels of the sinusoidal time embedding in diffusers' `TimestepEmbedding`."""
MLP_RATIO = 4
"""Feed-forward width over hidden size in diffusers' `FeedForward`."""


def model(family: str, architecture: str, terms: Iterable[Term], layers: int) -> Model:
    """A model of the two streams; a count per token divides by the latents."""
    streams = (LATENT, PROMPT)
    return Model(
        family, architecture, None, merge(terms), layers=layers, counted=(LATENT,), streams=streams
    )


def per_sample(name: str, inputs: int, outputs: int, times: int = 1) -> Term:
    """A linear layer with bias on one vector per sample; for the modulation of layers `times` is their number."""
    layer = outside(name, Part.MODULATION, inputs, outputs, PER_SAMPLE, times=times)
    return replace(layer, in_layers=times > 1)


def embedding(name: str, inputs: int, hidden: int) -> Iterator[Term]:
    """Two linear layers on one vector per sample: time, guidance or pooled text."""
    yield per_sample(f"{name}.linear_1", inputs, hidden)
    yield per_sample(f"{name}.linear_2", hidden, hidden)


def square(name: str, hidden: int, times: int, extent: Extent) -> Term:
    """A projection with bias in each layer, from and to the hidden size of one stream."""
    part = Part.PROJECTION
    return linear(name, part, hidden, hidden, times=times, bias=True, extent=extent)


def queries(name: str, hidden: int, times: int, extent: Extent) -> Iterator[Term]:
    """Query, key and value projections of one stream."""
    for side in ("q_proj", "k_proj", "v_proj"):
        yield square(f"{name}.{side}", hidden, times, extent)


def mlp(name: str, hidden: int, width: int, times: int, extent: Extent) -> Iterator[Term]:
    """An ungated feed-forward block of one stream, with biases."""
    for side, sides in (("up_proj", (hidden, width)), ("down_proj", (width, hidden))):
        yield linear(f"{name}.{side}", Part.MLP, *sides, times=times, bias=True, extent=extent)
