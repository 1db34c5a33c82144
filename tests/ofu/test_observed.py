"""What was observed over the seconds of a report whose ends cut windows, against loads that are written out."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.hardware.gpu_models import ROWS
from ofu_exporter.ofu.divergence import compare_sums
from ofu_exporter.ofu.observed import HIGHEST, observed
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import GpuUsage, ObservedSpan
from ofu_exporter.values.reported import Compared, Verdict

WORK = 0.53
Load = Callable[[float, float], float]
"""The utilization seconds of a load between two instants."""


def pausing(work: float, pause: float) -> Load:
    """An OFU of WORK for some seconds and 0 for some, over and over, from 0 on."""

    def until(at: float) -> float:
        cycles, rest = divmod(at, work + pause)
        return WORK * (cycles * work + min(rest, work))

    return lambda start, end: until(end) - until(start)


def usage(
    load: Load, window: float, until: float, gpus: int = 1, off: float = 0.3
) -> list[GpuUsage]:
    """GPUs that were observed in windows of a length."""
    starts = [off * window + window * number for number in range(int(until / window) - 1)]
    spans = tuple(
        ObservedSpan(at, at + window, Compared(0.0, load(at, at + window), window)) for at in starts
    )
    return [GpuUsage(str(n), GpuKey(f"GPU-{n}", ""), recent=spans) for n in range(gpus)]


def test_an_end_that_cuts_no_window_makes_no_error() -> None:
    sums = observed(usage(pausing(10, 4), 1.0, 60.0, off=0.0), 14.0, 24.0)
    assert sums[1:] == pytest.approx((WORK * 10, 10.0, *[0] * 8))


@given(st.floats(0.5, 30), st.floats(3, 60), st.floats(0.2, 30), st.floats(0, 1))
def test_the_truth_of_a_report_lies_within_two_stated_errors(
    pause: float, work: float, window: float, off: float
) -> None:
    load, cycle = pausing(work, pause), work + pause
    first = math.ceil((window + 1) / cycle)
    start, end = first * cycle, first * cycle + work
    sums = observed(usage(load, window, end + 4 * window, off=off), start, end)
    assert sums.gpu_seconds == pytest.approx(work)
    off_by = abs(sums.utilization_seconds - load(start, end))
    assert off_by <= 2 * sums.edge_seconds + 1e-6


def test_a_pause_that_is_left_out_does_not_dilute_the_seconds_beside_it() -> None:
    """Windows that are shorter than the report and the pause are divided where the load changes."""
    sums = observed(usage(pausing(10, 4), 1.0, 60.0), 14.0, 24.0)
    assert sums.ofu == pytest.approx(WORK)
    assert sums.error().edges == pytest.approx(0.03, abs=0.01)


@pytest.mark.parametrize("start", [0.0, 15.0])
def test_a_window_that_begins_with_the_report_tells_how_the_next_one_lay(start: float) -> None:
    """The report ends 2 s into a window of 5 s that did half as much; the first window may be the GPU's first."""
    change = start + 5.0

    def load(begin: float, end: float) -> float:
        fast = max(0.0, min(end, change) - begin)
        return 0.2 * fast + 0.1 * max(0.0, end - max(begin, change))

    sums = observed(usage(load, 5.0, 60.0, off=0.0), start, start + 7.0)
    assert sums.utilization_seconds == pytest.approx(5 * 0.2 + 2 * 0.2)


def test_of_a_gpu_that_is_rated_too_low_a_cut_window_has_its_share() -> None:
    """With a wrong row a GPU shows an OFU above that of any card."""
    sums = observed(usage(lambda start, end: 1.5 * (end - start), 10.0, 60.0, off=0.0), 14.0, 20.0)
    assert (sums.ofu, sums.edge_seconds) == pytest.approx((1.5, 0.0))


def test_a_part_of_a_window_may_have_the_highest_ofu_of_any_card_and_hardly_more() -> None:
    """That of an RTX 5090 at its highest SM clock: 3090 MHz of 2407."""
    highest = max(
        row.max_sm_clock_hz / row.tensor_clock_hz
        for row in ROWS
        if row.max_sm_clock_hz and row.tensor_clock_hz
    )
    assert highest <= HIGHEST <= 1.02 * highest


@pytest.mark.parametrize("window", [0.5, 1.0, 5.0, 10.0])
def test_two_reports_that_adjoin_have_the_sum_of_one(window: float) -> None:
    gpus = usage(pausing(7, 2), window, 200.0)
    one = observed(gpus, 40.0, 120.0)
    first = observed(gpus, 40.0, 71.3, (True, False))
    second = observed(gpus, 71.3, 120.0, (False, True))
    assert first.plus(second)[1:] == pytest.approx(one[1:])


def test_the_errors_of_all_gpus_and_reports_add_up() -> None:
    """A job's GPUs pause together, and at the end of each report."""
    of_one = observed(usage(pausing(10, 4), 5.0, 60.0), 14.0, 24.0)
    of_two = observed(usage(pausing(10, 4), 5.0, 60.0, gpus=2), 14.0, 24.0)
    assert of_two.edge_seconds == pytest.approx(2 * of_one.edge_seconds)
    assert of_one.plus(of_one).error().edges == pytest.approx(of_one.error().edges)


@pytest.mark.parametrize(("window", "work", "pause"), [(5.0, 10.0, 4.0), (30.0, 20.0, 10.0)])
def test_nobody_is_accused_where_windows_are_as_long_as_reports(
    window: float, work: float, pause: float
) -> None:
    """An honest MFU of 0.95 of OFU, over an hour of reports that leave the pauses out."""
    load, cycle = pausing(work, pause), work + pause
    gpus = usage(load, window, 3700.0)
    sums = Compared()
    for number in range(3, int(3600 / cycle)):
        each = observed(gpus, number * cycle, number * cycle + work)
        sums = sums.plus(each._replace(mfu_seconds=0.95 * WORK * each.gpu_seconds))
    found = compare_sums(sums)
    assert found is not None
    assert found.verdict is Verdict.INSUFFICIENT_DATA


def test_a_wrong_report_is_found_all_the_same() -> None:
    gpus, sums = usage(pausing(60, 4), 1.0, 3700.0), Compared()
    for number in range(1, 50):
        each = observed(gpus, number * 64.0, number * 64.0 + 60)
        sums = sums.plus(each._replace(mfu_seconds=1.2 * WORK * each.gpu_seconds))
    found = compare_sums(sums)
    assert found is not None
    assert found.verdict is Verdict.MFU_ABOVE_OFU
