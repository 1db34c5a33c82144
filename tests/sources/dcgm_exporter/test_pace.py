"""When a page is read, and which of its collections went unseen."""

from __future__ import annotations

import itertools

import pytest

from ofu_exporter.sources.dcgm_exporter.pace import PagePace


def asked(pace: PagePace, window: float, step: float, seconds: float) -> list[float]:
    """When the page is read by a lane that polls every `step` and reads every `window`."""
    times = []
    for number in range(round(seconds / step)):
        now = number * step + 0.0004 * (number % 3)  # a thread wakes up a little late
        if number % round(window / step) == 0:
            pace.begin_window(now)
            times.append(now)
        elif pace.is_due(now):
            times.append(now)
    return times


@pytest.mark.parametrize(
    ("collect", "window", "longest"),
    [(1.0, 5.0, 0.5), (5.0, 5.0, 2.5), (30.0, 5.0, 2.5), (30.0, 30.0, 15.0), (5.0, 1.0, 0.5)],
)
def test_a_page_is_read_twice_in_the_shorter_of_a_collection_and_a_window(
    collect: float, window: float, longest: float
) -> None:
    times = asked(PagePace(collect), window, 0.5, 300.0)
    gaps = [after - before for before, after in itertools.pairwise(times) if before > 2 * window]
    assert max(gaps) <= longest + 0.01
    assert len(gaps) <= 300.0 / (longest / 2)


def test_a_page_that_is_read_often_enough_misses_nothing() -> None:
    pace = PagePace(1.0)
    assert sum(pace.take_unseen(number * 0.5) for number in range(100)) == 0
    assert not pace.is_too_slow


@pytest.mark.parametrize(("gap", "unseen"), [(5.0, 400), (1.2, 20), (1.5, 50)])
def test_collections_between_two_pages_are_counted_and_the_settings_blamed(
    gap: float, unseen: int
) -> None:
    pace = PagePace(1.0)
    found = sum(pace.take_unseen(number * gap) for number in range(101))
    assert found == pytest.approx(unseen, abs=1)
    assert pace.is_too_slow


def test_pages_that_failed_are_counted_and_the_settings_not_blamed() -> None:
    pace = PagePace(1.0)
    found = 0
    for number in range(20):
        found += pace.take_unseen(number * 5.0)
        pace.note_failure()
    assert found == 19 * 4
    assert not pace.is_too_slow


def test_one_pause_of_the_whole_process_is_not_how_things_are_set() -> None:
    pace = PagePace(1.0)
    times = [0.0, 0.5, 20.5, 21.0, 21.5]
    assert [pace.take_unseen(at) for at in times] == [0, 0, 19, 0, 0]
    assert not pace.is_too_slow
