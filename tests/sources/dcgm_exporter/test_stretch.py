"""Which time each value of a page stands for, against collections whose times are known here and not on the page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofu_exporter.sources.dcgm_exporter.page import PageRow
from ofu_exporter.sources.dcgm_exporter.stretch import Stretch
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Reading

GPU = Gpu(index="0", uuid="GPU-a")


def row(tensor: float) -> PageRow:
    return PageRow(GPU, {"tensor_active": tensor, "clock_hz": 1.4e9})


class Exporter:
    """Collects at `first`, and then every `collect` seconds; value k is the mean over the collection that k ends."""

    def __init__(self, values: Sequence[float], collect: float, first: float = 0.0) -> None:
        self.values = values
        self.collect = collect
        self.first = first

    def shown(self, at: float) -> float:
        return self.values[int((at - self.first) / self.collect)]

    def integral(self, start: float, end: float) -> float:
        """Of the activity, by the second."""
        total = 0.0
        for k, value in enumerate(self.values):
            ends = self.first + k * self.collect
            total += value * max(0.0, min(end, ends) - max(start, ends - self.collect))
        return total


def counted(exporter: Exporter, pages: Iterable[float]) -> list[Reading]:
    """The windows that pages at these times make known."""
    times = iter(pages)
    begin = next(times)
    stretch = Stretch(exporter.collect, row(exporter.shown(begin)), end=begin, shown_at=begin)
    return [each for at in times for each in stretch.take(row(exporter.shown(at)), at)]


def spans(windows: Iterable[Reading]) -> list[tuple[float | None, float, float]]:
    return [(each.tensor_active, round(each.start, 6), round(each.end, 6)) for each in windows]


def every(seconds: float, start: float, end: float) -> list[float]:
    return [start + k * seconds for k in range(int((end - start) / seconds) + 1)]


def test_a_new_value_stands_for_the_collection_that_it_ended() -> None:
    exporter = Exporter([0.1, 0.2, 0.3, 0.4], 10.0)
    windows = counted(exporter, every(1.0, 3.5, 38.5))
    assert spans(windows) == [(0.2, 3.5, 10.0), (0.3, 10.0, 20.0), (0.4, 20.0, 30.0)]


def test_time_that_a_value_stayed_is_its_own_not_the_next_ones() -> None:
    exporter = Exporter([0.1, 0.2, 0.2, 0.2, 0.9], 10.0)
    windows = counted(exporter, every(1.0, 1.5, 41.5))
    assert spans(windows) == [
        (0.2, 1.5, 10.0),
        (0.2, 10.0, 20.0),
        (0.2, 20.0, 30.0),
        (0.9, 30.0, 40.0),
    ]


def test_a_value_that_stayed_is_counted_before_the_new_one() -> None:
    """The collection at 20 brought nothing new, and the one at 30 came before that was sure."""
    exporter = Exporter([0.1, 0.2, 0.2, 0.9], 10.0)
    windows = counted(exporter, [5.0, 9.0, 11.0, 19.0, 23.0, 29.0, 31.0])
    assert spans(windows) == [(0.2, 5.0, 10.0), (0.2, 10.0, 20.0), (0.9, 20.0, 30.0)]


def test_lateness_of_the_pages_does_not_move_a_window() -> None:
    exporter = Exporter([0.1, 0.2, 0.3, 0.4, 0.5], 10.0)
    late = [9.5, 10.0, 19.0, 20.004, 29.999, 30.003, 39.0, 40.009]
    windows = counted(exporter, late)
    assert [each.end for each in windows[1:]] == pytest.approx([20.0, 30.0, 40.0], abs=0.3)


def test_pages_out_of_step_with_the_collections_show_more_and_more_closely_when_these_end() -> None:
    exporter = Exporter([k / 100 for k in range(60)], 10.0)
    windows = counted(exporter, every(2.3, 3.0, 590.0))
    off = [abs(each.end - round(each.end, -1)) for each in windows]
    assert off[0] > 0.5
    assert max(off[20:]) < 0.1


def test_a_collection_later_than_the_pace_is_one_collection() -> None:
    stretch = Stretch(10.0, row(0.1), end=0.0, shown_at=0.0, unsure=0.1)
    for at in range(1, 14):
        assert list(stretch.take(row(0.1), float(at))) == []
    assert spans(stretch.take(row(0.2), 14.0)) == [(0.2, 0.0, 13.0)]


def test_collections_that_nobody_saw_are_not_counted() -> None:
    exporter = Exporter([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 10.0)
    windows = counted(exporter, [1.0, 9.0, 11.0, 12.0, 52.0])
    assert spans(windows) == [(0.2, 1.0, 10.0), (0.6, 40.0, 50.0)]


def test_a_value_that_is_the_same_after_nobody_saw_it_is_counted_for_one_collection() -> None:
    (window,) = counted(Exporter([0.1] * 6, 10.0), [1.0, 6.0, 52.0])
    assert window.end - window.start == pytest.approx(10.0)
    assert 42.0 <= window.end <= 52.0


def test_when_nobody_saw_the_collections_the_next_new_value_still_stands_for_one() -> None:
    """A value that is the same after a pause does not tell when it was collected."""
    exporter = Exporter([0.1] * 6 + [0.9, 0.9], 10.0)
    last = counted(exporter, [1.0, 6.0, 52.0, *every(1.0, 53.5, 63.5)])[-1]
    assert last.tensor_active == 0.9
    assert last.end - last.start == pytest.approx(10.0)


def test_a_value_after_a_page_that_failed_is_not_the_old_ones() -> None:
    """What stood on the page that failed may have been another value."""
    stretch = Stretch(1.0, row(0.1), end=0.0, shown_at=0.0, unsure=0.1)
    assert list(stretch.take(row(0.1), 0.5)) == []
    stretch.has_hole = True
    (window,) = stretch.take(row(0.9), 2.1)
    assert window.start == pytest.approx(1.0)
    assert window.end == pytest.approx(2.0)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    values=st.lists(st.sampled_from([0.0, 0.2, 0.7]), min_size=3, max_size=30),
    collect=st.floats(1.0, 30.0),
    phase=st.floats(0.0, 0.999),
    gaps=st.lists(st.floats(0.1, 0.5), min_size=1, max_size=7),
)
def test_every_second_is_counted_once_with_its_own_value(
    values: list[float], collect: float, phase: float, gaps: list[float]
) -> None:
    exporter = Exporter(values, collect, first=0.0)
    begin, end = phase * collect, (len(values) - 0.01) * collect
    times = itertools.accumulate(itertools.cycle(gaps), lambda at, gap: at + gap * collect)
    pages = [begin, *itertools.takewhile(lambda at: at < end, (begin + at for at in times))]
    windows = counted(exporter, pages)
    if not windows:
        assert pages[-1] - begin < 1.5 * collect
        return
    assert windows[0].start == begin
    assert all(a.end == b.start for a, b in itertools.pairwise(windows))
    assert windows[-1].end <= pages[-1] < windows[-1].end + 1.5 * collect + 1e-9
    assert all(0.1 - 1e-9 <= each.end - each.start <= 2 * collect for each in windows)
    used = math.fsum((each.tensor_active or 0.0) * (each.end - each.start) for each in windows)
    changes = math.fsum(abs(a - b) for a, b in itertools.pairwise(values))
    unsure = max(gaps) * collect * changes + 0.7 * collect
    assert used == pytest.approx(exporter.integral(begin, windows[-1].end), abs=unsure)


@settings(max_examples=200, deadline=None)
@given(
    waits=st.lists(st.tuples(st.floats(0.01, 100.0), st.sampled_from([0.1, 0.2, math.nan]))),
    collect=st.floats(0.1, 30.0),
)
def test_whatever_a_page_shows_windows_follow_one_another(
    waits: list[tuple[float, float]], collect: float
) -> None:
    stretch, now, end = Stretch(collect, row(0.1), end=0.0, shown_at=0.0), 0.0, 0.0
    for wait, tensor in waits:
        now += wait
        for each in stretch.take(row(tensor), now):
            assert end <= each.start < each.end <= now
            assert 0.1 - 1e-6 <= each.end - each.start <= 60.0
            end = each.end


def test_changes_are_early_in_a_row_until_a_value_stays() -> None:
    stretch = Stretch(10.0, row(0.1), end=0.0, shown_at=0.0)
    for number, at in enumerate((3.0, 6.0, 9.0), 2):
        list(stretch.take(row(number / 10), at))
    assert stretch.early_changes == 3
    for at in (12.0, 18.0, 24.0, 30.0):
        list(stretch.take(row(0.4), at))
    assert stretch.early_changes == 0
