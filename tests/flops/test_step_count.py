"""A count needs lengths that fit its model."""

from __future__ import annotations

import math

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from tests.flops.counting import config


@pytest.mark.parametrize(
    ("name", "lengths", "message"),
    [
        ("llama-3-8b", flops.fixed(1), "the length of stream 'tokens' is missing; needed: tokens"),
        ("llama-3-8b", flops.fixed(1, tokens=0), "lengths: tokens must be at least 1"),
        (
            "llama-3-8b",
            flops.fixed(1, tokens=4, latent=4),
            "LlamaForCausalLM has no stream 'latent'; known: tokens",
        ),
        (
            "qwen-image",
            flops.fixed(1, latent=4),
            "stream 'prompt' is missing; needed: latent, prompt",
        ),
        ("vit-l-16", flops.fixed(1, image=196), "the configuration itself fixes image=197"),
        ("vit-l-16", flops.fixed(1, tokens=196), "no stream 'tokens'; known: none"),
        (
            "gpt-oss-20b",
            flops.from_moments(2, 10, 100),
            "a sliding window or chunks is not determined by two moments",
        ),
        ("wan2.1-t2v-1.3b", flops.from_moments(2, 10, 100), "has no stream 'tokens'"),
    ],
)
def test_lengths_that_do_not_fit_the_model(name: str, lengths: flops.Lengths, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        flops.count(flops.read(config(name)), lengths)


@pytest.mark.parametrize(
    ("name", "changed", "longest"),
    [
        ("llama-3-8b", {}, 8192),
        ("llama-3-8b", {"rope_scaling": {"factor": 4.0}}, 32768),
        (
            "llama-3-8b",
            {"rope_scaling": {"factor": 8.0, "original_max_position_embeddings": 2048}},
            16384,
        ),
        ("llama-3-8b", {"rope_scaling": {"factor": math.inf}}, 8192),
        ("llama-3-8b", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, 32768),
        ("llama-3-8b", {"rope_parameters": {"full_attention": {"factor": 4.0}}}, 8192),
        ("gpt2", {}, 1024),
    ],
)
def test_a_sequence_beyond_the_models_own_maximum_is_warned_of(
    name: str, changed: dict[str, object], longest: int
) -> None:
    model = flops.read(config(name, **changed))
    assert flops.count(model, flops.fixed(2, tokens=longest)).warnings == ()
    (warning,) = flops.count(model, flops.packed([16, longest + 1])).warnings
    assert f"{longest + 1} tokens are longer than the model's own maximum of {longest}" in warning
