"""What somebody should look at in a job is found where it is, and nowhere else."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.fleet_history import JobSums
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.reports.job_result import (
    idle_stretches,
    job_result,
    shortfalls,
    slow_gpus,
)
from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.one_job import GpuHours, JobStory, PointRow
from tests.fleet.reports.test_fleet_report import history, job

STEP = 60.0


def points(gpus: list[float | None], ofu: list[float | None] | None = None) -> list[PointRow]:
    values = ofu or [0.3] * len(gpus)
    return [
        PointRow(
            time=iso(STEP * (number + 1)), gpus=held, ofu=value, mfu=None, activity=None, clock=None
        )
        for number, (held, value) in enumerate(zip(gpus, values, strict=True))
    ]


def gpu(number: int, ofu: float, hours: int = 6, **slow: float) -> GpuHours:
    made = GpuHours("n1", str(number), f"GPU-{number}")
    made.ofu = dict.fromkeys(range(hours), ofu)
    made.clock_hz = dict.fromkeys(range(hours), slow.get("clock_hz", 1.4e9))
    return made


def test_a_gpu_that_does_less_than_the_others_is_slow() -> None:
    (found,) = slow_gpus([gpu(0, 0.4), gpu(1, 0.4), gpu(2, 0.2), gpu(3, 0.41)])
    assert (found.gpu, found.what, found.hours) == ("2", "OFU", 6)
    assert found.share == pytest.approx(0.5)


def test_a_gpu_that_holds_the_others_up_is_slow_by_its_clock() -> None:
    """All wait for it, so that its OFU is theirs."""
    (found,) = slow_gpus([gpu(0, 0.3), gpu(1, 0.3), gpu(2, 0.3, clock_hz=0.9e9)])
    assert (found.gpu, found.what) == ("2", "SM clock")


def test_one_bad_hour_two_gpus_and_equal_gpus_say_nothing() -> None:
    hiccup = gpu(0, 0.4)
    hiccup.ofu[3] = 0.1
    assert slow_gpus([hiccup, gpu(1, 0.4), gpu(2, 0.4)]) == []
    assert slow_gpus([gpu(0, 0.4), gpu(1, 0.1)]) == []
    assert slow_gpus([gpu(number, 0.0) for number in range(4)]) == []
    assert slow_gpus([]) == []


@pytest.mark.parametrize(("slow", "hours", "is_slow"), [(1, 1, False), (2, 3, True), (2, 4, False)])
def test_a_gpu_is_slow_that_was_for_two_hours_and_most_of_its_time(
    slow: int, hours: int, is_slow: bool
) -> None:
    lame = gpu(0, 0.4, hours)
    lame.ofu |= dict.fromkeys(range(slow), 0.3)
    found = slow_gpus([lame, gpu(1, 0.4, hours), gpu(2, 0.4, hours)])
    assert [each.gpu for each in found] == ["0"] * is_slow


@pytest.mark.parametrize(("share", "is_slow"), [(0.901, False), (0.899, True)])
def test_a_gpu_is_slow_below_nine_tenths_of_the_median(share: float, is_slow: bool) -> None:
    found = slow_gpus([gpu(0, 0.4 * share), gpu(1, 0.4), gpu(2, 0.4)])
    assert [each.gpu for each in found] == ["0"] * is_slow


@pytest.mark.parametrize(("ofu", "is_idle"), [(0.001, False), (0.0009, True)])
def test_a_job_is_idle_below_a_tenth_of_a_percent(ofu: float, is_idle: bool) -> None:
    assert len(idle_stretches(points([8.0] * 10, [ofu] * 10), STEP)) == is_idle


@pytest.mark.parametrize(("held", "is_told"), [(7.2, False), (7.1, True)])
def test_a_tenth_of_the_gpus_may_be_missing_for_a_while(held: float, is_told: bool) -> None:
    assert len(shortfalls(points([8.0, held, 8.0]), STEP)) == is_told


@pytest.mark.parametrize(
    ("ofu", "told"), [(0.34, "15% less than"), (0.37, ""), (0.43, ""), (0.46, "15% more than")]
)
def test_a_tenth_more_or_less_than_the_runs_before_is_told(ofu: float, told: str) -> None:
    before, now = (
        job(name, "ada", JobSums(80, 80, 80 * each)) for name, each in (("1", 0.4), ("2", ofu))
    )
    before.first_hour = (now.first_hour or 0) - 9
    story = JobStory(now, history(before, now), STEP, [], [], [])
    headline = job_result(story, ChunkReader(PrometheusClient("http://prometheus"))).headline
    assert ("its earlier runs" in headline) == bool(told)
    assert told in headline


@pytest.mark.parametrize(("away", "is_told"), [(0.0, False), (6.4, True)])
def test_what_is_not_known_while_its_nodes_were_away_is_told(away: float, is_told: bool) -> None:
    one = job("1", "ada", JobSums(80, 80, 32), away=away)
    story = JobStory(one, history(one), STEP, [], [], [])
    headline = job_result(story, ChunkReader(PrometheusClient("http://prometheus"))).headline
    assert ("of up to 6.4 more GPU-hours nothing is known." in headline) == is_told
    assert ("were away" in headline) == is_told


def test_idle_is_measured_at_0_and_long_enough_and_unknown_is_not_idle() -> None:
    ofu: list[float | None] = [0.3] * 5 + [0.0] * 10 + [0.3] + [0.0] * 9 + [None] * 20
    (found,) = idle_stretches(points([8.0] * len(ofu), ofu), STEP)
    assert (found.start, found.end) == ("1970-01-01T00:05:00Z", "1970-01-01T00:15:00Z")
    assert found.minutes == 10


def test_a_job_that_holds_fewer_gpus_for_a_while_was_restarted_or_lost_some() -> None:
    held: list[float | None] = [2, 6, 8, 8, 0, 0, 8, 8, 7, 8, 3, 0]
    times = [(each.start[14:16], each.end[14:16]) for each in shortfalls(points(held), STEP)]
    assert times == [("04", "06"), ("08", "09")]
    assert shortfalls(points([8.0] * 5 + [5, None, 0] + [8.0] * 5), STEP) == []
    assert shortfalls([], STEP) == []
    assert shortfalls(points([None, 0.0]), STEP) == []


@given(st.lists(st.one_of(st.none(), st.floats(0.0, 16.0)), max_size=60))
def test_stretches_are_in_order_and_apart(held: list[float | None]) -> None:
    found = shortfalls(points(held), STEP)
    assert all(one.start < one.end for one in found)
    assert all(one.end < other.start for one, other in itertools.pairwise(found))
