"""One trial made into one comparison: the same seconds on both sides, and nothing of the beginning."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.validation import Mark, Tiling, Trial
from ofu_exporter.validation.results import Result, launches_at, result
from ofu_exporter.values.reading import COUNTER_AGE_SECONDS, Reading
from tests.helpers.every import every
from tests.helpers.values import H100_RATING, reading
from tests.validation.simulation import product

EXACT = Tiling(0.25, "exact", 1.0, ("kernel",))
PEAK = H100_RATING.peak_flops["bf16"]


def made(
    marks: list[tuple[float, float]], readings: list[Reading], tiling: Tiling = EXACT
) -> Trial:
    return Trial(product(), tuple(Mark(*mark) for mark in marks), tuple(readings), tiling)


def measured(trial: Trial) -> Result:
    found = result(trial, H100_RATING)
    assert found is not None
    return found


def test_the_formulas() -> None:
    """TPA 0.5 at 1464 MHz of 1830 is an OFU of 0.4, a quarter of which tiles add to what is asked for."""
    launches = 0.32 * PEAK / product().flops  # per second
    windows = [reading(start, start + 1.0, 0.5, (1464e6,) * 4) for start in (1.0, 2.0, 3.0)]
    found = measured(made([(0.0, 0.0), (5.0, 5 * launches)], windows))
    assert found.seconds == pytest.approx(3.0)
    assert found.utilization == pytest.approx(0.4)
    assert found.mfu == pytest.approx(0.32)
    assert found.adjusted == pytest.approx(0.32)
    assert found.counted_overhead == pytest.approx(0.25)
    assert found.tensor_hz == pytest.approx(732e6)
    assert found.stderr == pytest.approx(0.0, abs=1e-3)
    old = [replace(each, edge_seconds=COUNTER_AGE_SECONDS) for each in windows]
    assert measured(made([(0.0, 0.0), (5.0, 5 * launches)], old)).stderr == found.stderr


@every(
    [
        (EXACT, True),
        (Tiling(0.25, "lower", 1.0, ("kernel",)), False),
        (Tiling(0.25, "exact", 0.6, ("kernel", "another")), False),
        (Tiling(None, "exact", 0.0, ("another",)), False),
    ]
)
def test_an_overhead_is_exact_where_names_tell_all_of_it(tiling: Tiling, is_exact: bool) -> None:
    windows = [reading(start, start + 1.0, 0.5, (1464e6,) * 4) for start in (1.0, 2.0, 3.0)]
    assert measured(made([(0.0, 0.0), (5.0, 5.0)], windows, tiling)).is_exact is is_exact


def test_only_whole_windows_of_the_steady_part_count_on_both_sides() -> None:
    """Twice as fast in the second that is left out on either end: it must show on neither side."""
    marks = [(0.0, 0.0), (1.0, 200.0), (2.0, 300.0), (3.0, 400.0), (4.0, 600.0)]
    windows = [reading(at, at + 1.0, active, (1830e6,) * 4) for at, active in ACTIVITY.items()]
    found = measured(made(marks, windows))
    assert found.seconds == pytest.approx(3.0)
    assert found.achieved_flops == pytest.approx(product().flops * 400 / 3)
    assert found.utilization == pytest.approx((0.1 + 0.1 + 0.2) / 3)


ACTIVITY = {-0.5: 0.9, 0.5: 0.9, 1.0: 0.1, 2.0: 0.1, 3.0: 0.2, 3.5: 0.9, 4.0: 0.9}
"""By the start of a window of 1 s; those at 0.5 and 3.5 are not whole."""


def test_windows_with_a_gap_count_for_what_they_cover() -> None:
    marks = [(0.0, 0.0), (2.0, 20.0), (4.0, 60.0), (6.0, 80.0)]
    windows = [reading(at, at + 1.0, 0.5, (1830e6,) * 4) for at in (1.0, 2.5, 4.5)]
    found = measured(made(marks, windows))
    assert found.achieved_flops == pytest.approx(product().flops * (10 + 20 + 10) / 3)


def test_a_run_without_a_whole_window_gives_nothing() -> None:
    trial = made([(0.0, 0.0), (3.0, 10.0)], [reading(0.5, 5.5, 0.5)])
    assert result(trial, H100_RATING) is None


def test_a_peak_that_is_not_known_gives_no_mfu() -> None:
    trial = made([(0.0, 0.0), (9.0, 10.0)], [reading(2.0, 7.0, 0.5)])
    unknown = type(H100_RATING)(H100_RATING.tensor_clock_hz, {}, "estimated")
    found = result(trial, unknown)
    assert found is not None
    assert (found.mfu, found.counted_overhead) == (None, None)
    assert found.utilization > 0


def test_tiles_that_are_not_known_adjust_nothing() -> None:
    trial = made(
        [(0.0, 0.0), (9.0, 10.0)],
        [reading(2.0, 7.0, 0.5)],
        Tiling(None, "exact", 0.0, ("some_kernel",)),
    )
    found = measured(trial)
    assert found.adjusted is None
    assert not found.is_exact


@given(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=20), st.floats(0.0, 1.0))
def test_launches_between_marks_lie_on_the_line(steps: list[float], share: float) -> None:
    """At a steady rate of 3 a second, wherever the marks are."""
    marks = [Mark(0.0, 0.0)]
    for step in steps:
        marks.append(Mark(marks[-1].at + step, 3.0 * (marks[-1].at + step)))
    at = share * marks[-1].at
    assert launches_at(marks, at) == pytest.approx(3.0 * at)
