"""Reads the answers of a server value by value: the hour of each, whose it is, and what of it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import NamedTuple

from ofu_exporter.fleet.hours import ServerClock
from ofu_exporter.fleet.prometheus import Series
from ofu_exporter.fleet.reports.fleet_history import ClusterHour
from ofu_exporter.fleet.reports.sums import JobKey, JobSums

Key = tuple[str, ...]
KeyOf = Callable[[Mapping[str, str]], Key]


class HourValue(NamedTuple):
    """One value of one hour."""

    hour: int
    labels: dict[str, str]
    value: float


def sums_of_hour(values: Mapping[str, float | None]) -> JobSums:
    """The sums of an hour. A numerator without its denominator, or the reverse, counts for nothing."""
    numbers = {name: value for name, value in values.items() if value is not None}
    for together in (("observed", "utilized"), ("compared", "compared_mfu", "compared_utilized")):
        if not numbers.keys() >= set(together):
            for name in together:
                numbers.pop(name, None)
    return JobSums.of(numbers)


def largest(
    answer: Iterable[Series], key: KeyOf, clock: ServerClock
) -> dict[Key, dict[int, float]]:
    """One value by key and hour: two replicas of a server tell the same hour twice."""
    hour_of = clock.hour_of
    by_key: dict[Key, dict[int, float]] = {}
    for one in answer:
        hours = {hour_of(time): value for time, value in one.points}
        other = by_key.setdefault(key(one.labels), hours)
        if other is not hours:
            for hour, value in hours.items():
                other[hour] = max(value, other.get(hour, value))
    return by_key


def values_of(
    answer: Iterable[Series], key: KeyOf, clock: ServerClock
) -> Iterator[tuple[Key, int, float]]:
    """The same, value by value."""
    for labels, hours in sorted(largest(answer, key, clock).items()):
        for hour, value in sorted(hours.items()):
            yield labels, hour, value


def add_up(sums: MutableMapping[str, float], name: str, values: Iterable[float]) -> None:
    """Add values one by one, so that the sum is the same to the last bit however the time is cut."""
    for value in values:
        sums[name] = sums.get(name, 0.0) + value


def without(one: Series, hours: set[ClusterHour], clock: ServerClock) -> Series:
    if not hours:
        return one
    cluster = cluster_of(one.labels)
    kept = [point for point in one.points if (cluster, clock.hour_of(point[0])) not in hours]
    return Series(one.labels, kept)


def cluster_of(labels: Mapping[str, str]) -> str:
    return labels.get("cluster", "")


def job_of(labels: Mapping[str, str]) -> JobKey:
    return JobKey(cluster_of(labels), labels.get("job_id", ""))


def job_key(labels: Mapping[str, str]) -> tuple[str, ...]:
    return (cluster_of(labels), labels.get("job_id", ""))


def part_key(labels: Mapping[str, str]) -> tuple[str, ...]:
    return (*job_key(labels), labels.get("part", ""))


def model_key(labels: Mapping[str, str]) -> tuple[str, ...]:
    return (cluster_of(labels), labels.get("model", ""))
