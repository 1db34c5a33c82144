"""Makes series of OFU: one point for each job of the same name, or one for each hour of a job or GPU model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from ofu_exporter.fleet.changes.point import OfuPoint
from ofu_exporter.fleet.changes.survey import OfuSeries
from ofu_exporter.fleet.changes_result import Kind
from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan
from ofu_exporter.fleet.reports import queries
from ofu_exporter.fleet.reports.answers import HistoryAnswers, job_of
from ofu_exporter.fleet.reports.job_rows import unix
from ofu_exporter.fleet.reports.queries import Quantity
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.fleet.series import Series as Answer

SHORTEST_HOURS = 1 / 6
"""Measured time of a job below which it is mostly start-up."""
LABELS = ("cluster", "job_name", "user", "model")


UNNAMED, UNMEASURED, SHORT = LEFT_OUT = (
    "have no name, so that nothing can be compared with them",
    "were not measured",
    "were measured for less than 10 minutes",
)
"""Why jobs are no point of a series."""


def runs(rows: Iterable[JobRow]) -> tuple[list[OfuSeries], Mapping[str, int]]:
    """Series of jobs, and how many jobs are in none for each of LEFT_OUT."""
    points: dict[tuple[str, ...], list[OfuPoint]] = defaultdict(list)
    left_out = dict.fromkeys(LEFT_OUT, 0)
    for row in rows:
        gpus = row.gpus or 1.0
        if not row.job_name:
            left_out[UNNAMED] += 1
        elif row.ofu is None:
            left_out[UNMEASURED] += 1
        elif row.observed_gpu_hours / gpus < SHORTEST_HOURS:
            left_out[SHORT] += 1
        else:
            key = (row.cluster, row.job_name, row.user, row.model or "")
            point = OfuPoint(unix(row.begin), row.ofu, gpus, row.observed_gpu_hours, row.job_id)
            points[key].append(point)
    series = [
        OfuSeries("name", tuple(zip(LABELS, key, strict=True)), tuple(sorted(each, key=_order)))
        for key, each in sorted(points.items())
    ]
    return series, left_out


def _order(point: OfuPoint) -> tuple[float, int, str]:
    """By begin; jobs of the same hour by their ids, of which the shorter number is the earlier."""
    return point.at_unix, len(point.job_id), point.job_id


Key = tuple[str, ...]
Hours = dict[Key, dict[int, float]]
"""A value of every hour, by the labels that tell series apart."""


class HourReader(HistoryAnswers):
    """Reads hourly values of a history: those on record, and those of the agents' own series where there are none."""

    def parts(
        self, quantity: Quantity, recorded: Callable[[TimeSpan], list[Answer]] | None = None
    ) -> Iterator[list[Answer]]:
        """The answers, part by part. `recorded` reads those on record, where they are not looked at once an hour."""

        def hourly(part: TimeSpan) -> list[Answer]:
            return self._reader.client.steps(quantity.recorded, *part, HOUR)

        if self._history.recorded or not self._history.raw:
            yield from self._reader.read(quantity.name, self._history.span, recorded or hourly)
        for cluster, span in self.raw_spans(self._history.raw):
            expressions = [quantity.of_cluster(cluster)]
            for (answer,) in self._reader.stepped(quantity.name, expressions, span):
                yield answer

    def hours(self, quantity: Quantity) -> Hours:
        """All values of a quantity of jobs, those on record as they are there."""

        def fetch(part: TimeSpan) -> list[Answer]:
            return self._reader.client.recorded(quantity.recorded, *part)

        answer = chain.from_iterable(self.parts(quantity, fetch))
        return self.largest(answer, _key_of)


def _key_of(labels: Mapping[str, str]) -> Key:
    """Cluster and id: hours do not tell whose job it was."""
    job = job_of(labels)
    return job.cluster, job.job_id


class JobHours(NamedTuple):
    """GPU-hours of every job in every hour, by cluster and id."""

    observed: Hours
    utilized: Hours


def job_hours(reader: HourReader) -> JobHours:
    wanted = {each.name: each for each in queries.JOB_HOURS}
    return JobHours(*(reader.hours(wanted[name]) for name in JobHours._fields))


def models(hours: JobHours, clock: ServerClock, rows: Iterable[JobRow]) -> list[OfuSeries]:
    """OFU of all jobs on every GPU model. GPUs that no job has are not in it: they show demand, not speed."""
    of_job = {(row.cluster, row.job_id): row.model or "" for row in rows}
    sums = JobHours(defaultdict(dict), defaultdict(dict))
    for key, observed in hours.observed.items():
        place = (key[0], of_job.get((key[0], key[1]), ""))
        for hour in observed.keys() & hours.utilized.get(key, {}).keys():
            for total, values in zip(sums, hours, strict=True):
                total[place][hour] = total[place].get(hour, 0.0) + values[key][hour]
    return list(_series("model", ("cluster", "model"), sums, clock))


def long_jobs(hours: JobHours, clock: ServerClock, rows: Iterable[JobRow]) -> list[OfuSeries]:
    """OFU of every job hour by hour. The first hour of a job is its start-up and left out."""
    row_of = {(row.cluster, row.job_id): row for row in rows}
    return [
        OfuSeries("job", _named(dict(each.labels), row_of), each.points)
        for each in _series("job", ("cluster", "job_id"), hours, clock, first=1)
    ]


def _named(
    labels: Mapping[str, str], row_of: Mapping[tuple[str, str], JobRow]
) -> tuple[tuple[str, str], ...]:
    row = row_of.get((labels["cluster"], labels["job_id"]))
    names = {"job_name": row.job_name, "user": row.user} if row else {}
    return tuple({**labels, **names}.items())


def _series(
    kind: Kind, labels: tuple[str, ...], hours: JobHours, clock: ServerClock, first: int = 0
) -> Iterator[OfuSeries]:
    for key, observed in sorted(hours.observed.items()):
        used = hours.utilized.get(key, {})
        points = tuple(
            OfuPoint(
                at_unix=clock.end_of(hour - 1), value=used[hour] / measured, gpu_hours=measured
            )
            for hour, measured in sorted(observed.items())[first:]
            if measured > 0 and hour in used
        )
        yield OfuSeries(kind, tuple(zip(labels, key, strict=True)), points)
