"""The judge sees what it is there for: a wrong mean, an error that is too small, a gap, a second counted twice."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulator.agent import Counted
from tests.simulator.loads import BY_NAME
from tests.simulator.score import Asked, Score, Span, length, overlap, score, union, within, without

CURVE = BY_NAME["hard steps"].curve
ASKED = Asked(Span(10.0, 110.0), lag=5.0)


def windows(start: float = 10.0, end: float = 110.0, off: float = 0.0) -> list[Counted]:
    """Windows of 5 s that tile a span, each off by the same error, with a stated error of a point."""
    return [
        Counted(at, at + 5.0, CURVE.utilization(at, at + 5.0) + off, 0.01, "polled")
        for at in (start + 5.0 * k for k in range(round((end - start) / 5.0)))
    ]


def judged(counted: list[Counted], asked: Asked = ASKED) -> Score:
    found = score(CURVE, counted, asked)
    assert found is not None
    return found


def test_true_windows_are_true() -> None:
    found = judged(windows())
    assert found.truth == pytest.approx(CURVE.utilization(10, 110))
    assert (found.bias, found.error) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert (found.stated, found.inside) == pytest.approx((0.01, 1.0))
    assert found.unstated == 0
    assert (found.coverage, found.twice) == pytest.approx((1.0, 0.0), abs=1e-9)
    assert found.windows == 20


@pytest.mark.parametrize(("off", "inside"), [(0.019, 1.0), (-0.019, 1.0), (0.021, 0.0)])
def test_an_error_is_a_bias_and_must_be_stated(off: float, inside: float) -> None:
    found = judged(windows(off=off))
    assert found.bias == pytest.approx(off)
    assert found.error == pytest.approx(abs(off))
    assert found.inside == inside


def test_windows_that_state_no_error_are_counted_apart() -> None:
    none = [each._replace(stderr=None) for each in windows(off=0.5)[:5]]
    found = judged([*none, *windows()[5:]])
    assert (found.inside, found.unstated) == (1.0, 0.25)
    assert judged([each._replace(stderr=None) for each in windows()]).inside is None


def test_a_gap_is_not_observed_unless_nobody_could() -> None:
    left = [each for each in windows() if not 50 <= each.start < 60]
    assert judged(left).coverage == pytest.approx(0.9)
    found = judged(left, ASKED._replace(unknowable=[Span(50.0, 60.0)]))
    assert found.coverage == pytest.approx(1.0)
    assert found.bias == pytest.approx(0.0, abs=1e-12)


def test_a_gap_at_the_end_counts_as_far_as_it_is_longer_than_the_lag() -> None:
    assert judged(windows(end=105.0)).coverage == pytest.approx(1.0)
    assert judged(windows(end=60.0)).coverage == pytest.approx(50 / 95)


def test_seconds_that_are_counted_again_or_before_the_begin_show() -> None:
    again = [*windows(), *windows(50.0, 60.0)]
    assert judged(again).twice == pytest.approx(10.0)
    assert judged(again).coverage == pytest.approx(1.0)
    assert judged(windows(start=5.0)).twice == pytest.approx(5.0)


def test_nothing_counted_has_no_score() -> None:
    assert score(CURVE, [], ASKED) is None


spans = st.builds(
    lambda start, seconds: Span(start, start + seconds), st.integers(0, 50), st.integers(0, 20)
)


@given(st.lists(spans, max_size=8), st.lists(spans, max_size=8))
def test_spans_are_sets_of_seconds(some: list[Span], others: list[Span]) -> None:
    def seconds(of: list[Span]) -> set[int]:
        return {second for start, end in of for second in range(int(start), int(end))}

    one, other = union(some), union(others)
    assert seconds(one) == seconds(some)
    assert length(one) == len(seconds(some))
    assert seconds(overlap(one, other)) == seconds(some) & seconds(others)
    assert seconds(without(one, others)) == seconds(some) - seconds(others)
    assert length(without(one, others)) == len(seconds(some) - seconds(others))
    assert seconds(within(one, Span(10, math.inf))) == {s for s in seconds(some) if s >= 10}
