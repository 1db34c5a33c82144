"""Writes what the recording rules would have kept of a simulated fleet, as OpenMetrics files of some hours each."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.fleet.simulation.spec import MINUTE
from tests.simulated_history import rules
from tests.simulated_history.fleet import Level, RecordedFleet
from tests.simulated_history.gpu_columns import gpu_series
from tests.simulated_history.job_columns import JobColumns
from tests.simulated_history.observed import ObservedJob
from tests.simulated_history.raw_pages import raw_lines
from tests.simulated_history.series import RecordedSeries

END = "# EOF\n"


class Written(NamedTuple):
    """One file that was written."""

    path: Path
    samples: int


def recorded(fleet: RecordedFleet, begin_unix: float) -> list[RecordedSeries]:
    """Every series of the levels that the specification wants, sorted by name."""
    levels = frozenset(fleet.spec.history.levels)
    jobs = [ObservedJob(truth, fleet) for truth in fleet.jobs]
    series = [one for job in jobs for one in JobColumns(job, fleet, begin_unix).series()]
    series += gpu_series(fleet, jobs)
    series += rules.recorded(series, fleet.spec.length)
    wanted = [one for one in series if level_of(one.name) in levels]
    return sorted(wanted, key=lambda one: one.name)


def level_of(name: str) -> Level:
    """The level of the specification that a series belongs to."""
    level = name.partition(":")[0]
    if name.endswith((":increase1h", "ratio_increase1h", "topk1_1h", ":avg1h", ":max1h")):
        return "hour"
    if level in ("user", "account", "partition", "namespace"):
        return "owner"
    if level == "fleet":
        return "cluster"
    return level  # type: ignore[return-value]


def write(fleet: RecordedFleet, begin_unix: float, folder: Path) -> Iterator[Written]:
    """Write the history, file by file."""
    series = recorded(fleet, begin_unix)
    step = fleet.spec.history.segment
    end = fleet.spec.length + 1
    start = int(begin_unix // MINUTE)
    first = start
    while first < start + end:
        until = min((first // step + 1) * step, start + end)
        minutes = (first - start, until - start)
        raw = raw_lines(fleet, begin_unix, minutes)
        utc = datetime.datetime.fromtimestamp(first * MINUTE, datetime.timezone.utc)
        name = utc.strftime("%Y-%m-%dT%H%MZ")
        yield _file(folder / f"recorded-{name}.om", lines(series, minutes, begin_unix))
        if raw is not None:
            yield _file(folder / f"raw-{name}.om", raw)
        first = until


def _file(path: Path, lines: Iterable[tuple[str, int]]) -> Written:
    samples = 0
    with path.open("w") as file:
        for text, count in lines:
            file.write(text)
            samples += count
        file.write(END)
    return Written(path, samples)


def lines(
    series: Iterable[RecordedSeries], minutes: tuple[int, int], begin_unix: float
) -> Iterator[tuple[str, int]]:
    """The text of some minutes, a series at a time."""
    stamps = {minute: f" {begin_unix + MINUTE * minute:.0f}\n" for minute in range(*minutes)}
    for name, alike in groupby(series, lambda one: one.name):
        head = f"# TYPE {name} gauge\n"
        for one in alike:
            start = one.text() + " "
            samples = [
                f"{start}{value:.9g}{stamps[minute]}" for minute, value in one.samples(*minutes)
            ]
            if samples:
                yield head + "".join(samples), len(samples)
                head = ""
