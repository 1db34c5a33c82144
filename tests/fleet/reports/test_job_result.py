"""What somebody should look at in a job is found where it is, and nowhere else."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.reports.job_result import idle_stretches, shortfalls, slow_gpus
from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.one_job import GpuHours, PointRow

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


def test_idle_is_measured_at_0_and_long_enough_and_unknown_is_not_idle() -> None:
    ofu: list[float | None] = [0.3] * 5 + [0.0] * 10 + [0.3] + [0.0] * 9 + [None] * 20
    (found,) = idle_stretches(points([8.0] * len(ofu), ofu), STEP)
    assert (found.start, found.end) == ("1970-01-01T00:05:00Z", "1970-01-01T00:15:00Z")
    assert found.minutes == 10


def test_a_job_that_holds_fewer_gpus_for_a_while_was_restarted_or_lost_some() -> None:
    held: list[float | None] = [2, 6, 8, 8, None, 0, 8, 8, 7, 8, 3, 0]
    times = [(each.start[14:16], each.end[14:16]) for each in shortfalls(points(held), STEP)]
    assert times == [("04", "06"), ("08", "09")]
    assert shortfalls([], STEP) == []
    assert shortfalls(points([None, 0.0]), STEP) == []


@given(st.lists(st.one_of(st.none(), st.floats(0.0, 16.0)), max_size=60))
def test_stretches_are_in_order_and_apart(held: list[float | None]) -> None:
    found = shortfalls(points(held), STEP)
    assert all(one.start < one.end for one in found)
    assert all(one.end < other.start for one, other in itertools.pairwise(found))
