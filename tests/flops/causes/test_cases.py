"""Reports as users made them in public threads, with other numbers: what is said of them, from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.flops.causes.cards import DEEPSEEK_V32, GLM_5, LLAMA_70B, Card
from tests.flops.counting import CONFIGS
from tests.helpers.in_process import as_json, shown

LLAMA = ("--config", str(CONFIGS / "llama-3-8b.json"), "--seq-len", "8192")
BF16 = ("--precision", "bf16")
H100 = ("--gpu", "NVIDIA H100 80GB HBM3")


def of(tmp_path: Path, card: Card, length: int) -> tuple[str, ...]:
    """The options of a model."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(card.config()))
    return "--config", str(path), "--seq-len", str(length)


def first(*args: str) -> dict[str, Any]:
    cause: dict[str, Any] = as_json("explain", *args)["causes"][0]
    return cause


@pytest.mark.parametrize("stated", [(), ("--peak-tflops", "148")])
@pytest.mark.parametrize("gpu", ["NVIDIA H200", "NVIDIA GH200 480GB"])
def test_the_peak_of_an_h20_whose_name_is_in_that_of_an_h200(
    gpu: str, stated: tuple[str, ...]
) -> None:
    found = first("--mfu", "254%", "--ofu", "40%", "--gpu", gpu, "--gpus", "8", *BF16, *stated)
    assert found["cause"] == "wrong_device"
    assert "the peak is that of H20 " in found["evidence"]


@pytest.mark.parametrize(
    ("gpu", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 311.9),
        ("NVIDIA L40S", 366.4),
        ("NVIDIA L4", 121.2),
        ("NVIDIA RTX 6000 Ada Generation", 364.2),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 467.8),
    ],
)
def test_the_peak_of_an_h100_on_another_card(gpu: str, peak: float) -> None:
    mfu = f"{0.48 * 0.94 * peak / 989.4:.4f}"
    found = as_json("explain", "--mfu", mfu, "--ofu", "48%", "--gpu", gpu, "--gpus", "8", *BF16)
    listed = [each for each in found["causes"][:3] if each["cause"] == "wrong_device"]
    assert listed
    assert "the peak is that of H100-SXM5-80GB" in listed[0]["evidence"]
    if gpu == "NVIDIA A100-SXM4-80GB":
        assert listed[0] is found["causes"][0]


@pytest.mark.parametrize("stated", [(), ("--peak-tflops", "1978.9")])
def test_sparse_attention_is_counted_as_dense(tmp_path: Path, stated: tuple[str, ...]) -> None:
    args = ("--forward-only", "--gpu", "NVIDIA H200", "--precision", "fp8", "--gpus", "8", *stated)
    found = first("--mfu", "81.3%", "--ofu", "45%", *of(tmp_path, DEEPSEEK_V32, 65536), *args)
    assert found["cause"] == "sparse_attention_as_dense"
    assert found["expected_ratio"] == pytest.approx(2.008, abs=1e-3)


def test_a_slow_job_whose_throughput_is_known_is_looked_at(tmp_path: Path) -> None:
    """An OFU of 0.9 % is not nothing where the throughput needs 0.8 %.

    No length makes 6.4 % of it: a token of GLM-5 has 262.7 GFLOPs at 2,048. At its longest, 202,752, it has 472.1 (1.80
    times as many), with every key 1,799 (6.85), and with its indexer, too, 1,995 (7.60): 5.5 and 6.1 %. What 6.4 % is,
    is 8 times the right number, as when 64 of the 512 GPUs are divided by.
    """
    args = (*of(tmp_path, GLM_5, 2048), *H100, "--gpus", "512", *BF16, "--training")
    numbers = ("--mfu", "6.4%", "--ofu", "0.9%", "--tokens-per-second", "15400")
    out = as_json("explain", *numbers, *args)
    assert out["causes"][0]["evidence"].startswith("64 of the 512 GPUs are divided by")
    for length, gflops in ((2048, 262.7), (202752, 472.1)):
        assert 3 * GLM_5.forward(length) / length == pytest.approx(gflops * 1e9, rel=1e-3)
    assert out["advice"] is None
    assert "MFU from the throughput: 0.80%" in shown("explain", *numbers, *args)


def test_the_length_is_the_longest_of_the_model(tmp_path: Path) -> None:
    """The same job, whose count takes 202,752 tokens for 2,048."""
    wrong = GLM_5.forward(202752) / 202752 / (GLM_5.forward(2048) / 2048)
    args = (*of(tmp_path, GLM_5, 2048), *H100, "--gpus", "512", *BF16, "--training")
    mfu = f"{0.00799 * wrong:.4f}"
    out = as_json("explain", "--mfu", mfu, "--ofu", "0.9%", *args, "--tokens-per-second", "15400")
    assert out["causes"][0]["cause"] == "longest_length_counted"
    assert "202752" in out["causes"][0]["evidence"]


def test_the_data_parallel_size_is_divided_by() -> None:
    args = (*LLAMA, *H100, "--gpus", "512", *BF16, "--training", "--tokens-per-second", "2952700")
    found = first("--mfu", "960%", "--ofu", "33%", *args)
    assert found["cause"] == "wrong_gpu_count"
    assert found["evidence"].startswith("16 of the 512 GPUs")
    more = first("--mfu", "1920%", "--ofu", "33%", *args)
    assert more["evidence"].startswith("8 of the 512 GPUs")


def test_what_needs_an_option_stands_under_not_tried(tmp_path: Path) -> None:
    args = (*of(tmp_path, LLAMA_70B, 4096), *H100, "--gpus", "8", *BF16, "--training")
    text = shown("explain", "--mfu", "55%", "--ofu", "41%", *args)
    assert "frozen_counted (--lora-rank)" in text
    assert "repeats_missed (--repeats)" in text
    not_tried = as_json("explain", "--mfu", "55%", "--ofu", "41%", *args)["not_tried"]
    assert not_tried["frozen_counted"] == ["lora_rank"]
    told = first("--mfu", "55%", "--ofu", "41%", *args, "--lora-rank", "16")
    assert told["cause"] == "frozen_counted"


def test_six_times_all_parameters_and_every_pair() -> None:
    args = (*LLAMA, "--gpu", "NVIDIA A100-SXM4-80GB", "--gpus", "64", *BF16, "--training")
    numbers = ("--mfu", "56.8%", "--ofu", "48.8%", "--ofu-stderr", "0.3%")
    assert (
        first(*numbers, *args, "--tokens-per-second", "185856")["cause"]
        == "all_parameters_and_pairs"
    )


def test_an_mlp_of_two_matrices_of_4h(tmp_path: Path) -> None:
    args = (*of(tmp_path, LLAMA_70B, 8192), *H100, "--gpus", "64", *BF16, "--training")
    numbers = ("--mfu", "35.46%", "--ofu", "42%", "--ofu-stderr", "0.3%")
    assert first(*numbers, *args, "--tokens-per-second", "56000")["cause"] == "mlp_as_4h"


def test_ties_are_those_of_the_best_fit() -> None:
    out = as_json("explain", "--mfu", "0.45", "--ofu", "0.40")
    best = min(each["misfit"] for each in out["causes"])
    named = [each for each in out["causes"] if each["cause"] != "undecided"]
    assert out["tied"] == sum(each["misfit"] ** 2 <= best**2 + 2 for each in named)


def test_honest_recomputation_has_nothing_to_blame() -> None:
    args = (*LLAMA, *H100, "--gpus", "256", *BF16, "--training", "--recompute", "full")
    found = as_json("explain", "--mfu", "35%", "--ofu", "53.12%", "--ofu-stderr", "0.3%", *args)
    assert [each["cause"] for each in found["causes"]] == ["activation_recompute"]


def test_a_throughput_of_one_gpu_is_named() -> None:
    """41 % on 64 GPUs; the rate is that of one."""
    args = (*LLAMA, *H100, "--gpus", "64", *BF16, "--training", "--tokens-per-second", "7882")
    out = as_json("explain", "--mfu", "41%", "--ofu", "45%", *args)
    assert out["causes"] == []
    assert "the tokens per second are those of one GPU" in out["advice"]


def test_an_error_that_is_assumed_is_said_and_widens_no_limit() -> None:
    text = shown("explain", "--mfu", "46.8%", "--ofu", "43.9%")
    assert text.startswith("MFU 46.80%, OFU 43.90% ±1.00% (assumed: --ofu-stderr): mfu_above_ofu")
    told = shown("explain", "--mfu", "46.8%", "--ofu", "43.9%", "--ofu-stderr", "0.01")
    assert told.startswith("MFU 46.80%, OFU 43.90% ±1.00%: agree")


@pytest.mark.parametrize("mfu", [0.05, 0.2, 0.35, 0.45, 0.5, 0.62, 0.9, 1.9])
@pytest.mark.parametrize("ofu", [0.2, 0.42, 0.6])
def test_nothing_is_offered_for_the_wrong_direction(mfu: float, ofu: float) -> None:
    out = as_json(
        "explain", "--mfu", f"{100 * mfu}%", "--ofu", str(ofu), *LLAMA, *H100, "--gpus", "64", *BF16
    )
    for each in out["causes"]:
        assert (each["expected_ratio"] > 1) == (mfu > ofu) or each[
            "expected_ratio"
        ] < 1 >= mfu / ofu
        corrected = re.findall(r"corrected MFU: ([\d.]+)%", each["evidence"])
        assert all(float(value) / 100 <= ofu + 5e-5 for value in corrected), each
