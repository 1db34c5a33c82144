"""A step is described by options: its lengths, its passes, what is frozen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flops.counting import CONFIGS, LLAMA
from tests.helpers.in_process import as_json


def test_a_batch_is_so_many_sequences() -> None:
    one, many = (
        as_json("flops", LLAMA, "--seq-len", "4096", "--batch-size", size) for size in ("1", "512")
    )
    assert many["model_flops_per_step"] == 512 * one["model_flops_per_step"]
    assert many["model_flops_per_token"] == one["model_flops_per_token"]


@pytest.mark.parametrize(
    ("args", "times_megatron"),
    [
        (["--convention", "megatron"], 1),
        (["--convention", "kempner"], 1.1252),
        (["--full-attention"], 1.1252),
        (["--causal"], 1),
        (["--forward-only"], 1 / 3),
    ],
)
def test_what_changes_the_count(args: list[str], times_megatron: float) -> None:
    out = as_json("flops", LLAMA, "--seq-len", "8192", *args)
    assert out["model_flops_per_step"] / 421_645_529_382_912 == pytest.approx(
        times_megatron, abs=5e-5
    )


def test_recomputation() -> None:
    full = as_json(
        "flops", LLAMA, "--seq-len", "4096", "--recompute", "full", "--convention", "palm"
    )
    assert 3 * full["hardware_flops_per_token"] == 4 * full["model_flops_per_token"]
    some = as_json(
        "flops", LLAMA, "--seq-len", "4096", "--recompute", "full", "--recompute-layers", "8"
    )
    assert 1 < some["hardware_flops_per_token"] / some["model_flops_per_token"] < 1.1


def test_packed_lengths(tmp_path: Path) -> None:
    file = tmp_path / "lengths"
    file.write_text("1024\n3072\n")
    packed = as_json("flops", LLAMA, "--lengths", str(file))
    moments = as_json(
        "flops", LLAMA, "--batch-size", "2", "--moments", f"2048,{(1024**2 + 3072**2) / 2}"
    )
    assert packed["model_flops_per_step"] == moments["model_flops_per_step"]
    equal = as_json("flops", LLAMA, "--seq-len", "2048", "--batch-size", "2")
    assert packed["model_flops_per_step"] > equal["model_flops_per_step"]


def test_padding(tmp_path: Path) -> None:
    file = tmp_path / "lengths"
    file.write_text("1024\n3072\n")
    padded = as_json("flops", LLAMA, "--lengths", str(file), "--padded-to", "4096")
    assert padded["hardware_flops_per_token"] > 1.9 * padded["model_flops_per_token"]


def test_streams_frozen_parts_and_adapters() -> None:
    streams = ("--length", "latent=4096", "--length", "prompt=77", "--repeats", "20")
    image = as_json("flops", str(CONFIGS / "qwen-image.json"), *streams)
    assert image["family"] == "qwen_image"
    seen = (str(CONFIGS / "qwen2-vl-7b.json"), "--seq-len", "1024", "--length", "image=1024")
    trained, frozen = as_json("flops", *seen), as_json("flops", *seen, "--freeze", "vision")
    assert frozen["model_flops_per_step"] < trained["model_flops_per_step"]
    adapted = as_json(
        "flops", LLAMA, "--seq-len", "64", "--lora-rank", "8", "--lora-targets", "q_proj"
    )
    assert [term["name"] for term in adapted["terms"]][-1] == "attention.q_proj.lora"


@pytest.mark.parametrize(
    ("tokens", "image", "warnings"),
    [
        ("1000", "2304", []),
        ("576", "2304", []),
        ("100", "2304", ["image: 576 tokens of patches are more than all 100 of the sequences"]),
        ("100", "101", ["image: 101 patches are no multiple of the 4 that become one token"]),
    ],
)
def test_an_image_that_does_not_fit_its_sequence_is_told(
    tokens: str, image: str, warnings: list[str]
) -> None:
    """Four patches are a token of the sequence (Qwen2.5-VL, arXiv:2502.13923, section 2.1)."""
    model = str(CONFIGS / "qwen2.5-vl-7b.json")
    told = as_json("flops", model, "--seq-len", tokens, "--length", f"image={image}")["warnings"]
    assert len(told) == len(warnings)
    assert all(text.startswith(start) for text, start in zip(told, warnings, strict=True))
