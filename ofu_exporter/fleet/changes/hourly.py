"""Reads OFU hour by hour: of GPU models, and of jobs that last long enough to change by themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from ofu_exporter.fleet.changes.point import Point
from ofu_exporter.fleet.changes.survey import FEWEST_POINTS, Series
from ofu_exporter.fleet.hours import HOUR, Span, runs
from ofu_exporter.fleet.parts import PartReader
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.prometheus import Series as Answer
from ofu_exporter.fleet.reports import queries
from ofu_exporter.fleet.reports.history import FleetHistory
from ofu_exporter.fleet.reports.queries import Quantity
from ofu_exporter.fleet.reports.result import JobRow

Key = tuple[str, ...]
Hours = dict[Key, dict[int, float]]
"""A value of every hour, by the labels that tell series apart."""


class HourReader:
    """Reads hourly values of a history: those on record, and those of the agents' own series where there are none."""

    def __init__(self, client: PrometheusClient, reader: PartReader, history: FleetHistory) -> None:
        self._client = client
        self._reader = reader
        self._history = history

    def parts(
        self,
        what: str,
        recorded: Callable[[Span], list[Answer]],
        raw: Callable[[str], str],
    ) -> Iterator[list[Answer]]:
        """The answers, part by part. `raw` makes an expression for a cluster."""
        if self._history.recorded or not self._history.raw:
            for _, answer in self._reader.read(what, self._history.span, recorded):
                yield answer
        clock = self._history.clock
        for cluster in sorted({cluster for cluster, _ in self._history.raw}):
            asked = raw(cluster)
            hours = [hour for name, hour in self._history.raw if name == cluster]
            for first, last in runs(hours):
                span = clock.span(first, last)
                for _, answer in self._reader.read(
                    what, span, lambda part, asked=asked: self._client.steps(asked, *part, HOUR)
                ):
                    yield answer

    def hours(self, quantity: Quantity, labels: tuple[str, ...]) -> Hours:
        """All values of a quantity. Two replicas of a server tell the same hour twice: the larger counts."""
        found: Hours = defaultdict(dict)
        for answer in self.parts(
            quantity.name,
            lambda part: self._client.recorded(quantity.recorded, *part),
            quantity.of_cluster,
        ):
            for one in answer:
                hours = found[tuple(one.labels.get(label, "") for label in labels)]
                for time, value in one.points:
                    hour = self._history.clock.hour_of(time)
                    hours[hour] = max(value, hours.get(hour, value))
        return found


def models(reader: HourReader, history: FleetHistory) -> list[Series]:
    """OFU of every GPU model, over all its measured GPUs."""
    labels = ("cluster", "model")
    observed, utilized = (reader.hours(each, labels) for each in queries.MODEL_HOURS)
    return list(_series("model", labels, observed, utilized, history))


def long_jobs(reader: HourReader, history: FleetHistory, rows: Iterable[JobRow]) -> list[Series]:
    """OFU of every job hour by hour. The first hour of a job is its start-up and left out."""
    labels = ("cluster", "job_id")
    known = {(row.cluster, row.job_id): row for row in rows}
    wanted = {each.name: each for each in queries.JOB_HOURS}
    observed = reader.hours(wanted["observed"], labels)
    later = {
        key: {hour: hours[hour] for hour in sorted(hours)[1:]}
        for key, hours in observed.items()
        if len(hours) > FEWEST_POINTS
    }
    utilized = reader.hours(wanted["utilized"], labels) if later else {}
    return [
        Series("job", _named(dict(each.labels), known), each.points)
        for each in _series("job", labels, later, utilized, history)
    ]


def _named(
    labels: Mapping[str, str], known: Mapping[tuple[str, str], JobRow]
) -> tuple[tuple[str, str], ...]:
    row = known.get((labels["cluster"], labels["job_id"]))
    names = {"job_name": row.job_name, "user": row.user} if row else {}
    return tuple({**labels, **names}.items())


def _series(
    kind: str, labels: tuple[str, ...], observed: Hours, utilized: Hours, history: FleetHistory
) -> Iterator[Series]:
    for key in sorted(observed):
        used = utilized.get(key, {})
        points = tuple(
            Point(
                at_unix=history.clock.end_of(hour - 1),
                value=used[hour] / measured,
                gpu_hours=measured,
            )
            for hour, measured in sorted(observed[key].items())
            if measured > 0 and hour in used
        )
        yield Series(kind, tuple(zip(labels, key, strict=True)), points)
