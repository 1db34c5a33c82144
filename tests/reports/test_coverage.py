"""What is kept of one job's reports: the sums of exactly the seconds that a report and OFU both cover."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import ReportError
from ofu_exporter.ofu.observed import RECENT_SECONDS, observed
from ofu_exporter.reports.coverage import (
    AHEAD_SECONDS,
    FIRST_SECONDS,
    GRAIN_SECONDS,
    SETTLED_AFTER_SECONDS,
    SPANS_OF_HORIZON,
    Coverage,
    Interval,
    extended,
    interval_of,
    recent,
    summed,
    time_mean,
)
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import GpuUsage, ObservedSpan
from ofu_exporter.values.reading import LONGEST_WINDOW_SECONDS
from ofu_exporter.values.reasons import ReportRejection
from ofu_exporter.values.reported import Compared
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


@pytest.mark.parametrize("began", [None, unix(-3600)], ids=["unknown", "the clock was set back"])
def test_of_a_job_whose_begin_is_not_known_it_covers_a_minute(began: float | None) -> None:
    assert interval(began=began) == (FIRST_SECONDS, 0.0)


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


HORIZON = 600.0
LATER = SETTLED_AFTER_SECONDS + 1.0


def used(*stretches: tuple[float, float, float], gpu: int = 0) -> GpuUsage:
    """A GPU that was observed from, to, at an OFU with a standard error of 1 point."""
    return GpuUsage(
        str(gpu),
        GpuKey(f"GPU-{gpu}", ""),
        recent=tuple(
            ObservedSpan(
                start,
                end,
                Compared(0.0, ofu * (end - start), end - start, (0.01 * (end - start)) ** 2),
            )
            for start, end, ofu in stretches
        ),
    )


def settled(account: Coverage, usage: Sequence[GpuUsage], end: float) -> Compared:
    return summed(account, usage, end + LATER, HORIZON).life


def test_a_report_is_compared_with_its_own_seconds() -> None:
    usage = [used((0, 10, 0.2), (10, 20, 0.6), (20, 30, 0.9))]
    account = extended(Coverage(), 10.0, 20.0, 0.5)
    sums = settled(account, usage, 20.0)
    assert sums.gpu_seconds == 10.0
    assert sums.ofu == pytest.approx(0.6)
    assert sums.mfu == pytest.approx(0.5)
    assert sums.error().ratio == pytest.approx(0.01)


def test_of_a_window_that_is_not_all_inside_its_share_counts() -> None:
    assert observed([used((0, 10, 0.4))], 5.0, 30.0)[1:4] == pytest.approx((2.0, 5.0, 0.25 * 0.01))


def test_every_gpu_counts() -> None:
    usage = [used((0, 10, 0.2)), used((0, 10, 0.6), gpu=1), used((0, 5, 0.4), gpu=2)]
    sums = settled(extended(Coverage(), 0.0, 10.0, 0.5), usage, 10.0)
    assert sums.gpu_seconds == 25.0
    assert sums.ofu == pytest.approx((2 + 6 + 2) / 25)


def test_time_that_was_not_observed_is_not_compared() -> None:
    account = extended(extended(Coverage(), 0.0, 10.0, 0.5), 20.0, 30.0, 0.7)
    sums = settled(account, [used((20, 30, 0.6))], 30.0)
    assert sums.mfu == pytest.approx(0.7)
    assert sums.gpu_seconds == 10.0


def test_a_window_that_comes_late_completes_a_report() -> None:
    account = extended(Coverage(), 0.0, 30.0, 0.5)
    account = summed(account, [used((0, 10, 0.4))], 30.0, HORIZON)
    assert account.total.gpu_seconds == 10.0
    assert account.life.gpu_seconds == 0.0
    account = summed(account, [used((0, 10, 0.4), (10, 30, 0.6))], 40.0, HORIZON)
    assert account.total.gpu_seconds == 30.0
    assert account.total.ofu == pytest.approx((4 + 12) / 30)


def test_a_span_is_settled_when_every_window_of_it_has_come() -> None:
    account = extended(Coverage(), 0.0, 10.0, 0.5)
    usage = [used((0, 10, 0.4))]
    assert summed(account, usage, 10 + SETTLED_AFTER_SECONDS, HORIZON).life == Compared()
    assert settled(account, usage, 10.0).gpu_seconds == 10.0


def test_what_is_settled_needs_no_window_any_more() -> None:
    account = summed(
        extended(Coverage(), 0.0, 10.0, 0.5), [used((0, 10, 0.4))], LATER + 10, HORIZON
    )
    for now in (200.0, 500.0, 5000.0):
        account = summed(account, [], now, HORIZON)
        assert account.life.gpu_seconds == account.total.gpu_seconds == 10.0
    assert recent(account, 5000.0, HORIZON) == Compared()
    assert account.spans == ()


def test_the_horizon_forgets_and_the_life_does_not() -> None:
    account, usage = Coverage(), [used((0, 600, 0.4))]
    for start in range(0, 600, 60):
        account = extended(account, start, start + 60.0, 0.5 if start < 300 else 0.3)
        account = summed(account, usage, start + 60.0, 120.0)
    assert recent(account, 600.0, 120.0).mfu == pytest.approx(0.3)
    assert settled(account, usage, 600.0).mfu == pytest.approx(0.4)


@every([True, False])
def test_who_has_reported_nothing_has_nothing_to_sum_up(anew: bool) -> None:
    assert summed(Coverage(), [used((0, 10, 0.4))], 20.0, HORIZON, anew) == Coverage()


def test_reports_that_follow_each_other_are_one_span_of_their_mean() -> None:
    account = Coverage()
    for number in range(40):
        account = extended(account, number / 10, (number + 1) / 10, 0.2 if number < 30 else 0.6)
    assert len(account.spans) == 1
    assert account.spans[0].mfu == pytest.approx(0.3)
    assert extended(account, 4.0, 4 + GRAIN_SECONDS, 0.5).spans[1].start == 4.0


def test_what_two_reports_both_cover_counts_once() -> None:
    account = extended(extended(Coverage(), 0.0, 10.0, 0.5), 9.5, 20.0, 0.5)
    assert settled(account, [used((0, 20, 0.4))], 20.0).gpu_seconds == pytest.approx(20.0)


def test_in_pauses_of_reports_that_are_one_as_much_may_have_been_left_out() -> None:
    account = extended(extended(Coverage(), 0.0, 0.3, 0.5), 0.7, 1.0, 0.5)
    assert settled(account, [used((0, 1, 0.4))], 1.0).edge_seconds == pytest.approx(0.4 * 0.4)


@pytest.mark.parametrize(("gap", "spans"), [(0.04, 1), (0.06, 2)])
def test_short_reports_may_be_a_twentieth_of_a_second_apart_to_be_one_span(
    gap: float, spans: int
) -> None:
    coverage = extended(Coverage(), 1000.0, 1001.0, 0.4)
    assert len(extended(coverage, 1001.0 + gap, 1002.0 + gap, 0.4).spans) == spans


def test_a_gap_between_reports_is_not_compared() -> None:
    account = extended(extended(Coverage(), 0.0, 10.0, 0.5), 15.0, 25.0, 0.5)
    assert settled(account, [used((0, 30, 0.4))], 25.0).gpu_seconds == pytest.approx(20.0)


def test_where_no_ofu_was_observed_the_reported_mfu_is_known_all_the_same() -> None:
    account = summed(extended(extended(Coverage(), 0, 10, 0.2), 10, 40, 0.6), [], 50.0, HORIZON)
    assert recent(account, 50.0, HORIZON).mfu is None
    assert time_mean(account, 50.0, HORIZON) == pytest.approx(0.5)
    assert time_mean(account, 5000.0, HORIZON) is None


def test_short_reports_that_are_joined_keep_their_mean_over_the_time_they_cover() -> None:
    """The pauses between them count for none of them."""
    day, coverage = 86400.0, Coverage()
    for start, end, mfu in [(0, 10, 0.9), (60, 80, 0.9), (120, 150, 0.1), (200, 210, 0.1)]:
        coverage = extended(coverage, start, end, mfu)
        coverage = summed(coverage, [], end + LATER, day)
    assert len(coverage.spans) == 1
    mean = (0.9 * 30 + 0.1 * 40) / 70
    assert time_mean(coverage, 210 + LATER, day) == pytest.approx(mean)
    coverage = extended(coverage, 220 + LATER, 230 + LATER, 0.1)
    mean = (0.9 * 30 + 0.1 * 50) / 80
    assert time_mean(coverage, 230 + LATER, day) == pytest.approx(mean), "also of several spans"


class Cut(NamedTuple):
    """One stretch of time, cut into reports, into windows of several GPUs, and into ticks."""

    reports: list[tuple[float, float, float]]
    usages: list[list[tuple[float, float, float]]]
    ticks: list[float]
    seed: int


LENGTH = 120.0


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    def cut(*fixed: int) -> list[tuple[float, float, float]]:
        grid = st.integers(1, int(LENGTH * 10) - 1)
        inner = draw(st.lists(grid, max_size=25))
        edges = [0.0, *(place / 10 for place in sorted({*inner, *fixed})), LENGTH]
        ratio = st.floats(0, 1, allow_subnormal=False)
        return [(a, b, draw(ratio)) for a, b in itertools.pairwise(edges)]

    longest = int(LONGEST_WINDOW_SECONDS * 10)
    every = range(longest, int(LENGTH * 10), longest)
    usages = [cut(*every) for _ in range(draw(st.integers(1, 4)))]
    ticks = draw(st.lists(st.floats(0, 2 * LENGTH), max_size=12))
    # No report is so long that the one before it is settled when it comes.
    return Cut(cut(*every), usages, ticks, draw(st.integers(0, 1000)))


def brute_force(cut: Cut) -> tuple[float, float, float]:
    """MFU, OFU and GPU-seconds, tenth of a second by tenth of a second."""
    said = tenths(cut.reports)
    seen = [value for windows in cut.usages for value in tenths(windows)]
    gpus = len(cut.usages)
    return math.fsum(said) * gpus / 10, math.fsum(seen) / 10, gpus * LENGTH


def tenths(stretches: list[tuple[float, float, float]]) -> list[float]:
    return [
        value for start, end, value in stretches for _ in range(round(start * 10), round(end * 10))
    ]


@given(cuts())
def test_however_time_is_cut_the_sums_are_the_integrals(cut: Cut) -> None:
    """Windows arrive after the reports they belong to, ticks come when they like, and nothing shrinks."""
    account = Coverage()
    moments = sorted({*cut.ticks, *(end for _, end, _ in cut.reports)})
    said = {end: (start, end, mfu) for start, end, mfu in cut.reports}
    late = random.Random(cut.seed)
    before = Compared()
    for now in moments:
        if now in said:
            account = extended(account, *said[now])
        known = now - late.uniform(0, LONGEST_WINDOW_SECONDS)
        usage = [
            used(*(each for each in windows if each[1] <= known), gpu=number)
            for number, windows in enumerate(cut.usages)
        ]
        account = summed(account, usage, now, HORIZON)
        assert all(new >= old - 1e-9 for new, old in zip(account.life, before, strict=True)), (
            "a sum fell"
        )
        before = account.life
    whole = [used(*windows, gpu=number) for number, windows in enumerate(cut.usages)]
    account = summed(account, whole, LENGTH + LATER, HORIZON)
    mfu, ofu, seconds = brute_force(cut)
    assert account.settled == len(account.spans)
    assert account.life.mfu_seconds == pytest.approx(mfu, abs=1e-6)
    assert account.life.utilization_seconds == pytest.approx(ofu, abs=1e-6)
    assert account.life.gpu_seconds == pytest.approx(seconds)
    assert account.total == account.life
    assert recent(account, LENGTH + LATER, HORIZON) == pytest.approx(account.life)


@given(cuts(), st.integers(1, 5))
def test_only_the_last_span_has_to_be_summed_up_while_no_window_comes(cut: Cut, often: int) -> None:
    usage = [used(*windows, gpu=number) for number, windows in enumerate(cut.usages)]
    whole = quick = Coverage()
    for number, (start, end, mfu) in enumerate(cut.reports):
        whole = summed(extended(whole, start, end, mfu), usage, end, HORIZON)
        anew = number % often == 0
        quick = summed(extended(quick, start, end, mfu), usage, end, HORIZON, anew)
        assert quick == whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("horizon", "gap"), [(600.0, 0.0), (120.0, 1.5), (600.0, 1.5), (86400.0, 1.5)]
)
def test_memory_is_bounded_however_often_a_job_reports(horizon: float, gap: float) -> None:
    """An hour of 200 reports a second; or, worse, of short ones that do not touch each other."""
    account, now, seconds, most = Coverage(), 0.0, 1 / 200, 0
    for number in range(int(3600 / (seconds + gap))):
        now += seconds + gap
        account = extended(account, now - seconds, now, 0.4)
        if gap or number % 200 == 0:
            window = used((max(now - RECENT_SECONDS, 0.0), now, 0.5))
            account = summed(account, [window], now, horizon)
            most = max(most, len(account.spans))
    assert most <= 2 * SPANS_OF_HORIZON
    covered = (now - LATER - GRAIN_SECONDS) * seconds / (seconds + gap)
    assert account.life.gpu_seconds == pytest.approx(covered, rel=0.01)
    assert account.life.mfu == pytest.approx(0.4)


@given(
    st.lists(st.floats(0.1, 90.0), min_size=1, max_size=60),
    st.floats(10.0, 300.0),
    st.randoms(use_true_random=False),
)
def test_the_horizon_is_the_sum_of_its_spans_as_they_come_settle_and_go(
    pauses: list[float], horizon: float, chance: random.Random
) -> None:
    account, now = Coverage(), 0.0
    usage = [used((0, 90.0 * 60, 0.4))]
    for pause in pauses:
        if chance.random() < 0.7:
            account = extended(account, now, now + pause, chance.uniform(0.1, 0.6))
        now += pause
        account = summed(account, usage, now, horizon, chance.random() < 0.5)
        shown = [span.sums for span in account.spans if span.end > now - horizon]
        assert recent(account, now, horizon) == pytest.approx(
            [math.fsum(each) for each in zip(Compared(), *shown, strict=True)]
        )
