"""The peaks of other cards, clocks and precisions: which comes first, and what settles it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.flops.causes.peaks import ABSENT_AND_GIVEN, sparse_peak, wrong_device
from ofu_exporter.flops.explain import UNDECIDED, Observation, causes_of_report, explain
from ofu_exporter.values.reported import Verdict
from tests.flops.causes.synthetic import BF16, H100, LLAMA, known

B300, GB200 = "NVIDIA B300 SXM6 AC", "NVIDIA GB200"


@pytest.mark.parametrize("precision", [BF16, None])
@pytest.mark.parametrize(
    ("gpu", "other", "mfu", "ofu"),
    [
        (B300, "A100-SXM4", 1.057, 0.1466),
        ("NVIDIA B200", "A100-SXM4", 2.0, 0.2774),
        ("NVIDIA B200", "A100-SXM4", 2.0, 0.30),
        ("NVIDIA H20", "A100-SXM4", 0.18, 0.40),
        (GB200, "B200", 0.485, 0.44),
    ],
)
def test_the_peak_that_frameworks_fall_back_to_comes_first(
    gpu: str, other: str, mfu: float, ofu: float, precision: dict[str, float] | None
) -> None:
    """Without a precision BF16 is assumed, which nearly every job has."""
    found = explain(Observation(mfu, ofu), CauseFacts(gpu=gpu, precision=precision))
    first = next(each for each in found.causes if each.cause != UNDECIDED)
    assert first.cause == "wrong_device"
    assert f"the peak is that of {other}" in first.evidence


@pytest.mark.parametrize(
    ("gpu", "listed", "rated"),
    [
        ("NVIDIA H100 NVL", 1978.8, 835.3),
        ("NVIDIA A40", 37.4, 149.7),
        ("NVIDIA RTX A4000", 37.4, 76.7),
        ("NVIDIA RTX A6000", 38.7, 154.8),
        ("NVIDIA GeForce RTX 4090", 82.6, 165.2),
        ("NVIDIA RTX A4000", 149.7, 76.7),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 504.0, 438.9),
    ],
)
def test_a_peak_that_a_framework_wrongly_lists_for_the_card_comes_first(
    gpu: str, listed: float, rated: float
) -> None:
    """As `get_available_flops` of Lightning 2.6.6, `get_device_flops` of verl 0.9.1 and OLMo-core 3.0.0 return them."""
    facts = CauseFacts(gpu=gpu, gpus=8, precision=BF16)
    found = explain(Observation(0.36 * rated / listed, 0.4, right_mfu=0.36), facts)
    assert found.causes[0].cause == "wrong_device"
    assert found.causes[0].report_ratio == pytest.approx(rated / listed, rel=2e-3)


@pytest.mark.parametrize("given", [None, 312e12])
@pytest.mark.parametrize(
    ("gpu", "precision", "peak"),
    [
        ("NVIDIA GB200", {"fp8": 1.0}, 5000.7e12),
        ("NVIDIA B200", {"fp8": 1.0}, 4500e12),
        ("NVIDIA B200", {"fp8": 0.5, "bf16": 0.5}, 3000e12),
        ("NVIDIA B200", {"fp4": 1.0}, 9000e12),
    ],
)
def test_what_they_fall_back_to_is_a_bf16_peak_whatever_the_math(
    gpu: str, precision: dict[str, float], peak: float, given: float | None
) -> None:
    facts = CauseFacts(gpu=gpu, precision=precision, peak_flops=given)
    first = explain(Observation(0.1 * peak / 312e12, 0.1), facts).causes[0]
    assert first.cause == "wrong_device"
    assert "the peak is that of A100-SXM4-80GB" in first.evidence
    assert first.report_ratio == pytest.approx(peak / 312e12, rel=2e-3)


@pytest.mark.parametrize(
    ("gpu", "used", "rated"), [("NVIDIA B200", 2382, 2250), (GB200, 2565, 2500)]
)
def test_a_peak_at_the_boost_clock(gpu: str, used: float, rated: float) -> None:
    """VeOmni has 2,382 for a B200 and 2,565 for a GB200."""
    said = CauseFacts(gpu=gpu, precision=BF16, peak_flops=used * 1e12)
    for facts in (said, replace(said, peak_flops=None)):
        mfu = 0.45 * rated / used
        found = explain(Observation(mfu, 0.47, right_mfu=0.45), facts)
        assert found.causes[0].cause == "max_clock_peak"
        assert "boost clock" in found.causes[0].evidence


def test_a_peak_that_is_known_settles_which_one_it_is() -> None:
    facts = CauseFacts(gpu=H100, precision=BF16, peak_flops=494.7e12)
    found = explain(Observation(0.8, 0.4), facts)
    assert found.causes[0].cause == "tf32_peak"
    assert "the peak of the report is that" in found.causes[0].evidence


def test_a_device_is_found_by_the_name_of_its_row() -> None:
    found = causes_of_report(0.4 * 989.4 / 119.5, 0.4, known(LLAMA))
    assert any("L20" in each.evidence for each in found if each.cause == "wrong_device")


@pytest.mark.parametrize(
    ("gpu", "tflops", "mfu", "right"),
    [("NVIDIA B200", 2382.0, 0.40, "42.35%"), ("NVIDIA GB200", 2565.0, 0.40, "41.08%")],
)
def test_a_stated_peak_at_the_boost_clock_is_a_mistake_though_both_numbers_agree(
    gpu: str, tflops: float, mfu: float, right: str
) -> None:
    facts = CauseFacts(gpu=gpu, precision=BF16, peak_flops=tflops * 1e12)
    found = explain(Observation(mfu, 0.43), facts)
    assert found.divergence.verdict is Verdict.AGREE
    assert found.causes[0].cause == "max_clock_peak"
    assert f"corrected MFU: {right}" in found.causes[0].evidence


def test_a_stated_peak_that_only_a_strange_card_has_ranks_after_simpler_mistakes() -> None:
    facts = CauseFacts(gpu=H100, precision=BF16, peak_flops=165e12)
    (a30,) = wrong_device.hypotheses(facts)
    assert "the peak is that of A30" in a30.evidence
    assert a30.rarity == ABSENT_AND_GIVEN > sparse_peak.rarity
