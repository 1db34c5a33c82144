"""The error of compared sums is measured, estimated by the spread of clock reads, or not known."""

from __future__ import annotations

import statistics

import pytest

from ofu_exporter.ofu.divergence import Thresholds, compare_sums
from ofu_exporter.values.reported import Compared, ErrorMethod, Verdict
from tests.ofu.test_divergence import NOISY, points


def test_an_error_that_is_not_measured_is_the_spread_of_the_clock_reads() -> None:
    deviation = statistics.stdev(NOISY) / statistics.mean(NOISY)
    found = compare_sums(points(NOISY))
    assert found is not None
    assert found.error.method is ErrorMethod.ESTIMATED
    assert found.error.ratio == pytest.approx(0.4 * deviation, rel=1e-6)


@pytest.mark.parametrize("gpus", [1, 8])
def test_more_gpus_make_an_estimated_error_no_smaller(gpus: int) -> None:
    """The GPUs of a job work and rest together."""
    error = points(NOISY, gpus=gpus).error(gpus)
    assert error.ratio == pytest.approx(points(NOISY).error().ratio, rel=0.03)


@pytest.mark.parametrize("reads", [1, 2, 7])
def test_too_few_reads_tell_no_error_and_make_no_verdict(reads: int) -> None:
    found = compare_sums(points([1755e6] * reads, mfu=0.9), 1, Thresholds(observed_seconds=0))
    assert found is not None
    assert (found.error.ratio, found.error.method) == (None, ErrorMethod.UNKNOWN)
    assert found.verdict is Verdict.INSUFFICIENT_DATA


def test_eight_reads_tell_an_error() -> None:
    assert points(NOISY[:8]).error().method is ErrorMethod.ESTIMATED


def test_one_window_without_an_error_costs_no_verdict() -> None:
    """One of 120: were its OFU wrong by 1, the mean were by 0.8 points."""
    known = Compared(0.5 * 595, 0.4 * 595, 595.0, 0.0)
    one = Compared(0.5 * 5, 0.4 * 5, 5.0, 0.0, 5.0, 0.4 * 5, 1.0, 1755e6, 1755e6**2)
    found = compare_sums(known.plus(one))
    assert found is not None
    assert found.verdict is Verdict.MFU_ABOVE_OFU
    assert found.error.ratio is None
    assert found.error.largest == pytest.approx(5 / 600)


def test_a_part_has_its_share_of_sums_and_the_square_of_that_of_the_variance() -> None:
    whole = Compared(4.0, 2.0, 8.0, 16.0, edge_seconds=4.0)
    assert whole.scaled(0.5) == Compared(2.0, 1.0, 4.0, 4.0, edge_seconds=2.0)
