"""Makes series of OFU: one point for each job of the same name, or one for each hour of a job or GPU model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isnan

from ofu_exporter.fleet.changes.point import OfuPoint
from ofu_exporter.fleet.changes.survey import OfuSeries
from ofu_exporter.fleet.history.answers import HistoryAnswers
from ofu_exporter.fleet.history.fleet_history import ClusterJob, FleetHistory
from ofu_exporter.fleet.history.queries import Quantity
from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan
from ofu_exporter.fleet.reports.job_rows import unix
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

        if self._history.recorded or not self._history.raw:
            yield from self._reader.read(quantity.name, self._history.span, recorded or hourly)
        for cluster, span in self.raw_spans(self._history.raw):
            expressions = [quantity.of_cluster(cluster)]
            for (answer,) in self._reader.stepped(quantity.name, expressions, span):
                yield answer


def models(history: FleetHistory, rows: Iterable[JobRow]) -> list[OfuSeries]:
    """OFU of all jobs on every GPU model. GPUs that no job has are not in it: they show demand, not speed."""
    of_job = {(row.cluster, row.job_id): row.model or "" for row in rows}
    sums: dict[tuple[str, str], dict[int, tuple[float, float]]] = defaultdict(dict)
    for key, measured in sorted(history.measured.items()):
        place = key.cluster, of_job.get((key.cluster, key.job_id), "")
        for hour, observed, utilized in measured.in_order():
            if not isnan(utilized):
                before = sums[place].get(hour, (0.0, 0.0))
                sums[place][hour] = before[0] + observed, before[1] + utilized
    return [
        OfuSeries(
            "model",
            (("cluster", cluster), ("model", model)),
            _points(((hour, *both) for hour, both in sorted(hours.items())), history.clock),
        )
        for (cluster, model), hours in sorted(sums.items())
    ]


def long_jobs(history: FleetHistory, rows: Iterable[JobRow]) -> list[OfuSeries]:
    """OFU of every job hour by hour. The first hour of a job is its start-up and left out."""
    row_of = {(row.cluster, row.job_id): row for row in rows}
    return [
        OfuSeries("job", _labels(key, row_of), _points(measured.in_order()[1:], history.clock))
        for key, measured in sorted(history.measured.items())
    ]


def _labels(
    key: ClusterJob, row_of: Mapping[tuple[str, str], JobRow]
) -> tuple[tuple[str, str], ...]:
    labels = (("cluster", key.cluster), ("job_id", key.job_id))
    row = row_of.get((key.cluster, key.job_id))
    return (*labels, ("job_name", row.job_name), ("user", row.user)) if row else labels


def _points(hours: Iterable[tuple[int, float, float]], clock: ServerClock) -> tuple[OfuPoint, ...]:
    """Those of hours in which something was measured."""
    return tuple(
        OfuPoint(at_unix=clock.end_of(hour - 1), value=utilized / observed, gpu_hours=observed)
        for hour, observed, utilized in hours
        if observed > 0 and not isnan(utilized)
    )
