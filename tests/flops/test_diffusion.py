"""Diffusion transformers count as VeRL-Omni and Megatron-Bridge do, and what these leave out."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter import flops
from tests.flops.counting import config
from tests.flops.counting import samples as stream_samples

SAMPLES = st.lists(st.tuples(st.integers(1, 4096), st.integers(0, 512)), min_size=1, max_size=6)
FORWARD = flops.Passes(forward_only=True)


def counted(name: str, samples: list[tuple[int, int]], **passes: Any) -> flops.Count:
    lengths = stream_samples({"latent": latent, "prompt": prompt} for latent, prompt in samples)
    how = flops.How(passes=flops.Passes(**passes))
    return flops.count(flops.read(config(name)), lengths, how)


@given(SAMPLES)
def test_qwen_image_is_verl_omni_and_the_time_embedding(samples: list[tuple[int, int]]) -> None:
    """Its page's closed form, and 6 (256 h + 3 h^2) per sample that it leaves out."""
    dim, layers, batch = 24 * 128, 60, len(samples)
    latent, prompt = sum(n for n, _ in samples), sum(t for _, t in samples)
    image = 6 * (layers * 12 * dim**2 + 64 * dim + 2**2 * 16 * dim) * latent
    text = 6 * (layers * 12 * dim**2 + 3584 * dim) * prompt
    modulation = 6 * layers * 12 * dim**2 * batch
    attention = 12 * layers * 24 * 128 * sum((n + t) ** 2 for n, t in samples)
    left_out = 6 * (256 * dim + 3 * dim**2) * batch
    total = image + text + modulation + attention + left_out
    assert counted("qwen-image", samples).model_flops_per_step == total


@given(
    SAMPLES,
    st.sampled_from([("wan2.1-t2v-1.3b", 12, 30, 8960, 16), ("wan2.2-ti2v-5b", 24, 30, 14336, 48)]),
)
def test_wan_is_megatron_bridge_and_the_time_embedding(
    samples: list[tuple[int, int]], model: tuple[str, int, int, int, int]
) -> None:
    """Per layer 4h^2 n + 2n^2 h + 2h^2 n + 2h^2 t + 2nth + 2hfn, the embeddings, and 6 (256 h + 7 h^2) per sample."""
    name, heads, layers, width, channels = model
    h, macs = heads * 128, 0
    for n, t in samples:
        macs += layers * (4 * h * h * n + 2 * n * n * h + 2 * h * h * (n + t) + 2 * n * t * h)
        macs += layers * 2 * h * width * n
        macs += channels * 4 * h * n * 2 + (4096 * h + h * h) * t + 256 * h + 7 * h * h
    assert counted(name, samples).model_flops_per_step == 6 * macs


@given(SAMPLES)
def test_modulation_is_per_sample_and_not_per_token(samples: list[tuple[int, int]]) -> None:
    once = {line.term.name: line.forward for line in counted("qwen-image", samples[:1]).lines}
    many = {line.term.name: line.forward for line in counted("qwen-image", samples).lines}
    assert many["img_mod"] == len(samples) * once["img_mod"]


def test_self_attention_is_quadratic_and_cross_attention_is_not() -> None:
    small, large = (
        {line.term.name: line.forward for line in counted("wan2.1-t2v-1.3b", [(n, 64)]).lines}
        for n in (256, 512)
    )
    assert large["self_attention.core"] == 4 * small["self_attention.core"]
    assert large["cross_attention.core"] == 2 * small["cross_attention.core"]


def test_a_class_conditioned_model_has_an_empty_prompt() -> None:
    lines = {line.term.name: line.forward for line in counted("qwen-image", [(1024, 0)]).lines}
    assert lines["txt_mlp.up_proj"] == 0
    assert lines["attention.core"] == 4 * 60 * 3072 * 1024**2


def test_recomputation_repeats_layers_and_their_modulation() -> None:
    again = counted("qwen-image", [(4096, 512)], recompute=flops.Recompute.FULL)
    repeated = {line.term.name for line in again.lines if line.recomputed}
    assert {"img_mod", "txt_mlp.up_proj"} <= repeated
    assert repeated.isdisjoint({"img_in", "time_embed.linear_1", "norm_out", "proj_out"})
