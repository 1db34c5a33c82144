"""Numbers that no mistake in a report can make have no cause, and say what to check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.flops.explain import POINT, Observation, explain
from tests.cli.test_explain import LLAMA
from tests.flops.causes.synthetic import BF16, H100
from tests.helpers.in_process import as_json, shown


@pytest.mark.parametrize(
    ("ofu", "gpu", "most"),
    [
        (1.2, H100, "108%"),
        (1.2, None, "116%"),
        (1.1, "NVIDIA H20", "100%"),
        (1.12, "NVIDIA GB200", "103%"),
    ],
)
def test_an_ofu_above_what_the_card_can_do_has_no_cause(
    ofu: float, gpu: str | None, most: str
) -> None:
    for error in (POINT, 0.2):
        found = explain(Observation(0.4, ofu + error, error), CauseFacts(gpu=gpu, precision=BF16))
        assert found.causes == ()
        assert f"at most {most}" in found.advice
        assert ("Which GPU is it (--gpu)?" in found.advice) is (gpu is None)


@pytest.mark.parametrize(("ofu", "is_impossible"), [(1.13, False), (1.15, True)])
def test_no_error_excuses_more_than_6_points_above_the_highest_clock(
    ofu: float, is_impossible: bool
) -> None:
    """1980 of 1830 MHz are 108 %, and an error above 2 points says nothing of the card."""
    found = explain(Observation(2.0, ofu, 0.5), CauseFacts(gpu=H100, precision=BF16))
    assert ("is impossible" in found.advice) is is_impossible


@pytest.mark.parametrize(
    ("ofu", "words"), [(0.049, "the GPUs did almost nothing"), (0.051, "the error of OFU is so")]
)
def test_an_ofu_below_its_error_is_almost_0_up_to_5_points(ofu: float, words: str) -> None:
    assert explain(Observation(0.9, ofu, 0.04)).advice.startswith(words)


def test_an_ofu_that_the_boost_clock_makes_is_explained() -> None:
    assert explain(Observation(0.5, 1.05), CauseFacts(gpu=H100, precision=BF16)).causes


def test_a_stated_peak_that_nothing_explains_is_said_with_the_mfu_of_the_right_one() -> None:
    """0.13 x 312 / 989.4; a forward pass too few would leave the wrong peak as it is."""
    facts = CauseFacts(gpu=H100, precision=BF16, peak_flops=312e12)
    found = explain(Observation(0.13, 0.43), facts)
    assert found.looked
    assert found.causes == ()
    assert "against this its MFU is 4.10%" in found.advice
    assert not explain(Observation(0.40, 0.43), replace(facts, peak_flops=989.4e12)).looked


@pytest.mark.parametrize(
    ("mfu", "ofu", "words"),
    [
        ("0.41", "0.15", "OFU contradicts the throughput, which needs an OFU of at least 40.64%"),
        ("0.1", "0.15", "OFU contradicts the throughput"),
        ("0.41", "0.95", "the GPUs ran 2.34 times what the throughput needs"),
    ],
)
def test_an_ofu_that_contradicts_the_throughput_is_said(mfu: str, ofu: str, words: str) -> None:
    args = (
        *LLAMA,
        "--gpu",
        H100,
        "--gpus",
        "256",
        "--precision",
        "bf16",
        "--tokens-per-second",
        "2e6",
    )
    out = as_json("explain", "--mfu", mfu, "--ofu", ofu, *args)
    assert words in out["advice"]
    assert out["causes"] == []


@pytest.mark.parametrize(("ofu", "is_asked"), [("0.22", False), ("0.26", True)])
def test_a_throughput_of_one_gpu_is_asked_about_only_where_it_is_half_of_what_ran(
    ofu: str, is_asked: bool
) -> None:
    """12 % by the throughput and 24 % reported on two GPUs: of OFU 22 % that is more than half."""
    args = (
        *LLAMA,
        "--gpu",
        H100,
        "--gpus",
        "2",
        "--precision",
        "bf16",
        "--tokens-per-second",
        "4614",
    )
    assert "MFU from the throughput: 12.00%" in shown(
        "explain", "--mfu", "0.24", "--ofu", ofu, *args
    )
    advice = as_json("explain", "--mfu", "0.24", "--ofu", ofu, *args)["advice"]
    assert ("of all GPUs together" in advice) is is_asked
