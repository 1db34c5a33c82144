"""What the counters saw of a job while a trace of it was taken."""

from __future__ import annotations

import pytest

from ofu_exporter.agent.trace_counters import PeakSums, peak_sums, shares_between
from ofu_exporter.values.job import Job
from ofu_exporter.values.losses import Loss
from tests.helpers.desk import Desk


def test_the_shares_are_those_of_the_time_between_and_of_no_other() -> None:
    before = PeakSums(100.0, 10.0, {Loss.IDLE: 90.0})
    after = PeakSums(140.0, 30.0, {Loss.IDLE: 94.0, Loss.NO_TENSOR: 16.0})
    shares = shares_between(before, after)
    assert shares == pytest.approx({"used": 0.5, "idle": 0.1, "no_tensor": 0.4})


def test_there_are_none_where_no_window_ended_or_the_job_is_not_known() -> None:
    sums = PeakSums(100.0, 10.0, {})
    assert shares_between(sums, sums) == {}
    assert shares_between(None, sums) == shares_between(sums, None) == {}
    assert peak_sums(None, "7") is None


def test_sums_that_went_back_with_a_gpu_say_nothing() -> None:
    before = PeakSums(100.0, 50.0, {Loss.IDLE: 50.0})
    assert shares_between(before, PeakSums(101.0, 10.0, {Loss.IDLE: 91.0})) == {}


def test_a_clock_above_the_tensor_clock_takes_the_used_share_above_1() -> None:
    before = PeakSums(0.0, 0.0, {Loss.CLOCK: 0.0})
    shares = shares_between(before, PeakSums(100.0, 104.0, {Loss.CLOCK: -4.0}))
    assert shares == pytest.approx({"used": 1.04, "clock": -0.04})


def test_the_sums_are_those_of_all_gpus_of_the_job() -> None:
    desk = Desk(2)
    desk.give(Job("slurm", "7"), "0", "1")
    desk.run(60.0)
    sums = peak_sums(desk.shown, "7")
    assert sums is not None
    usage = desk.job("7").usage.values()
    assert sums.observed == sum(each.observed_seconds for each in usage) > 100.0
    assert sums.used == sum(each.utilization_seconds for each in usage)
    assert peak_sums(desk.shown, "8") is None
