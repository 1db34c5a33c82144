"""What counters are not believed together or over time, and what is never doubted."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from ofu_exporter.ofu import plausibility
from ofu_exporter.ofu.plausibility import Suspicion
from ofu_exporter.values.reading import Evidence, Reading
from ofu_exporter.values.reasons import Reason, Rejection
from ofu_exporter.values.snapshot import GpuView
from tests.helpers.node import Node
from tests.helpers.values import reading

DAY = 24 * 3600
WINDOW = 5.0
STEADY = 0.8213746
"""A value with more digits than a source that rounds would give."""


def run(readings: Iterable[Reading]) -> list[Rejection]:
    """What was not believed of windows one after another."""
    suspicion, rejected = Suspicion(), []
    for each in readings:
        suspicion, rejection, _ = plausibility.judge(suspicion, each)
        rejected += [rejection] if rejection else []
    return rejected


def windows(
    count: int,
    tensor: Iterable[float],
    evidence: Iterable[Evidence | None] = (),
    hz: float = 1400e6,
) -> Iterable[Reading]:
    values, known = list(tensor), list(evidence)
    for n in range(count):
        each = reading(n * WINDOW, (n + 1) * WINDOW, values[n % len(values)], [hz] * 2)
        yield replace(each, evidence=known[n % len(known)] if known else None)


# --- frozen ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [STEADY, 0.5])
def test_activity_that_stands_still_while_the_engine_stops_and_goes_is_frozen(value: float) -> None:
    works, idles = Evidence(0.99), Evidence(0.0)
    assert run(windows(12, [value], [works])) == []
    rejected = run(windows(24, [value], [*[works] * 6, *[idles] * 6]))
    assert set(rejected) == {Rejection.FROZEN}
    assert len(rejected) == 24 - 12


def test_activity_that_stands_still_while_the_clock_falls_to_idle_is_frozen() -> None:
    busy = windows(12, [STEADY])
    idle = windows(12, [STEADY], hz=345e6)
    shifted = [replace(each, start=each.start + 60, end=each.end + 60) for each in idle]
    assert Rejection.FROZEN in run([*busy, *shifted])


@pytest.mark.parametrize(
    ("engine", "hz", "rejected"),
    [
        (0.951, 1400e6, []),
        (0.949, 1400e6, [Rejection.FROZEN]),
        (1.0, 1051e6, []),
        (1.0, 1049e6, [Rejection.FROZEN]),
    ],
)
def test_the_work_changed_with_five_points_of_the_engine_or_a_quarter_of_the_clock(
    engine: float, hz: float, rejected: list[Rejection]
) -> None:
    """From 1.0 and 1400 MHz."""
    first = windows(12, [STEADY], [Evidence(1.0)])
    last = list(windows(13, [STEADY], [Evidence(engine)], hz))[-1]
    assert run([*first, last]) == rejected


def test_twelve_windows_over_a_minute_are_enough_and_eleven_are_not() -> None:
    def six_seconds(count: int) -> list[Rejection]:
        engines = [Evidence(0.99), Evidence(0.0)]
        return run(
            replace(each, start=1.2 * each.start, end=1.2 * each.end)
            for each in windows(count, [0.5], engines)
        )

    assert six_seconds(11) == []
    assert six_seconds(12) == [Rejection.FROZEN]


@pytest.mark.parametrize("no_clock", [0.0, 808334905e6, math.nan])
def test_a_clock_that_comes_back_is_no_change_of_the_work(no_clock: float) -> None:
    """A load of one round value, as a page rounds it; its clock was unreadable for a minute."""
    away = [replace(each) for each in windows(12, [0.74], hz=no_clock)]
    back = [
        replace(each, start=each.start + 60, end=each.end + 60)
        for each in windows(100, [0.74], hz=1400e6)
    ]
    assert Rejection.FROZEN not in run([*away, *back])


def test_one_value_of_many_digits_for_an_hour_is_frozen() -> None:
    hour = int(3600 / WINDOW)
    assert run(windows(hour, [STEADY])) == []
    assert run(windows(hour + 1, [STEADY])) == [Rejection.FROZEN]


def test_a_counter_that_moves_again_is_believed_again() -> None:
    engines = [Evidence(0.99), Evidence(0.0)]
    frozen = list(windows(20, [0.5], engines))
    after = reading(100.0, 105.0, 0.51)
    assert len(run(frozen)) == len(run([*frozen, after])) > 0


def test_a_split_that_moves_shows_that_the_counters_live() -> None:
    engines = [Evidence(0.99), Evidence(0.0)]
    moving = [
        replace(each, pipes={"hmma": 0.3 + n / 1000})
        for n, each in enumerate(windows(100, [0.5], engines))
    ]
    assert run(moving) == []


# --- no false alarm ----------------------------------------------------------------------------------


def test_an_idle_gpu_is_never_doubted() -> None:
    assert run(windows(int(DAY / WINDOW), [0.0], [Evidence(0.0, 0.0, 0.1)])) == []


@pytest.mark.slow
def test_a_made_up_load_of_one_round_value_is_not_doubted() -> None:
    assert run(windows(int(DAY / WINDOW), [0.74], [Evidence(1.0, 0.2, 0.9)])) == []


@pytest.mark.slow
@pytest.mark.parametrize("digits", [4, 6, 15])
@pytest.mark.parametrize("scatter", [1e-5, 1e-3])
def test_a_steady_load_is_not_doubted_however_its_source_rounds(
    digits: int, scatter: float
) -> None:
    """A day of windows. Rounded to four digits most are the same; the engine is as steady."""
    draw = random.Random(f"{digits} {scatter}")
    count = int(DAY / WINDOW)
    values = [round(draw.gauss(STEADY, scatter * STEADY), digits) for _ in range(count)]
    engines = [Evidence(draw.gauss(0.98, 0.004), 0.2, 0.9) for _ in range(count)]
    assert run(windows(count, values, engines)) == []


def test_how_often_the_clock_was_read_says_nothing_of_the_work() -> None:
    """Also not where it was not read at all."""
    steady = [
        replace(each, clocks=each.clocks[: number % 3])
        for number, each in enumerate(windows(100, [0.74]))
    ]
    assert run(steady) == []


def test_short_windows_with_one_value_are_not_enough() -> None:
    """Twelve windows of a tenth of a second are about one second of the same kernel."""
    engines = [Evidence(0.9), Evidence(0.5)]
    short = [
        replace(each, start=each.start / 50, end=each.end / 50)
        for each in windows(100, [0.5], engines)
    ]
    assert run(short) == []


# --- zero while busy ---------------------------------------------------------------------------------


def test_no_instruction_while_the_gpu_works_is_a_dead_counter() -> None:
    rejected = run(windows(5, [0.0], [Evidence(1.0, 0.0, 0.9)]))
    assert rejected == [Rejection.ZERO_WHILE_BUSY] * 3
    assert len(run(windows(3, [0.0], [Evidence(0.5, 0.0, 0.5)]))) == 1, "half busy is busy"


@pytest.mark.parametrize("alive", [(0.0, Evidence(0.0, 0.0, 0.1)), (0.3, Evidence(1.0, 0.0, 0.9))])
def test_only_three_dead_windows_in_a_row_are_one_too_many(alive: tuple[float, Evidence]) -> None:
    dead = (0.0, Evidence(1.0, 0.0, 0.9))

    def rejected(*seen: tuple[float, Evidence]) -> list[Rejection]:
        values, engines = [value for value, _ in seen], [engine for _, engine in seen]
        return run(windows(len(seen), values, engines))

    assert rejected(dead, dead, alive, dead, dead) == []
    assert rejected(alive, dead, dead, dead) == [Rejection.ZERO_WHILE_BUSY]


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(1.0, 0.3, 0.9),  # FP64 of the CUDA cores: leaves the tensor pipes alone
        Evidence(1.0, 1e-4, 0.9),  # copies
        Evidence(0.2, 0.0, 0.9),
        Evidence(1.0, 0.0, 0.2),  # a kernel that waits
        Evidence(None, 0.0, 0.9),
        Evidence(1.0, None, 0.9),
        Evidence(1.0, 0.0, None),
        None,
    ],
)
def test_zero_is_a_fact_where_other_pipes_worked_or_nothing_else_is_known(
    evidence: Evidence | None,
) -> None:
    assert run(windows(100, [0.0], [evidence])) == []


# --- every counter dead at once ----------------------------------------------------------------------

ZEROS = Evidence(graphics_active=0.0, utilization_ratio=1.0, power_watts=650.0)
"""What a page or NVML shows of a GPU that works while all of its profiling counters are dead."""


@pytest.mark.parametrize(
    "evidence",
    [
        ZEROS,
        ZEROS._replace(other_active=0.0),
        ZEROS._replace(graphics_active=None, other_active=0.0),
        ZEROS._replace(power=0.93),
        ZEROS._replace(power_watts=None, power=0.93),
        ZEROS._replace(power_watts=60.0, power=0.8),  # a card of 75 W
        ZEROS._replace(utilization_ratio=0.6),
    ],
)
def test_zeros_of_every_counter_against_utilization_and_power_are_never_believed(
    evidence: Evidence,
) -> None:
    assert run(windows(5, [0.0], [evidence])) == [Rejection.ZERO_WHILE_BUSY] * 5


@pytest.mark.parametrize(
    "evidence",
    [
        ZEROS._replace(
            graphics_active=None
        ),  # nothing but the tensor pipes: work may leave them alone
        ZEROS._replace(graphics_active=0.99),
        ZEROS._replace(graphics_active=1e-4),
        ZEROS._replace(other_active=1e-4),
        ZEROS._replace(utilization_ratio=None),
        ZEROS._replace(utilization_ratio=0.1),
        ZEROS._replace(power_watts=None),
        ZEROS._replace(power_watts=140.0),  # an idle GPU whose utilization hangs at 100 %
        ZEROS._replace(power=0.15),
    ],
)
def test_zero_is_a_fact_where_utilization_or_power_or_the_engine_says_so_too(
    evidence: Evidence,
) -> None:
    assert run(windows(100, [0.0], [evidence])) == []


def test_a_short_window_at_the_edge_of_some_work_is_not_doubted() -> None:
    """Utilization trails by a second or two: on and off every five seconds, in windows of one second."""
    idle = ZEROS._replace(utilization_ratio=0.0, power_watts=90.0)
    busy = ZEROS._replace(graphics_active=1.0)
    values, known = [0.7] * 5 + [0.0] * 5, [busy] * 5 + [ZEROS] * 2 + [idle] * 3
    seconds = [
        replace(each, start=each.start / WINDOW, end=each.end / WINDOW)
        for each in windows(600, values, known)
    ]
    assert run(seconds) == []


def test_short_windows_of_zeros_are_not_believed_from_the_third_second() -> None:
    seconds = [
        replace(each, start=each.start / WINDOW, end=each.end / WINDOW)
        for each in windows(10, [0.0], [ZEROS])
    ]
    assert run(seconds) == [Rejection.ZERO_WHILE_BUSY] * 8


def test_counters_that_count_again_are_believed_again() -> None:
    dead = list(windows(5, [0.0], [ZEROS]))
    after = replace(reading(25.0, 30.0, 0.4), evidence=ZEROS._replace(graphics_active=1.0))
    assert len(run([*dead, after])) == 5


# --- the clock, and time -----------------------------------------------------------------------------


def test_a_clock_of_zero_all_the_time_is_not_believed() -> None:
    assert run(windows(2, [0.5], hz=0.0)) == [Rejection.CLOCK_ZERO] * 2


def test_one_clock_read_of_zero_is_not_the_clock() -> None:
    mixed = reading(0, 5, 0.5, [0.0, 1400e6])
    assert run([mixed]) == []


def test_time_runs_backwards_when_a_window_ends_before_it_begins_or_before_the_last() -> None:
    assert plausibility.runs_backwards(reading(10, 5), None)
    assert plausibility.runs_backwards(reading(5, 10), 12.0)
    assert plausibility.runs_backwards(reading(5, 10), 10.0 + 1.5e-6)
    assert not plausibility.runs_backwards(reading(5, 10), 10.0 + 0.5e-6), "rounded bounds"
    assert not plausibility.runs_backwards(reading(5, 10), None)


# --- what the tick makes of it -----------------------------------------------------------------------


def view(node: Node) -> GpuView:
    return node.last.gpus[0]


@pytest.mark.parametrize(
    ("bad", "rejection", "detail"),
    [
        (reading(5, 10, 0.5, [0.0] * 4), "clock_zero", "the SM clock reads 0 all the time"),
        (reading(1, 4, 0.5), "time_backwards", "the source's time runs backwards"),
        (reading(9, 8, 0.5), "time_backwards", "the source's time runs backwards"),
    ],
)
def test_what_is_not_believed_is_counted_and_marked_and_not_shown(
    bad: Reading, rejection: str, detail: str
) -> None:
    node = Node(1)
    node.tick(5.0, reading(0, 5))
    used = view(node).utilization_seconds
    node.tick(10.0, bad)
    assert (view(node).reason, view(node).window) == (Reason.IMPLAUSIBLE, None)
    assert view(node).rejected == {rejection: 1}
    assert view(node).utilization_seconds == used
    assert view(node).detail == detail
    node.tick(15.0, reading(10, 15))
    assert view(node).reason is None


def test_dead_counters_say_what_is_wrong_with_them() -> None:
    node = Node(1)
    for each in windows(3, [0.0], [Evidence(1.0, 0.0, 0.9)]):
        node.tick(each.end, each)
    assert view(node).detail == "power and engine show work, but no pipe counted any instruction"


def test_a_frozen_counter_stops_the_totals() -> None:
    node = Node(1)
    for each in windows(24, [0.5], [Evidence(0.99), Evidence(0.0)]):
        node.tick(each.end, each)
    assert view(node).reason is Reason.IMPLAUSIBLE
    assert view(node).observed_seconds == 12 * WINDOW
    assert "exactly 0.5 in 24 windows" in view(node).detail
