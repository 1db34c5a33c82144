"""Simulated counters are tensor activity and clock reads that follow from the truth."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, pstdev

import pytest

from ofu_exporter.fleet.simulation.counters import SimulatedCounters
from ofu_exporter.values.reading import Fault, Reading
from tests.helpers.fleets import ONE_JOB, fleet

TENSOR_CLOCK = 1830e6
"""Of an H100: 989.4 TFLOP/s over 132 SMs of 4,096 FLOPs per cycle."""


def readings(rest: str, folder: Path, windows: range, node: int = 0) -> list[list[Reading]]:
    counters = SimulatedCounters(fleet(f"{ONE_JOB}{rest}}}\n", folder), node)
    found = [list(counters.read(window)) for window in windows]
    assert not any(isinstance(each, Fault) for window in found for each in window)
    return [[each for each in window if isinstance(each, Reading)] for window in found]


def test_activity_times_clock_is_the_work(tmp_path: Path) -> None:
    for window in readings("", tmp_path, range(200)):
        for reading in window:
            assert reading.tensor_active is not None
            hz = fmean(clock.hz for clock in reading.clocks)
            assert reading.tensor_active * hz / TENSOR_CLOCK == pytest.approx(0.4, rel=0.08)
    work = [
        (reading.tensor_active or 0.0) * fmean(clock.hz for clock in reading.clocks) / TENSOR_CLOCK
        for window in readings("", tmp_path, range(400))
        for reading in window
    ]
    assert fmean(work) == pytest.approx(0.4, rel=0.002)


def test_clock_reads_scatter_as_the_paper_measured_it(tmp_path: Path) -> None:
    clocks = [
        clock.hz
        for window in readings(", clock_mhz: 1352", tmp_path, range(300))
        for clock in window[0].clocks
    ]
    assert fmean(clocks) == pytest.approx(1352e6, rel=0.03)
    assert pstdev(clocks) == pytest.approx(32e6, rel=0.15)


def test_engine_and_sms_are_busy_for_as_long_as_the_job_keeps_them(tmp_path: Path) -> None:
    rest = ", idle: 0.1, empty_sms: 0.2"
    found = [one.activity for window in readings(rest, tmp_path, range(400)) for one in window]
    assert fmean(each.engine or 0.0 for each in found) == pytest.approx(0.9, abs=0.002)
    assert fmean(each.sm or 0.0 for each in found) == pytest.approx(0.7, abs=0.002)
    assert pstdev(each.engine or 0.0 for each in found) > 0.02
    for window in readings(", start: 1h", tmp_path, range(4)):
        assert all((one.activity.engine, one.activity.sm) == (0.0, 0.0) for one in window)


def test_an_idle_gpu_has_an_idle_clock(tmp_path: Path) -> None:
    for reading, *_ in readings(", start: 1h", tmp_path, range(10)):
        assert reading.tensor_active == 0
        assert {clock.hz for clock in reading.clocks} == {345e6}


def test_windows_are_one_after_another(tmp_path: Path) -> None:
    first, second = (window[0] for window in readings("", tmp_path, range(2)))
    assert (first.start, first.end, second.start) == (0.0, 15.0, 15.0)
    assert [clock.at for clock in first.clocks] == [0.0, 3.75, 7.5, 11.25, 15.0]


def test_a_window_is_the_same_whenever_it_is_read(tmp_path: Path) -> None:
    assert readings("", tmp_path, range(7, 8)) == readings("", tmp_path, range(8))[7:]


def test_no_activity_is_above_1(tmp_path: Path) -> None:
    for window in readings(", clock_mhz: 820", tmp_path, range(300)):
        assert all((reading.tensor_active or 0.0) <= 1 for reading in window)
