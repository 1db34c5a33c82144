"""A reported MFU against OFU: thresholds in points and relative, hysteresis, too little data, numbers that are none."""

from __future__ import annotations

import math
import random
from dataclasses import fields
from typing import Any

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.ofu.divergence import (
    DEFAULT,
    Divergence,
    Thresholds,
    check,
    compare_sums,
    verdict,
)
from ofu_exporter.ofu.honest_ratio import HonestRatio, honest_ratio
from ofu_exporter.values.reported import Compared, Verdict

IN_POINTS = Thresholds(honest=HonestRatio(0.9, 1.0))
"""With an honest ratio that at an OFU of 40 % is less than 5 points."""


def over(seconds: float, mfu: float, ofu: float, error: float = 0.0) -> Compared:
    """The sums of a number of GPU-seconds."""
    return Compared(mfu * seconds, ofu * seconds, seconds, (error * seconds) ** 2)


def compare(
    mfu: float,
    ofu: float,
    error: float = 0.0,
    thresholds: Thresholds = DEFAULT,
    previous: Verdict | None = None,
) -> Divergence:
    """An MFU and the OFU of the same ten minutes."""
    found = compare_sums(over(600.0, mfu, ofu, error), 1.0, thresholds, previous)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("mfu", "ofu", "relative", "verdict"),
    [
        (0.5427, 0.2558, 1.122, Verdict.MFU_ABOVE_OFU),
        (0.1845, 0.2558, 0.279, Verdict.MFU_BELOW_OFU),
        (0.2451, 0.1556, 0.575, Verdict.MFU_ABOVE_OFU),
        (0.26, 0.34, 0.235, Verdict.MFU_BELOW_OFU),
        (0.33, 0.34, 0.029, Verdict.AGREE),
        (0.179, 0.186, 0.038, Verdict.AGREE),
        (
            0.40 / 2.5,
            0.41 / 2.5,
            0.024,
            Verdict.AGREE,
        ),  # a job that got slower, not one that miscounts
    ],
)
def test_the_papers_jobs(mfu: float, ofu: float, relative: float, verdict: Verdict) -> None:
    found = compare(mfu, ofu)
    assert found.difference == pytest.approx(mfu - ofu)
    assert found.relative == pytest.approx(relative, abs=1e-3)
    assert found.verdict is verdict


def test_standard_errors_widen_what_is_above_and_not_what_is_below() -> None:
    assert compare(0.43, 0.40).verdict is Verdict.MFU_ABOVE_OFU
    assert compare(0.43, 0.40, error=0.006).verdict is Verdict.AGREE
    below = compare(0.343, 0.40, error=0.006, thresholds=IN_POINTS)
    assert below.verdict is Verdict.MFU_BELOW_OFU
    assert compare(0.352, 0.40).verdict is Verdict.AGREE


H100_BF16 = honest_ratio("H100-SXM5-80GB", {"bf16"})


def test_an_honest_report_at_the_lower_end_may_be_off_by_its_error() -> None:
    of_h100 = Thresholds(honest=H100_BF16)
    assert compare(0.85 * 0.6, 0.6, thresholds=of_h100).verdict is Verdict.MFU_BELOW_OFU
    unsure = compare(0.85 * 0.6, 0.6, error=0.005, thresholds=of_h100)
    assert unsure.verdict is Verdict.AGREE


def test_the_larger_of_points_and_relative_applies() -> None:
    wide = Thresholds(above_relative=0.20, below_relative=0.20)
    assert compare(0.47, 0.40, thresholds=wide).verdict is Verdict.AGREE
    assert compare(0.49, 0.40, thresholds=wide).verdict is Verdict.MFU_ABOVE_OFU
    assert compare(0.33, 0.40, thresholds=wide).verdict is Verdict.AGREE
    assert compare(0.31, 0.40, thresholds=wide).verdict is Verdict.MFU_BELOW_OFU
    assert compare(0.075, 0.05, thresholds=wide).verdict is Verdict.MFU_ABOVE_OFU


@pytest.mark.parametrize(
    ("previous", "mfu", "verdict"),
    [
        (None, 0.417, Verdict.AGREE),
        (Verdict.AGREE, 0.417, Verdict.AGREE),
        (Verdict.MFU_ABOVE_OFU, 0.417, Verdict.MFU_ABOVE_OFU),
        (Verdict.MFU_ABOVE_OFU, 0.415, Verdict.AGREE),
        (Verdict.MFU_BELOW_OFU, 0.417, Verdict.AGREE),
        (Verdict.MFU_BELOW_OFU, 0.355, Verdict.MFU_BELOW_OFU),
        (Verdict.MFU_BELOW_OFU, 0.365, Verdict.AGREE),
        (Verdict.MFU_ABOVE_OFU, 0.30, Verdict.MFU_BELOW_OFU),
        (Verdict.INSUFFICIENT_DATA, 0.417, Verdict.AGREE),
    ],
)
def test_a_verdict_is_left_later_than_it_is_reached(
    previous: Verdict | None, mfu: float, verdict: Verdict
) -> None:
    assert compare(mfu, 0.40, previous=previous, thresholds=IN_POINTS).verdict is verdict


def test_a_difference_at_the_threshold_does_not_flap() -> None:
    draw, verdict, changes = random.Random(5), Verdict.AGREE, 0
    for _ in range(200):
        new = compare(0.42 + draw.uniform(-0.003, 0.003), 0.40, previous=verdict).verdict
        changes += new is not verdict
        verdict = new
    assert changes == 1


def test_too_little_is_no_verdict() -> None:
    assert verdict(over(60.0, 0.9, 0.1)) is Verdict.MFU_ABOVE_OFU
    little = compare_sums(over(59.0, 0.9, 0.1))
    assert little is not None
    assert little.verdict is Verdict.INSUFFICIENT_DATA
    assert little.difference == pytest.approx(0.8)
    assert little.relative == pytest.approx(8.0)


def test_a_difference_of_just_the_threshold_is_none() -> None:
    wide = Thresholds(above=0.25, below=0.25)
    assert compare(0.75, 0.5, thresholds=wide).verdict is Verdict.AGREE
    assert compare(0.25, 0.5, thresholds=wide).verdict is Verdict.AGREE


def test_where_nothing_was_observed_nothing_is_compared() -> None:
    assert compare_sums(Compared()) is None
    assert verdict(Compared()) is Verdict.INSUFFICIENT_DATA


def test_the_time_that_a_verdict_takes_is_that_of_each_gpu() -> None:
    """Sixty seconds of eight GPUs are 480 GPU-seconds; a job whose GPUs are not known is taken for one."""
    assert verdict(over(60.0, 0.9, 0.1), gpus=0) is Verdict.MFU_ABOVE_OFU
    assert verdict(over(479.0, 0.9, 0.1), gpus=8) is Verdict.INSUFFICIENT_DATA
    assert verdict(over(480.0, 0.9, 0.1), gpus=8) is Verdict.MFU_ABOVE_OFU


def test_sums_are_compared_by_the_thresholds_and_from_the_verdict_before() -> None:
    near = over(600.0, 0.417, 0.40)
    assert verdict(near) is Verdict.AGREE
    assert verdict(near, thresholds=Thresholds(above=0.01)) is Verdict.MFU_ABOVE_OFU
    left = compare_sums(near, previous=Verdict.MFU_ABOVE_OFU)
    assert left is not None
    assert left.verdict is Verdict.MFU_ABOVE_OFU


@pytest.mark.parametrize(
    ("share", "previous", "expected"),
    [
        (0.045, None, Verdict.AGREE),
        (0.055, None, Verdict.INSUFFICIENT_DATA),
        (0.055, Verdict.INSUFFICIENT_DATA, Verdict.INSUFFICIENT_DATA),
        (0.055, Verdict.AGREE, Verdict.AGREE),
        (0.07, Verdict.AGREE, Verdict.INSUFFICIENT_DATA),
    ],
)
def test_an_agreement_stays_until_an_unmeasured_error_is_clearly_over_the_limit(
    share: float, previous: Verdict | None, expected: Verdict
) -> None:
    """Two errors may widen the limits by 0.1; once it is said, by 0.1 / 0.8."""
    sums = over(600.0, 0.4, 0.4)._replace(point_seconds=600.0 * share)
    found = compare_sums(sums, previous=previous)
    assert found is not None
    assert found.verdict is expected


def test_an_error_as_large_as_the_whole_scale_is_taken_for_that() -> None:
    """Two standard errors of 1: an MFU 3 above OFU is still above it, whatever noise the clocks had."""
    assert verdict(over(600.0, 3.4, 0.4, error=50.0)) is Verdict.MFU_ABOVE_OFU
    assert verdict(over(600.0, 2.3, 0.4, error=50.0)) is Verdict.AGREE


def test_an_idle_gpu_has_no_relative_difference() -> None:
    found = compare(0.3, 0.0)
    assert (found.relative, found.verdict) == (None, Verdict.MFU_ABOVE_OFU)


@pytest.mark.parametrize(
    ("mfu", "ofu", "error", "match"),
    [
        (54270.0, 0.2558, 0.0, r"mfu: 54270\.0 is out of range; write 542\.7$"),
        (0.5427, 25.58, 0.0, r"ofu: 25\.58 is out of range; write 0\.2558$"),
        (10000.1, 0.2558, 0.0, r"mfu: 10000\.1 is out of range"),
        (0.5427, 1.501, 0.0, r"ofu: 1\.501 is out of range"),
        (-0.1, 0.2, 0.0, r"mfu: -0\.1 is not"),
        (math.nan, 0.2, 0.0, "mfu: nan is not"),
        (0.2, math.inf, 0.0, "ofu: inf is not"),
        (True, 0.2, 0.0, "mfu: True is not"),
        (0.2, 0.2, math.nan, "ofu_stderr: nan is not"),
        (0.2, 0.2, 1.5, r"ofu_stderr: 1\.5 is above 1"),
    ],
)
def test_numbers_that_are_none(mfu: float, ofu: float, error: float, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        check(mfu, ofu, error)
    check(1e4, 1.5, 1.0)  # the largest that are some


@pytest.mark.parametrize("value", [-0.01, math.nan, math.inf])
def test_thresholds_that_are_none(value: float) -> None:
    for name in {each.name for each in fields(Thresholds)} - {"honest"}:
        given: dict[str, Any] = {name: value}
        with pytest.raises(ConfigError, match=f"{name}: {value!r} is not a number of 0 or more"):
            Thresholds(**given)
    assert Thresholds(hysteresis=1).hysteresis == 1
    with pytest.raises(ConfigError, match="hysteresis: 2 is above 1"):
        Thresholds(hysteresis=2)


def points(hz: list[float], mfu: float = 0.4, ofu: float = 0.4, gpus: int = 1) -> Compared:
    """Sums over windows of 30 s, each with one clock read, on every GPU."""
    reads = hz * gpus
    seconds = 30.0 * len(reads)
    squares = math.fsum(each * each for each in reads)
    clocks = float(len(reads)), math.fsum(reads), squares
    return Compared(mfu * seconds, ofu * seconds, seconds, 0.0, seconds, ofu * seconds, *clocks)


NOISY = [1700e6, 1760e6] * 10
"""A clock whose deviation is 1.8 % of its mean."""
ASLEEP = [1905e6, 345e6] * 10


def test_an_estimated_error_widens_both_limits() -> None:
    """It is 0.7 points: 2 + 1.4 above, 5 + 1.4 below."""
    verdicts = [
        verdict(points(NOISY, mfu), thresholds=IN_POINTS)
        for mfu in (0.4 + 0.033, 0.4 + 0.036, 0.4 - 0.063, 0.4 - 0.066)
    ]
    assert verdicts == [Verdict.AGREE, Verdict.MFU_ABOVE_OFU, Verdict.AGREE, Verdict.MFU_BELOW_OFU]


def test_to_agree_says_nothing_where_the_limits_are_too_wide() -> None:
    assert verdict(points(ASLEEP, mfu=0.45)) is Verdict.INSUFFICIENT_DATA
    assert verdict(points(ASLEEP, mfu=1.5)) is Verdict.MFU_ABOVE_OFU


def test_what_ends_of_reports_make_unknown_widens_both_limits_and_is_no_verdict_where_it_is_much() -> (
    None
):
    def of(mfu: float, unknown: float) -> Verdict:
        sums = Compared(600 * mfu, 600 * 0.4, 600.0, edge_seconds=600 * unknown)
        return verdict(sums, thresholds=IN_POINTS)

    assert of(0.43, 0.0) is Verdict.MFU_ABOVE_OFU
    assert of(0.43, 0.01) is Verdict.AGREE
    assert of(0.34, 0.0) is Verdict.MFU_BELOW_OFU
    assert of(0.34, 0.01) is Verdict.AGREE
    assert of(0.45, 0.01) is Verdict.MFU_ABOVE_OFU
    assert {of(mfu, 0.06) for mfu in (0.1, 0.4, 0.9)} == {Verdict.INSUFFICIENT_DATA}


def test_a_clock_that_may_be_overstated_widens_only_the_lower_limit() -> None:
    def of(mfu: float) -> Verdict:
        sums = Compared(600 * mfu, 600 * 0.5, 600.0, overstated_seconds=600 * 0.0536)
        return verdict(sums, thresholds=IN_POINTS)

    assert of(0.40) is Verdict.AGREE
    assert of(0.39) is Verdict.MFU_BELOW_OFU
    assert of(0.53) is Verdict.MFU_ABOVE_OFU
    small = Compared(600 * 0.03, 600 * 0.1, 600.0, overstated_seconds=600 * 0.03)
    assert verdict(small) is Verdict.AGREE, "it is added to the points too"


@pytest.mark.parametrize("card", ["H100-SXM5-80GB", "H100-SXM5-96GB", "H200-SXM"])
def test_what_was_measured_on_hopper_is_what_an_honest_mfu_is_there(card: str) -> None:
    """docs/hardware.md"""
    for precision in ("bf16", "fp16"):
        assert honest_ratio(card, {precision}) == (0.86, 0.97, 0.90)
    assert honest_ratio(card, {"tf32"}) == (0.70, 1.0, 0.76)
    assert honest_ratio(card, {"fp8"}) == honest_ratio("L4", {"bf16"}) == (0.83, 1.0, None)
    assert honest_ratio(card, {"bf16", "fp8"}) == honest_ratio(card, None) == (0.83, 1.0, None)
