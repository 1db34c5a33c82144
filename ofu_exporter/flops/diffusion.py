"""Makes the terms that diffusion transformers share: two streams of tokens, and layers that run once per sample.

`latent` are the tokens that are denoised: image, video or audio latents after patching, followed by reference or
control latents. `prompt` are the tokens that condition them. Modulation, time and pooled embeddings run once per
sample, not per token. VeRL-Omni `verl_omni/utils/mfu` and its page "Diffusion FLOPs / MFU" count the same two
streams.
"""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.flops.products import linear
from ofu_exporter.flops.terms import Extent, Part, Per, Term

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


def per_sample(name: str, inputs: int, outputs: int, times: int = 1) -> Term:
    """A linear layer with bias on one vector per sample; for the modulation of layers `times` is their number."""
    return linear(
        name,
        Part.MODULATION,
        inputs,
        outputs,
        times=times,
        bias=True,
        extent=PER_SAMPLE,
        in_layers=times > 1,
    )


def embedding(name: str, inputs: int, hidden: int) -> Iterator[Term]:
    """Two linear layers on one vector per sample: time, guidance or pooled text."""
    yield per_sample(f"{name}.linear_1", inputs, hidden)
    yield per_sample(f"{name}.linear_2", hidden, hidden)


def outside(name: str, part: Part, inputs: int, outputs: int, extent: Extent) -> Term:
    """A linear layer with bias before or after the layers."""
    return linear(name, part, inputs, outputs, bias=True, extent=extent, in_layers=False)


def stream_attention(
    name: str, hidden: int, wide: int, times: int, extent: Extent
) -> Iterator[Term]:
    """Query, key and value projections of one stream, with biases."""
    for side in ("q_proj", "k_proj", "v_proj"):
        yield linear(
            f"{name}.{side}", Part.PROJECTION, hidden, wide, times=times, bias=True, extent=extent
        )


def output(name: str, wide: int, hidden: int, times: int, extent: Extent) -> Term:
    """The output projection of one stream, with bias."""
    return linear(
        f"{name}.o_proj", Part.PROJECTION, wide, hidden, times=times, bias=True, extent=extent
    )


def mlp(name: str, hidden: int, width: int, times: int, extent: Extent) -> Iterator[Term]:
    """An ungated feed-forward block of one stream, with biases."""
    yield linear(f"{name}.up_proj", Part.MLP, hidden, width, times=times, bias=True, extent=extent)
    yield linear(
        f"{name}.down_proj", Part.MLP, width, hidden, times=times, bias=True, extent=extent
    )
