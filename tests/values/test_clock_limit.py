"""What holds a clock down, in words."""

from __future__ import annotations

from ofu_exporter.values.clock_limit import ClockLimit, known_limits, limit_words


def test_each_limit_has_words() -> None:
    assert all(limit.words for limit in ClockLimit)
    assert len({limit.words for limit in ClockLimit}) == len(ClockLimit)


def test_nothing_and_unknown_have_none() -> None:
    assert limit_words(()) == limit_words(None) == ""


def test_a_slowdown_is_not_said_beside_its_cause() -> None:
    assert limit_words((ClockLimit.HW_SLOWDOWN, ClockLimit.HW_THERMAL)) == "too hot"
    assert limit_words((ClockLimit.HW_SLOWDOWN,)) == "hardware slowdown"
    assert limit_words((ClockLimit.SW_POWER_CAP, ClockLimit.SW_THERMAL)) == "power cap, too warm"


def test_a_limit_of_a_later_version_costs_itself() -> None:
    assert known_limits(["sw_power_cap", "moon"]) == (ClockLimit.SW_POWER_CAP,)
    assert known_limits([]) == ()
    assert known_limits(None) is None
