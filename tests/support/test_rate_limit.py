"""A bucket per key: some at once, some a second, and no key without bound."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.support.rate_limit import MOST_KEYS, RateLimit


def test_a_burst_passes_and_the_next_waits_for_one_to_drip_in() -> None:
    limit: RateLimit[str] = RateLimit(per_second=10, burst=3)
    assert [limit.ask("a", 100.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert math.isclose(limit.ask("a", 100.0), 0.1)
    assert limit.ask("a", 100.1) == 0.0
    assert limit.ask("a", 100.1) > 0.0


def test_to_be_refused_costs_nothing() -> None:
    limit: RateLimit[str] = RateLimit(per_second=1, burst=1)
    assert limit.ask("a", 0.0) == 0.0
    assert all(limit.ask("a", 0.5) for _ in range(100))
    assert limit.ask("a", 1.0) == 0.0


def test_what_was_taken_without_asking_is_waited_for() -> None:
    limit: RateLimit[str] = RateLimit(per_second=10, burst=3)
    limit.take("a", 0.0, 5)
    assert math.isclose(limit.ask("a", 0.0), 0.3)
    assert limit.ask("a", 0.3) == 0.0


def test_every_key_has_a_bucket_of_its_own() -> None:
    limit: RateLimit[str] = RateLimit(per_second=1, burst=1)
    assert [limit.ask(key, 0.0) for key in "abc"] == [0.0, 0.0, 0.0]
    assert limit.ask("a", 0.0) > 0.0


def test_of_too_many_keys_the_one_unused_for_longest_is_forgotten() -> None:
    limit: RateLimit[int] = RateLimit(per_second=1, burst=1)
    assert not any(limit.ask(key, 0.0) for key in range(MOST_KEYS + 1))
    assert len(limit) == MOST_KEYS
    assert limit.ask(MOST_KEYS, 0.0) > 0.0
    assert limit.ask(0, 0.0) == 0.0


@given(
    st.floats(0.1, 1e4),
    st.integers(1, 100),
    st.lists(st.floats(0.0, 10.0), min_size=1, max_size=200),
)
def test_never_more_than_the_burst_and_the_rate_allow(
    per_second: float, burst: int, steps: list[float]
) -> None:
    limit: RateLimit[str] = RateLimit(per_second, burst)
    now, allowed = 0.0, 0
    for step in steps:
        now += step / per_second
        wait = limit.ask("a", now)
        allowed += wait == 0.0
        assert allowed <= burst + now * per_second * (1 + 1e-9) + 1e-3
        assert wait <= 1.001 / per_second, "whoever waits that long is let in"
