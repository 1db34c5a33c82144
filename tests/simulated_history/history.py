"""Writes what the recording rules would have kept of a simulated fleet, as OpenMetrics files of some hours each.

Each file can be used alone and gets its name when it is complete, so that a full disk costs only one file.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import OfuError
from ofu_exporter.fleet.simulation.spec import MINUTE
from ofu_exporter.support.whole_file import whole_file
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
    go_on: str
    """The time from which to continue if this is the last file that was written."""


class HistoryError(OfuError):
    """The history cannot be continued; the files that were written are complete."""


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


def write(
    fleet: RecordedFleet, begin_unix: float, folder: Path, begin: int = 0
) -> Iterator[Written]:
    """Write the history from a minute of the fleet on, file by file.

    Raises HistoryError if the disk is full, with the time from which to continue.
    """
    series = recorded(fleet, begin_unix)
    step = fleet.spec.history.segment
    end = fleet.spec.length + 1
    start = int(begin_unix // MINUTE)
    first = start + begin
    while first < start + end:
        until = min((first // step + 1) * step, start + end)
        minutes = (first - start, until - start)
        raw = raw_lines(fleet, begin_unix, minutes)
        name = stamp(first * MINUTE).replace(":", "")
        recorded_lines = lines(series, minutes, begin_unix)
        after = first if raw is not None else until
        yield _file(folder / f"recorded-{name}.om", recorded_lines, first, after)
        if raw is not None:
            yield _file(folder / f"raw-{name}.om", raw, first, until)
        first = until


def stamp(unix: float) -> str:
    """A time as --from takes it."""
    return datetime.datetime.fromtimestamp(unix, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")


def _file(path: Path, lines: Iterable[tuple[str, int]], without: int, after: int) -> Written:
    """Write one file. `without` and `after` are the minutes from which to continue: without the file, and with it."""
    samples = 0
    try:
        with whole_file(path) as file:
            for text, count in lines:
                file.write(text)
                samples += count
            file.write(END)
    except OSError as error:
        raise HistoryError(
            f"cannot write {path}: {error.strerror or error}; the files before are complete: "
            f"free some space, and continue with --from {stamp(without * MINUTE)}"
        ) from error
    return Written(path, samples, stamp(after * MINUTE))


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
