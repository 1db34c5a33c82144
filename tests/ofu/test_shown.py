"""The window that is shown is about as long as was asked for, and is the mean of what it is made of."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.ofu.shown import joined, latest
from ofu_exporter.values.losses import NO_LOSSES, Bottleneck, Bounds, Loss, LossSums
from ofu_exporter.values.reading import Activity, Window


def window(
    start: float, end: float, active: float = 0.5, hz: float = 1e9, **other: object
) -> Window:
    made = Window(start, end, active, {"hmma": active}, hz, active * hz / 2e9, 0.01, "polled")
    return made._replace(**other)  # type: ignore[arg-type]


@given(st.floats(0.1, 30.0), st.lists(st.floats(0.1, 60.0), min_size=1, max_size=60))
def test_the_shown_window_reaches_the_interval_and_no_farther_than_it_must(
    interval: float, lengths: list[float]
) -> None:
    recent: tuple[Window, ...] = ()
    at = 0.0
    for length in lengths:
        recent = latest(recent, window(at, at + length), interval)
        at += length
    shown = joined(recent)
    assert shown.end == at
    assert shown.seconds >= min(0.9 * interval, at) - 1e-9
    assert shown.end - recent[0].end < 0.9 * interval


def test_what_is_joined_weighs_activity_by_cycles_and_all_else_by_time() -> None:
    """1 s of 0.9 at 1 GHz and 3 s of 0.1 at 2 GHz: 0.9 + 0.6 of 7 G cycles, OFU (0.45 + 3 x 0.1) / 4."""
    made = joined((window(0, 1, 0.9, 1e9), window(1, 4, 0.1, 2e9)))
    assert made.tensor_active == pytest.approx(1.5 / 7)
    assert made.pipes == {"hmma": pytest.approx(1.5 / 7)}
    assert made.sm_clock_hz == pytest.approx(7e9 / 4)
    assert made.utilization == pytest.approx(0.75 / 4)
    assert made.stderr == pytest.approx(0.01 * math.hypot(1, 3) / 4)
    assert made.utilization == pytest.approx(1.5 / 7 * 7e9 / 4 / 2e9)


def test_a_single_window_is_shown_as_it_is() -> None:
    one = window(0, 1, utilization=None)
    assert joined((one,)) is one


def test_the_worst_method_and_an_unknown_error_are_those_of_the_whole() -> None:
    made = joined(
        (
            window(0, 1, clock_method="cycles"),
            window(1, 2, stderr=None, clock_method="point"),
            window(2, 3, clock_method="cycles"),
        )
    )
    assert (made.stderr, made.clock_method) == (None, "point")


@pytest.mark.parametrize(
    "before", [window(0, 1), window(0, 2, utilization=None)], ids=["ends earlier", "has no OFU"]
)
def test_what_is_not_beside_it_or_not_whole_is_left_out(before: Window) -> None:
    last = window(2, 3)
    assert latest((before,), last, 5.0) == (last,)


def test_what_is_joined_has_the_parts_of_all_its_seconds() -> None:
    """1 s of which half is idle and 3 s without idle: an eighth of 4 s is idle; energy adds up."""
    first = window(0, 1, 0.5, 2e9)._replace(
        losses={Loss.CLOCK: 0.0, Loss.IDLE: 0.5},
        activity=Activity(engine=0.5, energy_joules=100.0),
        sums=LossSums(bottlenecks={Bottleneck.MEMORY: Bounds(0.1, 0.2)}),
    )
    second = window(1, 4, 1.0, 2e9)._replace(
        losses={Loss.CLOCK: 0.0, Loss.IDLE: 0.0},
        activity=Activity(engine=1.0, sm=0.9, energy_joules=900.0),
        sums=LossSums(bottlenecks={Bottleneck.MEMORY: Bounds(1.0, 2.0)}),
    )
    made = joined((first, second))
    assert made.losses == {Loss.CLOCK: 0.0, Loss.IDLE: pytest.approx(0.125)}
    assert made.activity == Activity(engine=0.875, energy_joules=1000.0)
    assert made.sums.bottlenecks == {Bottleneck.MEMORY: pytest.approx((1.1, 2.2))}
    unlike = joined((first, second._replace(losses={Loss.UNSPLIT: 0.0})))
    assert (unlike.losses, unlike.sums) == ({}, NO_LOSSES)
