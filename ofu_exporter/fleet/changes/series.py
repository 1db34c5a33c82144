"""Makes series of OFU: one point for each job of the same name, or one for each hour of a job or GPU model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from math import isnan
from operator import itemgetter

from ofu_exporter.fleet.changes.point import IDLE_OFU, OfuPoint
from ofu_exporter.fleet.changes.survey import OfuSeries
from ofu_exporter.fleet.history.answers import HistoryAnswers, without
from ofu_exporter.fleet.history.fleet_history import ClusterJob, FleetHistory
from ofu_exporter.fleet.history.queries import Quantity
from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan
from ofu_exporter.fleet.reports.job_rows import names_of, unix
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.fleet.series import Series as Answer

SHORTEST_HOURS = 1 / 6
"""Measured time of a job below which it is mostly start-up."""
LABELS = ("cluster", "job_name", "user", "model")
MeasuredHour = tuple[int, float, float]
"""An hour with GPU-hours observed and utilized."""


UNNAMED, UNMEASURED, SHORT = LEFT_OUT = (
    "have no name, so that nothing can be compared with them",
    "were not measured",
    "were measured for less than 10 minutes",
)
"""Why jobs are no point of a series."""


def job_series(rows: Iterable[JobRow]) -> tuple[list[OfuSeries], Mapping[str, int]]:
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


class HourReader(HistoryAnswers):
    """Reads hourly values of a history: those on record, and those of the agents' own series where there are none."""

    def parts(
        self, quantity: Quantity, recorded: Callable[[TimeSpan], list[Answer]] | None = None
    ) -> Iterator[list[Answer]]:
        """The answers, part by part. `recorded` reads those on record, where they are not looked at once an hour."""

        def hourly(part: TimeSpan) -> list[Answer]:
            return self._reader.client.steps(quantity.recorded, *part, HOUR)

        raw, clock = self._history.raw, self._history.clock
        if self._history.recorded or not raw:
            span = self._history.span
            for answer in self._reader.read(quantity.name, span, recorded or hourly):
                kept = (without(one, raw, clock) for one in answer)
                yield [one for one in kept if one.times]
        for cluster, span in self.raw_spans(raw):
            expressions = [quantity.of_cluster(cluster)]
            for (answer,) in self._reader.stepped(quantity.name, expressions, span):
                yield answer


def models(history: FleetHistory, rows: Iterable[JobRow]) -> list[OfuSeries]:
    """OFU of all jobs on every GPU model. GPUs that no job has are not in it: they show demand, not speed."""
    of_jobs = rows_of(history, rows)
    sums: dict[tuple[str, str], dict[int, tuple[float, float]]] = defaultdict(dict)
    for key, hours in _measured(history):
        place = key.cluster, (of_jobs[key].model or "" if key in of_jobs else "")
        for hour, observed, utilized in hours:
            if not isnan(utilized):
                before = sums[place].get(hour, (0.0, 0.0))
                sums[place][hour] = before[0] + observed, before[1] + utilized
    return [
        OfuSeries(
            "model",
            (("cluster", cluster), ("model", model)),
            _points(((hour, *both) for hour, both in sorted(of_place.items())), history.clock),
        )
        for (cluster, model), of_place in sorted(sums.items())
    ]


def long_jobs(history: FleetHistory, rows: Iterable[JobRow]) -> list[OfuSeries]:
    """OFU of every job hour by hour. The first hour of a job is its start-up and left out."""
    of_jobs = rows_of(history, rows)
    return [
        OfuSeries("job", _labels(key, of_jobs.get(key)), _points(hours[1:], history.clock))
        for key, hours in _measured(history)
    ]


def rows_of(history: FleetHistory, rows: Iterable[JobRow]) -> dict[ClusterJob, JobRow]:
    """The row of each job that has one: an id may be of several users, one after the other."""
    by_user = {(row.cluster, row.job_id, row.user): row for row in rows}
    places = {key: (*key[:2], names_of(job)["user"]) for key, job in history.jobs.items()}
    return {key: by_user[place] for key, place in places.items() if place in by_user}


def _measured(history: FleetHistory) -> Iterator[tuple[ClusterJob, list[MeasuredHour]]]:
    """What was measured of each job, in the order of time."""
    for key, measured in sorted(history.measured.items()):
        hours = measured.in_order()
        owned = [(history.owned(key, each[0]), each) for each in hours]
        for owner, its in groupby(owned, itemgetter(0)):
            yield owner, [each for _, each in its]


def _labels(key: ClusterJob, row: JobRow | None) -> tuple[tuple[str, str], ...]:
    labels = (("cluster", key.cluster), ("job_id", key.job_id))
    return (*labels, ("job_name", row.job_name), ("user", row.user)) if row else labels


def _points(hours: Iterable[MeasuredHour], clock: ServerClock) -> tuple[OfuPoint, ...]:
    """Those of hours in which something was measured, without pauses and the hours beside these, which have a part.

    Nothing computed until the end is no pause.
    """
    points = [
        OfuPoint(at_unix=clock.end_of(hour - 1), value=utilized / observed, gpu_hours=observed)
        for hour, observed, utilized in hours
        if observed > 0 and not isnan(utilized)
    ]
    busy = [at for at, point in enumerate(points) if point.value >= IDLE_OFU]
    idle = set(range(busy[-1])).difference(busy) if busy else set[int]()
    paused = {at + beside for at in idle for beside in (-1, 0, 1)}
    return tuple(point for at, point in enumerate(points) if at not in paused)
