"""Which interval a report covers, and every interval that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter.errors import ReportError
from ofu_exporter.ofu.job_state import RECENT_SECONDS
from ofu_exporter.reports.interval import AHEAD_SECONDS, FIRST_SECONDS, Interval, interval_of
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.reasons import ReportRejection
from tests.helpers.desk import said
from tests.helpers.every import every

NOW = Instant(10_000.0, 1_800_000_000.0)
BEGAN = NOW.unix - 500.0


def unix(ago: float) -> float:
    return NOW.unix - ago


def interval(
    until: float | None = None, began: float | None = BEGAN, **fields: Any
) -> tuple[float, float]:
    """Start and end, as seconds before now."""
    found = interval_of(said(mfu=0.4, **fields), until, began, NOW)
    assert found.unix_start - NOW.unix == pytest.approx(found.start - NOW.monotonic, abs=1e-6)
    assert found.unix_end - NOW.unix == pytest.approx(found.end - NOW.monotonic, abs=1e-6)
    return NOW.monotonic - found.start, NOW.monotonic - found.end


def refused(
    until: float | None = None, began: float | None = BEGAN, **fields: Any
) -> tuple[ReportRejection, str]:
    with pytest.raises(ReportError) as error:
        interval_of(said(mfu=0.4, **fields), until, began, NOW)
    return error.value.reason, error.value.field


def why(until: float | None = None, **fields: Any) -> str:
    with pytest.raises(ReportError) as error:
        interval_of(said(mfu=0.4, **fields), until, BEGAN, NOW)
    return error.value.detail


def test_a_report_covers_the_time_since_the_one_before() -> None:
    assert interval(until=9_990.0) == (10.0, 0.0)


def test_a_first_report_covers_a_minute() -> None:
    assert interval() == (FIRST_SECONDS, 0.0)


def test_a_first_report_covers_nothing_from_before_its_job() -> None:
    assert interval(began=unix(20)) == pytest.approx((20.0, 0.0))


def test_of_a_job_whose_begin_is_not_known_it_covers_a_minute() -> None:
    assert interval(began=None) == (FIRST_SECONDS, 0.0)


def test_start_and_end_are_unix_time() -> None:
    assert interval(start=unix(30), end=unix(20)) == pytest.approx((30.0, 20.0))
    assert interval(until=9_970.0, start=unix(30), end=unix(20)) == pytest.approx((30.0, 20.0))
    assert interval(start=unix(30)) == pytest.approx((30.0, 0.0))


def test_an_end_alone_covers_the_time_since_the_report_before() -> None:
    assert interval(until=9_970.0, end=unix(10)) == pytest.approx((30.0, 10.0))
    assert interval(end=unix(10)) == pytest.approx((10 + FIRST_SECONDS, 10.0))


def test_after_a_long_silence_it_covers_what_is_remembered() -> None:
    assert interval(until=0.0) == (RECENT_SECONDS, 0.0)


@pytest.mark.parametrize("slack", [0.0, 0.5, 1.0])
def test_clocks_that_are_read_in_turn_may_overlap_a_little(slack: float) -> None:
    assert interval(until=9_970.0, start=unix(30 + slack), end=unix(20)) == pytest.approx(
        (30.0 + slack, 20.0)
    )


def test_a_clock_may_be_a_little_ahead() -> None:
    assert interval(until=9_990.0, end=unix(-AHEAD_SECONDS)) == pytest.approx(
        (10.0, -AHEAD_SECONDS)
    )


@every(
    [
        ({"end": unix(-6)}, "end"),
        ({"start": unix(-6)}, "start"),
        ({"start": unix(-6), "end": unix(-9)}, "end"),
        ({"start": unix(10), "end": unix(-3600)}, "end"),
    ]
)
def test_what_is_in_the_future_is_refused(fields: dict[str, float], field: str) -> None:
    assert refused(**fields) == (ReportRejection.IN_FUTURE, field)


@pytest.mark.parametrize(
    ("fields", "until", "field"),
    [
        ({"start": unix(RECENT_SECONDS + 1)}, None, "start"),
        ({"start": 0}, None, "start"),
        ({"end": unix(RECENT_SECONDS)}, None, "end"),
        ({"start": unix(RECENT_SECONDS + 40), "end": unix(RECENT_SECONDS + 5)}, None, "start"),
        ({"end": unix(RECENT_SECONDS + 40)}, NOW.monotonic - 2 * RECENT_SECONDS, "end"),
    ],
)
def test_what_is_too_long_ago_is_refused(
    fields: dict[str, float], until: float | None, field: str
) -> None:
    assert refused(until, None, **fields) == (ReportRejection.TOO_OLD, field)


@every(
    [
        ({"start": unix(32), "end": unix(20)}, "start"),  # begins inside the one before
        ({"start": unix(50), "end": unix(30)}, "end"),  # the same once more
        ({"end": unix(40)}, "end"),  # an earlier one
        ({"start": unix(30.5), "end": unix(30)}, "end"),  # nothing new, though inside the slack
    ]
)
def test_what_was_reported_already_is_refused(fields: dict[str, float], field: str) -> None:
    assert refused(9_970.0, **fields) == (ReportRejection.OVERLAP, field)


def test_a_report_sent_twice_is_told_by_the_clock_that_it_names() -> None:
    """The node's two clocks are read one after the other, so that what is told by both shifts a little."""
    report = said(mfu=0.4, start=unix(20.5), end=unix(20))
    first = interval_of(report, None, BEGAN, NOW)
    later = Instant(NOW.monotonic + 5.001, NOW.unix + 5.0)
    with pytest.raises(ReportError) as error:
        interval_of(report, first.end, BEGAN, later, first.unix_end)
    assert error.value.reason is ReportRejection.OVERLAP


def test_a_refusal_says_by_how_much_and_why() -> None:
    twice = "s before the end of the job's report before: two processes report, or one report was sent twice"
    assert why(9_970.0, end=unix(50)) == f"is 20.0 {twice}"
    assert why(9_970.0, end=unix(30)) == f"is 0.0 {twice}"
    assert why(9_970.0, start=unix(32), end=unix(20)) == f"is 2.0 {twice}"
    assert why(start=unix(1300)) == (
        "is 1300 s ago; OFU is remembered for 1260 s: report more often"
    )
    assert why(end=unix(-7)) == "is 7 s in the future"
    assert why(start=unix(0)) == (
        "the interval has no length, or was over before the job was first seen here"
    )


@every(
    [
        ({"start": unix(0)}, BEGAN, "start"),
        ({"start": unix(-3)}, BEGAN, "start"),
        ({"end": unix(30)}, unix(20), "end"),  # over before its job was here
        ({}, unix(0), "end"),
    ]
)
def test_an_interval_without_length_is_refused(
    fields: dict[str, float], began: float, field: str
) -> None:
    assert refused(None, began, **fields) == (ReportRejection.OUT_OF_RANGE, field)


def test_the_next_report_may_begin_where_this_one_ends() -> None:
    first = interval_of(said(mfu=0.4, start=unix(30), end=unix(20)), None, BEGAN, NOW)
    after = interval_of(said(mfu=0.4, start=unix(20), end=unix(10)), first.end, BEGAN, NOW)
    assert isinstance(after, Interval)
    assert after.start == pytest.approx(first.end, abs=1e-6)
