"""Makes series of jobs: one point for each job of the same name, user and GPU model, in the order of their begin."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ofu_exporter.fleet.changes.point import OfuPoint
from ofu_exporter.fleet.changes.survey import OfuSeries
from ofu_exporter.fleet.reports.result import JobRow

SHORTEST_HOURS = 1 / 6
"""Measured time of a job below which it is mostly start-up."""
LABELS = ("cluster", "job_name", "user", "model")


class LeftOut(NamedTuple):
    """Jobs that are no point of a series, by reason."""

    unnamed: int = 0
    unmeasured: int = 0
    short: int = 0


def runs(rows: Iterable[JobRow]) -> tuple[list[OfuSeries], LeftOut]:
    """Series of jobs, and how many jobs are in none."""
    points: dict[tuple[str, ...], list[OfuPoint]] = defaultdict(list)
    unnamed = unmeasured = short = 0
    for row in rows:
        gpus = row.gpus or 1.0
        if not row.job_name:
            unnamed += 1
        elif row.ofu is None:
            unmeasured += 1
        elif row.observed_gpu_hours / gpus < SHORTEST_HOURS:
            short += 1
        else:
            key = (row.cluster, row.job_name, row.user, row.model or "")
            begin = datetime.datetime.fromisoformat(row.begin.replace("Z", "+00:00")).timestamp()
            points[key].append(OfuPoint(begin, row.ofu, gpus, row.observed_gpu_hours, row.job_id))
    series = [
        OfuSeries("name", tuple(zip(LABELS, key, strict=True)), tuple(sorted(each, key=_order)))
        for key, each in sorted(points.items())
    ]
    return series, LeftOut(unnamed, unmeasured, short)


def _order(point: OfuPoint) -> tuple[float, int, str]:
    """By begin; jobs of the same hour by their ids, of which the shorter number is the earlier."""
    return point.at_unix, len(point.job_id), point.job_id
