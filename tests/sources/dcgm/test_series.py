"""When values of profiling fields were measured, by a host engine that is made of the documented rule alone."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from ofu_exporter.sources.dcgm.fields import TENSOR
from ofu_exporter.sources.dcgm.library import GPU, Entity, Sample
from ofu_exporter.sources.dcgm.series import KEPT_TAKES, FieldSeries, Measured, Point, SampleTimes

EPOCH = 1_800_000_000_000_000


class Watch(NamedTuple):
    """A field, how often it is polled, and when it is polled first; microseconds."""

    field: int
    interval: int
    first: int


def polled(watches: list[Watch], seconds: int) -> list[tuple[Sample, Measured]]:
    """Every sample, with the time over which it was measured: a poll takes a new one if the newest is as old as the
    field's interval, and its value is the mean since the newest that is older than that by the interval. Polls follow
    one another, each is up to 0.3 ms late, and the next is due one interval after it."""
    chance = random.Random(len(watches))
    due = {watch: EPOCH + watch.first for watch in watches}
    now, takes, made = 0, [0], []
    while min(due.values()) < EPOCH + seconds * 1_000_000:
        watch = min(due, key=lambda each: due[each])
        now = at = max(now + 15, due[watch] + chance.randrange(300))
        if at - takes[-1] >= watch.interval:
            takes.append(at)
        since = next(each for each in reversed(takes) if each <= takes[-1] - watch.interval)
        made.append((Sample(Entity(GPU, 0), watch.field, 0, at, 0.5), Measured(takes[-1], since)))
        due[watch] = at + watch.interval
    return made


ALONE = [Watch(TENSOR, 500_000, 0), Watch(1014, 1_000_000, 60), Watch(1084, 1_000_000, 75)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "others",
    [
        [],
        [Watch(1001, 100_000, 37_000)],
        [Watch(1005, 250_000, 211_000)],
        [Watch(1001, 30_000_000, 7_000)],
        [Watch(1001, 100_000, 37_000), Watch(1005, 250_000, 211_000), Watch(1002, 10_000, 3)],
        [Watch(1001, 333_000, 490_000)],
    ],
    ids=["alone", "10 Hz", "4 Hz", "each 30 s", "three clients", "3 Hz"],
)
def test_every_value_is_of_the_time_at_which_it_was_measured(others: list[Watch]) -> None:
    watches = [*ALONE, *others]
    truth = {(sample.field, sample.micros): over for sample, over in polled(watches, 600)}
    times = SampleTimes()
    samples = [sample for sample, _ in polled(watches, 600)]
    chance, found = random.Random(2), {}
    while samples:  # read in pieces, field by field
        count = chance.randrange(1, 200)
        piece, samples = samples[:count], samples[count:]
        chance.shuffle(piece)
        for sample, measured in times.in_order(piece):
            found[sample.field, sample.micros] = measured
    assert len(times._takes) <= KEPT_TAKES
    settled = {key: over for key, over in truth.items() if key[1] > EPOCH + 5_000_000}
    begun = {key for key in settled if found[key].since is None}
    assert len(begun) <= len(others), "the interval of a field shows with its second poll"
    assert {key: found[key] for key in settled.keys() - begun} == {
        key: settled[key] for key in settled.keys() - begun
    }


def test_a_client_that_comes_and_goes_decides_only_while_it_is_there() -> None:
    before = polled(ALONE, 20)
    client = [Watch(1001, 100_000, 5_037_000)]
    during = [each for each in polled([*ALONE, *client], 20) if each[0].micros < EPOCH + 12_000_000]
    assert any(over.until != sample.micros for sample, over in during if sample.field == TENSOR)
    assert all(over.until == sample.micros for sample, over in before if sample.field == TENSOR)
    found = list(SampleTimes().in_order([sample for sample, _ in during]))
    assert [(each, over.until) for each, over in found][-100:] == [
        (each, over.until) for each, over in during
    ][-100:]


def test_a_poll_that_is_read_late_bears_the_sample_that_was_the_newest_then() -> None:
    def measured(times: SampleTimes, field: int, *seconds: float) -> list[float]:
        samples = [
            Sample(Entity(GPU, 0), field, 0, EPOCH + round(each * 1e6), 0.5) for each in seconds
        ]
        return [(over.until - EPOCH) / 1e6 for _, over in times.in_order(samples)]

    times = SampleTimes()
    assert measured(times, TENSOR, 1.0, 2.0, 3.0) == [1.0, 2.0, 3.0]
    assert measured(times, 1014, 1.1, 1.5) == [1.0, 1.0]


def test_what_was_measured_before_counts_once_and_a_blank_has_its_stamp() -> None:
    series = FieldSeries()
    for stamp, value in ((EPOCH + 10, 0.5), (EPOCH + 20, 0.7), (EPOCH + 30, None)):
        series.add(Sample(Entity(GPU, 0), TENSOR, 0, stamp, value), Measured(EPOCH + 10))
    assert [point[:2] for point in series.points] == [(EPOCH + 10, 0.5), (EPOCH + 30, None)]


def test_a_blank_that_is_longer_than_a_round_leaves_the_mean_unknown() -> None:
    series = FieldSeries()
    for end, mean in ((970_000, 0.5), (950_000, None)):
        series.points = [Point(0, 0.5), Point(end, 0.5), Point(1_000_000, None)]
        assert series.mean(0, 1_000_000, 2.5e6) == mean
