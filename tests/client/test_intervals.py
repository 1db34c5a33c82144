"""Reports are time-weighted means over intervals that follow one another without overlap."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.client.intervals import Call, IntervalReport, Intervals, NotUsable, finite_number
from tests.helpers.every import every

steps = st.lists(st.tuples(st.floats(0.001, 40.0), st.floats(0.0, 1.0)), min_size=1, max_size=60)


def reports(calls: list[Call], every: float = 10.0) -> list[IntervalReport]:
    """Those made on the way, and the rest."""
    intervals = Intervals(every)
    made = [report for call in calls for report in intervals.add(call)]
    return [*made, *intervals.take_rest()]


def at(times: list[tuple[float, float]]) -> list[Call]:
    """Calls some seconds apart, with their MFU, after a first one at 1000."""
    calls, now = [Call(1000.0, {"mfu": 0.0})], 1000.0
    for seconds, mfu in times:
        now += seconds
        calls.append(Call(now, {"mfu": mfu}))
    return calls


@given(steps)
def test_contiguous_intervals_hold_the_integral_of_what_was_said(
    times: list[tuple[float, float]],
) -> None:
    calls = at(times)
    made = reports(calls)
    assert made[0].start == 1000.0
    assert made[-1].end == calls[-1].at
    assert all(before.end == after.start for before, after in pairwise(made))
    said = sum((b.at - a.at) * b.values["mfu"] for a, b in pairwise(calls))
    reported = sum((one.end - one.start) * one.values["mfu"] for one in made)
    assert math.isclose(said, reported, rel_tol=1e-9, abs_tol=1e-9)


@given(steps, st.lists(st.floats(0.0, 50.0) | st.none(), min_size=60, max_size=60))
def test_whatever_starts_are_given_reports_never_overlap_nor_come_faster_than_every(
    times: list[tuple[float, float]], agos: list[float | None]
) -> None:
    calls = [
        call if ago is None else call._replace(start=call.at - ago)
        for call, ago in zip(at(times), agos, strict=False)
    ]
    intervals = Intervals(10.0)
    made: list[IntervalReport] = []
    for call in calls:
        try:
            made += intervals.add(call)
        except NotUsable:
            assert call.start == call.at
    assert all(one.start < one.end for one in made)
    assert all(before.end <= after.start for before, after in pairwise(made))
    assert all(after.end - before.end >= 10.0 for before, after in pairwise(made))
    rest = intervals.take_rest()
    assert not (made and rest) or made[-1].end <= rest[0].start


def test_each_call_counts_for_the_time_since_the_call_before() -> None:
    (report,) = reports(at([(2.0, 0.5), (8.0, 0.3)]))
    assert (report.start, report.end, report.step) == (1000.0, 1010.0, None)
    assert report.values == pytest.approx({"mfu": 0.34})


def test_the_first_call_covers_nothing_unless_it_says_since_when() -> None:
    assert reports([Call(1000.0, {"mfu": 0.4})]) == []
    calls = [Call(1000.0, {"mfu": 0.4}, step=3, start=988.0)]
    (report,) = reports(calls)
    assert (report.start, report.end, report.step) == (988.0, 1000.0, 3)


def test_time_that_no_call_speaks_for_is_in_no_report() -> None:
    calls = [*at([(12.0, 0.4), (4.0, 0.4)]), Call(1080.0, {"mfu": 0.2}, start=1060.0)]
    made = reports(calls)
    assert [(one.start, one.end) for one in made] == [(1000.0, 1012.0), (1060.0, 1080.0)]


def test_a_start_before_the_last_call_does_not_count_time_twice() -> None:
    calls = [*at([(11.0, 0.4)]), Call(1022.0, {"mfu": 0.2}, start=1001.0)]
    assert [one.start for one in reports(calls)] == [1000.0, 1011.0]


def test_a_step_alone_is_reported_every_ten_seconds_since_the_step_before() -> None:
    intervals = Intervals(10.0)
    made = [one for n in range(25) for one in intervals.add(Call(1000.0 + n, {}, n))]
    assert [(one.end, one.step) for one in made] == [(1000.0, 0), (1010.0, 10), (1020.0, 20)]
    assert made[0].fields() == {"end": 1000.0, "step": 0}
    assert [one.fields().get("start") for one in made[1:]] == [1000.0, 1010.0]
    assert [one.step for one in intervals.take_rest()] == [24], "the last one at the end"
    assert intervals.take_rest() == []


def test_steps_are_begun_where_it_is_stated_and_lower_ones_at_no_known_time() -> None:
    intervals = Intervals(10.0)
    calls = [(1000.0, 8, 988.0), (1020.0, 9, None), (1060.0, 5, None), (1080.0, 6, 1070.0)]
    made = [intervals.add(Call(at, {}, step, start))[0] for at, step, start in calls]
    starts = [988.0, 1000.0, None, 1070.0]
    assert [one.fields().get("start") for one in made] == starts


def test_a_step_alone_interrupts_no_interval() -> None:
    intervals = Intervals(10.0)
    calls = [Call(1000.0, {"mfu": 0.4}), Call(1006.0, {}, 7), Call(1012.0, {"mfu": 0.4}, 8)]
    alone, report = [one for call in calls for one in intervals.add(call)]
    assert alone.step == 7
    assert (report.start, report.end, report.step) == (1000.0, 1012.0, 8)


def test_another_kind_of_value_begins_another_interval() -> None:
    calls = [*at([(11.0, 0.4), (9.0, 0.4)]), Call(1031.0, {"tokens_per_second": 1e5})]
    intervals = Intervals(10.0)
    made = [report for call in calls for report in intervals.add(call)]
    assert [one.values.keys() for one in made] == [{"mfu"}, {"tokens_per_second"}]
    assert (made[1].start, made[1].end) == (1020.0, 1031.0)
    assert intervals.dropped == 1, "the nine seconds between"


def test_a_call_of_another_thread_or_host_that_comes_late_makes_no_interval() -> None:
    intervals = Intervals(10.0)
    intervals.add(Call(1000.0, {"mfu": 0.4}))
    with pytest.raises(NotUsable, match="clock"):
        intervals.add(Call(941.0, {"mfu": 0.4}))
    (report,) = intervals.add(Call(1010.0, {"mfu": 0.4}))
    assert (report.start, report.end) == (1000.0, 1010.0)


@every([{"mfu": 0.4}, {}])
def test_where_the_clock_was_set_back_reports_go_on_by_the_new_one(
    values: dict[str, float],
) -> None:
    """An hour back: nothing has to wait until the old time is reached."""
    intervals = Intervals(10.0)
    before = [Call(5000.0 + 10 * n, values, n) for n in range(3)]
    after = [Call(1416.0 + 10 * n, values, 3 + n) for n in range(3)]
    made = [one for call in [*before, Call(5024.0, {"mfu": 0.4})] for one in intervals.add(call)]
    assert made[-1].end == 5020.0
    made = [one for call in after for one in intervals.add(call)]
    assert [(one.fields().get("start"), one.step) for one in made][-2:] == [
        (1416.0, 4),
        (1426.0, 5),
    ]
    assert intervals.dropped == bool(values), "what was open belongs to no clock"


@every(["0.4", b"1", True, math.nan, math.inf, -0.1, -1, [0.4], object(), 10**400])
def test_what_is_no_number_of_zero_or_more_is_not_usable(value: object) -> None:
    with pytest.raises((NotUsable, OverflowError)):
        finite_number(value)


def test_a_gpu_may_have_done_nothing() -> None:
    assert [finite_number(each) for each in (0, 0.0)] == [0.0, 0.0]


class HostTensor:
    """As torch's: one number, on a device."""

    def __init__(self, where: str) -> None:
        self.device = type("device", (), {"type": where})()
        self.read = False

    def __float__(self) -> float:
        self.read = True
        return 0.25


def test_a_number_on_the_host_is_read_and_one_on_a_gpu_is_not_waited_for() -> None:
    assert finite_number(HostTensor("cpu")) == 0.25
    far = HostTensor("cuda")
    with pytest.raises(NotUsable, match="on a GPU"):
        finite_number(far)
    assert not far.read


def test_a_step_that_is_stated_again_or_left_out_is_none_of_the_next_time() -> None:
    intervals = Intervals(10.0)
    made = [intervals.add(Call(at, {}, 5))[0] for at in (1000.0, 1020.0)]
    assert [one.fields().get("start") for one in made] == [None, None]
    rates = [Call(1000.0, {"mfu": 0.4}), Call(1004.0, {"mfu": 0.4}, 7), Call(1012.0, {"mfu": 0.4})]
    (report,) = reports(rates)
    assert report.step == 7
