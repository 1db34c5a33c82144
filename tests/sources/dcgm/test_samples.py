"""Samples made into windows: each second of a sample counts once, and no second without one."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofu_exporter.sources.dcgm.fields import (
    CYCLES_DMMA,
    CYCLES_ELAPSED,
    CYCLES_TENSOR,
    ENERGY_MILLIJOULES,
    OTHER_PIPES,
    PIPES,
    SM_CLOCK_MHZ,
    TENSOR,
)
from ofu_exporter.sources.dcgm.library import GPU, NO_DATA, Entity, Sample
from ofu_exporter.sources.dcgm.samples import MOST_WAITING, Anchor, DeviceSamples
from ofu_exporter.sources.dcgm.series import MOST_POINTS, Point
from ofu_exporter.values.reading import CycleTotals, Reading
from tests.helpers.values import gpu
from tests.sources.dcgm.test_series import ALONE, Watch, polled

EPOCH_MICROS = 1_800_000_000_000_000
ENTITY = Entity(GPU, 0)


def sample(field: int, second: float, value: float | None) -> Sample:
    code = NO_DATA if value is None else 0
    return Sample(ENTITY, field, code, EPOCH_MICROS + round(second * 1e6), value)


def anchor(second: float) -> Anchor:
    """The clock of readings is 50 s at the epoch of the samples."""
    return Anchor(EPOCH_MICROS + round(second * 1e6), 50.0 + second)


def device(*points: tuple[float, float | None], interval: float = 1.0) -> DeviceSamples:
    made = DeviceSamples(gpu(), interval)
    for second, value in points:
        made.add(sample(TENSOR, second, value))
    return made


def spans(readings: list[Reading]) -> list[tuple[float, float]]:
    return [(round(r.start - 50.0, 6), round(r.end - 50.0, 6)) for r in readings]


values = st.one_of(st.none(), st.floats(0.0, 1.0))
steps = st.floats(0.1, 4.0)


@settings(deadline=None)
@given(st.lists(st.tuples(steps, values, st.booleans()), max_size=60))
def test_each_second_counts_once_however_it_is_read(
    samples: list[tuple[float, float | None, bool]],
) -> None:
    made = DeviceSamples(gpu(), 1.0)
    second, before = 0.0, None
    expected_seconds = expected_busy = 0.0
    found: list[Reading] = []
    for step, value, is_read in samples:
        second = round(second + step, 6)
        made.add(sample(TENSOR, second, value))
        length = round(step, 6)
        if before is not None and value is not None and length <= 2.5:
            expected_seconds += length
            expected_busy += length * value
        before = value
        if is_read:
            found += made.readings(anchor(second))
    found += made.readings(anchor(second))
    assert math.fsum(r.end - r.start for r in found) == pytest.approx(expected_seconds, abs=1e-3)
    busy = math.fsum((r.tensor_active or 0.0) * (r.end - r.start) for r in found)
    assert busy == pytest.approx(expected_busy, abs=1e-3)
    for earlier, later in itertools.pairwise(found):
        assert earlier.end <= later.start
    assert all(r.end - r.start < 60.0 for r in found)


def test_a_hole_is_not_measured() -> None:
    made = device((0, 0.5), (1, 0.5), (2, 0.5), (10, 0.5), (11, 0.5))
    assert spans(made.readings(anchor(11))) == [(0, 2), (10, 11)]


def test_windows_tile_though_the_clocks_drift() -> None:
    made = device((0, 0.5), (1, 0.5))
    (first,) = made.readings(anchor(1))
    made.add(sample(TENSOR, 2, 0.5))
    drifted = Anchor(EPOCH_MICROS + 2_000_000, 52.0 - 0.003)
    (second,) = made.readings(drifted)
    assert second.start == first.end
    made.add(sample(TENSOR, 2.1, 0.5))
    set_back = Anchor(EPOCH_MICROS + 2_100_000, 52.1 - 0.2)
    assert made.readings(set_back) == [], "it would end before it begins"


def test_samples_too_close_for_a_window_wait_for_more() -> None:
    made = device((0, 0.5), (0.05, 0.5))
    assert made.readings(anchor(0.05)) == []
    made.add(sample(TENSOR, 0.1, 0.5))
    assert spans(made.readings(anchor(0.1))) == [(0, 0.1)]


def test_repetitions_and_what_has_no_time_are_no_news() -> None:
    made = DeviceSamples(gpu(), 1.0)
    assert made.add(sample(TENSOR, 1, 0.5))
    assert not made.add(sample(TENSOR, 1, 0.7))
    assert not made.add(Sample(ENTITY, TENSOR, NO_DATA, 0, None))
    assert made.take_disordered() == 0


def test_what_is_out_of_order_is_counted_once() -> None:
    made = device((1, 0.5), (3, 0.5))
    assert not made.add(sample(TENSOR, 2, 0.9))
    assert (made.take_disordered(), made.take_disordered()) == (1, 0)


def watched(late: float, seconds: int = 6, scale: float = 1.0) -> DeviceSamples:
    """A GPU whose other fields are sampled half as often as the tensor counter, and stamped some time after it.

    What is stamped `late` after a second was measured in that second: all fields share the tensor counter's samples.
    """
    made = DeviceSamples(gpu(), 1.0)
    for half in range(2 * seconds + 1):
        made.add(sample(TENSOR, half / 2, (half + 1) // 2 / 10))
    for second in range(seconds + 1):
        for field, value in [
            (PIPES["hmma"], second / 20),
            (OTHER_PIPES[0], 0.0),
            (CYCLES_ELAPSED, 1000.0 * second),
            (CYCLES_TENSOR, sum(100.0 * scale * each for each in range(second + 1))),
            (CYCLES_DMMA, sum(50.0 * each for each in range(second + 1))),
        ]:
            if second + late <= seconds:
                made.add(sample(field, second + late, value))
    return made


@pytest.mark.parametrize("late", [0.0, 0.003, 0.206, 0.49])
def test_every_field_keeps_its_own_phase(late: float) -> None:
    """Once another client watched some of the fields, their stamps are anywhere in the second, for good."""
    made = watched(late)
    last = 6 if late == 0 else 5
    (reading,) = made.readings(anchor(6))
    assert spans([reading]) == [(0, last)]
    assert [p.pipes["hmma"] for p in reading.samples] == pytest.approx(
        [p.tensor_active / 2 for p in reading.samples], abs=1e-9
    )
    assert reading.cycles == CycleTotals(1000.0 * last, sum(100.0 * n for n in range(last + 1)))
    assert made.missing == frozenset()


@pytest.mark.parametrize("late", [0.0, 0.206, 0.49])
def test_fp64_cycles_are_a_pipe_where_the_host_engine_counts_them(late: float) -> None:
    (reading,) = watched(late).readings(anchor(6))
    assert [p.pipes["dmma"] for p in reading.samples] == pytest.approx(
        [p.tensor_active / 2 for p in reading.samples]
    )


def test_fp64_cycles_on_another_scale_than_the_measured_activity_are_no_pipe() -> None:
    made = watched(0.0, scale=1 / 132)
    (reading,) = made.readings(anchor(6))
    assert "dmma" not in reading.pipes
    assert "hmma" in reading.pipes


@pytest.mark.parametrize("late", [0.0, 0.0004, 0.0012])
def test_fp64_cycles_are_a_share_of_the_cycles_of_the_same_sample(late: float) -> None:
    """Another client has samples taken ten times a second, and one falls between the polls of two totals.

    The clock is 1 GHz, then 2 GHz; a quarter of all cycles is of the FP64 tensor pipe.
    """
    made = DeviceSamples(gpu(), 1.0)
    takes = [0.1 * n + late for n in range(1, 101)]

    def cycles(second: float) -> float:
        return 1e9 * second + (1e9 * (second - 5) if second > 5 else 0.0)

    for take in takes:
        made.add(sample(1001, take, 0.5))
    for field, phase, every, share in [
        (TENSOR, 0.1, 0.5, 0.0),
        (CYCLES_ELAPSED, 0.1003, 1.0, 1.0),
        (CYCLES_TENSOR, 0.1006, 1.0, 0.5),
        (CYCLES_DMMA, 0.1009, 1.0, 0.25),
    ]:
        for number in range(int(9.5 / every)):
            stamp = phase + 0.1 + number * every
            taken = max(take for take in takes if take <= stamp + 1e-9 or take == takes[0])
            made.add(sample(field, stamp, share * cycles(taken) if share else 0.5))
    shares = [
        p.pipes["dmma"] for r in made.readings(anchor(10)) for p in r.samples if "dmma" in p.pipes
    ]
    assert shares == pytest.approx([0.25] * len(shares), abs=1e-9)
    assert bool(shares) == (late != 0.0004), "totals of two samples make no share"


def test_windows_tile_whatever_the_phases() -> None:
    made = DeviceSamples(gpu(), 1.0)
    found: list[Reading] = []
    for half in range(60):
        made.add(sample(TENSOR, half / 2, 0.5))
        if half % 2 == 0:
            made.add(sample(PIPES["hmma"], half / 2 + 0.4, 0.25))
        if half % 7 == 6:
            found += made.readings(anchor(half / 2 + 0.45))
    assert all(a.end == b.start for a, b in itertools.pairwise(found))
    assert all(reading.pipes == {"hmma": pytest.approx(0.25)} for reading in found)


def test_a_field_that_brings_nothing_any_more_is_missed_and_not_waited_for() -> None:
    made = watched(0.0)
    made.readings(anchor(6))
    for half in range(13, 23):
        made.add(sample(TENSOR, half / 2, 0.5))
    (reading,) = made.readings(anchor(11))
    assert spans([reading]) == [(6, 11)]
    assert reading.pipes == {}
    assert made.missing == {PIPES["hmma"], OTHER_PIPES[0]}


def test_the_clock_is_given_up_to_the_edges_of_the_window() -> None:
    made = device((0, 0.5), (1, 0.5), (2, 0.5))
    for read in range(20):
        made.add(sample(SM_CLOCK_MHZ, -0.5 + 0.17 * read, 1000 + read))
    (reading,) = made.readings(anchor(2.8))
    at = [clock.at - 50.0 for clock in reading.clocks]
    assert min(at) < 0 < min(at) + 0.34
    assert max(at) > 2


def test_a_client_that_watches_faster_decides_when_samples_are_taken() -> None:
    """It polls a pipe every tenth of a second: values of the tensor counter are as old as its last poll."""
    made = DeviceSamples(gpu(), 1.0)
    for half in range(9):
        made.add(sample(TENSOR, half / 2 + 0.07, 0.5))
    for tenth in range(42):
        made.add(sample(PIPES["hmma"], tenth / 10 + 0.03, tenth / 100))
    (reading,) = made.readings(anchor(4.2))
    assert spans([reading]) == [(0.07, 4.03)], "the polls of the pipe before show nothing"
    assert [round(part.end - 50.0, 6) for part in reading.samples[1:]] == [
        1.03, 1.53, 2.03, 2.53, 3.03, 3.53, 4.03
    ]  # fmt: skip
    assert reading.samples[-1].pipes == {
        "hmma": pytest.approx((0.36 + 0.37 + 0.38 + 0.39 + 0.4) / 5)
    }


def test_samples_that_overlap_or_leave_a_gap_widen_the_error_of_their_window() -> None:
    """As seen of a real host engine: polls drift apart, and now and then one finds a sample too few."""
    rounds = polled([*ALONE, Watch(1001, 100_000, 37_000)], 300)
    made, found, apart, before = DeviceSamples(gpu(), 1.0), list[Reading](), list[float](), None
    for number, (each, over) in enumerate(rounds):
        made.add(each)
        if each.field == TENSOR:
            if before is not None and over.since != before:
                apart.append((over.until - EPOCH_MICROS) / 1e6)
            before = over.until
        if number % 80 == 79:
            found += made.readings(anchor((each.micros - EPOCH_MICROS) / 1e6))
    assert len(apart) > 3
    for at in apart[1:]:
        (reading,) = (each for each in found if each.start < 50 + at <= each.end + 1e-4)
        assert 0.06 < reading.cut_seconds < 0.2
    assert found[1].cut_seconds == 0.0


def test_what_was_apart_before_a_window_is_none_of_its_error() -> None:
    made = device((0, 0.5), (1, 0.5))
    made.readings(anchor(1))
    first, last = (Point(EPOCH_MICROS + second * 1_000_000, 0.5) for second in (0, 1))
    assert made._cut([first._replace(apart=900_000), last]) == 0.0
    assert made._cut([first, last._replace(apart=900_000)]) > 0.6e6


def test_energy_of_a_hole_is_no_windows() -> None:
    made = DeviceSamples(gpu(), 1.0)
    for second in (0, 1, 2, 10, 11):
        made.add(sample(TENSOR, second, 0.5))
        made.add(sample(ENERGY_MILLIJOULES, second, 100_000 * second))
    joules = [each.activity.energy_joules for each in made.readings(anchor(11))]
    assert joules == [pytest.approx(200.0), pytest.approx(100.0)]


def test_a_pipe_with_a_hole_in_the_window_is_absent_from_it() -> None:
    made = device(*((second, 0.5) for second in range(6)))
    for second in (0, 1, 5):
        made.add(sample(PIPES["hmma"], second, 0.25))
    (reading,) = made.readings(anchor(5))
    assert reading.pipes == {}


@pytest.mark.parametrize("blank", [1, 2])
def test_a_pipe_that_was_blank_in_the_window_is_absent_from_it(blank: int) -> None:
    made = device((0, 0.5), (1, 0.5), (2, 0.5))
    for second in (0, 1, 2):
        made.add(sample(PIPES["hmma"], second, None if second == blank else 0.25))
    (reading,) = made.readings(anchor(2))
    assert reading.pipes == {}


def test_cycles_that_are_blank_at_the_end_of_the_window_are_none() -> None:
    made = device((0, 0.5), (1, 0.5))
    for second, total in ((0, 0.0), (1, None)):
        made.add(sample(CYCLES_ELAPSED, second, 100.0 * second))
        made.add(sample(CYCLES_TENSOR, second, total))
    (reading,) = made.readings(anchor(1))
    assert reading.cycles is None


def test_the_first_window_begins_when_every_field_has_a_value() -> None:
    made = device((0, 0.5), (0.5, 0.5), (1, 0.5), (1.5, 0.5), (2, 0.5))
    for second, value in ((0, None), (1, 0.25), (2, 0.25)):
        made.add(sample(PIPES["hmma"], second, value))
    (reading,) = made.readings(anchor(2))
    assert spans([reading]) == [(1, 2)]
    assert reading.pipes == {"hmma": pytest.approx(0.25)}


def test_nothing_is_used_of_what_was_forgotten() -> None:
    made = device((0, 0.5), (1, 0.5))
    made.forget()
    made.add(sample(TENSOR, 2, 0.5))
    assert made.readings(anchor(2)) == []


def test_memory_is_bounded_where_no_window_can_be_made() -> None:
    made = DeviceSamples(gpu(), 1.0)
    for second in range(MOST_WAITING + 50):
        made.add(sample(SM_CLOCK_MHZ, second, 1000))
    assert len(made._waiting) == MOST_WAITING
    assert made.readings(anchor(MOST_WAITING + 50.0)) == []
    assert len(made._series[SM_CLOCK_MHZ].points) == MOST_POINTS


others = st.tuples(
    st.sampled_from([*PIPES.values(), *OTHER_PIPES, CYCLES_ELAPSED, CYCLES_TENSOR, CYCLES_DMMA]),
    st.floats(0.0, 1.0),
    st.sampled_from([0.1, 0.3, 1.0, 7.0]),
    st.one_of(st.none(), st.floats(5.0, 40.0)),
    st.booleans(),
)
"""A field, its phase, its interval, when it ends if it does, and whether it has blanks."""


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(others, max_size=6, unique_by=lambda other: other[0]), st.randoms())
def test_whatever_other_fields_do_the_tensor_counters_time_counts_once(
    fields: list[tuple[int, float, float, float | None, bool]], chance: random.Random
) -> None:
    stamped: list[tuple[float, int, float | None]] = [(n / 2, TENSOR, 0.25) for n in range(121)]
    for field, phase, interval, end, has_blanks in fields:
        for number in range(math.floor((end or 60.0) / interval)):
            value = None if has_blanks and chance.random() < 0.2 else 0.1 * number
            stamped.append((phase + number * interval, field, value))
    made, found = DeviceSamples(gpu(), 1.0), []
    read_at = 5.0
    for second, field, value in sorted(stamped, key=lambda each: each[:2]):
        while second > read_at:
            found += made.readings(anchor(read_at))
            read_at += chance.uniform(0.3, 7.0)
        made.add(sample(field, second, value))
    found += made.readings(anchor(61.0))
    assert all(before.end == after.start for before, after in itertools.pairwise(found))
    assert all(r.tensor_active == pytest.approx(0.25) for r in found)
    for reading in found:
        assert reading.samples[0].start == reading.start
        assert reading.samples[-1].end == reading.end
        assert all(a.end == b.start for a, b in itertools.pairwise(reading.samples))
    # A field is waited for as long as it may still come: two and a half intervals, and a sample that is cut.
    assert found[-1].end >= 50.0 + 60.0 - 4.0 - 7.0
    assert found[0].start <= 50.0 + 8.0
