"""Reads the answers of a server value by value: the hour of each, whose it is, and what of it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TypeVar

from ofu_exporter.fleet.hours import ServerClock
from ofu_exporter.fleet.prometheus import Series
from ofu_exporter.fleet.reports.fleet_history import ClusterHour
from ofu_exporter.fleet.reports.sums import JobKey, JobSums

KeyT = TypeVar("KeyT", bound=tuple[str, ...])
KeyOf = Callable[[Mapping[str, str]], KeyT]
Values = Sequence[float | None]


def sums_of_hour(values: Values) -> JobSums:
    """The sums of an hour, in the order of JOB_HOURS. One that lacks what it is divided by counts for nothing."""
    held, observed, utilized, compared, mfu, compared_utilized = values
    if observed is None or utilized is None:
        observed = utilized = 0.0
    if compared is None or mfu is None or compared_utilized is None:
        compared = mfu = compared_utilized = 0.0
    return JobSums(held or 0.0, observed, utilized, compared, mfu, compared_utilized)


def largest(
    answer: Iterable[Series], key: KeyOf[KeyT], clock: ServerClock
) -> dict[KeyT, dict[int, float]]:
    """One value by key and hour: two replicas of a server tell the same hour twice."""
    hour_of = clock.hour_of
    by_key: dict[KeyT, dict[int, float]] = {}
    for one in answer:
        hours = {hour_of(time): value for time, value in one.points}
        other = by_key.setdefault(key(one.labels), hours)
        if other is not hours:
            for hour, value in hours.items():
                other[hour] = max(value, other.get(hour, value))
    return by_key


def values_of(
    answer: Iterable[Series], key: KeyOf[KeyT], clock: ServerClock
) -> Iterator[tuple[KeyT, int, float]]:
    """The same, value by value."""
    for one, hours in sorted(largest(answer, key, clock).items()):
        for hour, value in sorted(hours.items()):
            yield one, hour, value


def add_up(sums: MutableMapping[str, float], name: str, values: Iterable[float]) -> None:
    """Add values one by one, so that the sum is the same to the last bit however the time is cut."""
    for value in values:
        sums[name] = sums.get(name, 0.0) + value


def without(one: Series, hours: set[ClusterHour], clock: ServerClock) -> Series:
    if not hours:
        return one
    cluster = cluster_of(one.labels)
    points = [point for point in one.points if (cluster, clock.hour_of(point[0])) not in hours]
    return Series(one.labels, points)


def cluster_of(labels: Mapping[str, str]) -> str:
    return labels.get("cluster", "")


def job_of(labels: Mapping[str, str]) -> JobKey:
    return JobKey(cluster_of(labels), labels.get("job_id", ""))


def part_of(labels: Mapping[str, str]) -> tuple[str, str, str]:
    return (*job_of(labels), labels.get("part", ""))


def model_of(labels: Mapping[str, str]) -> tuple[str, str]:
    return (cluster_of(labels), labels.get("model", ""))
