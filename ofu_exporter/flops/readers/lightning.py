"""Reads `metrics.csv` of Lightning and litgpt: `step`, `device/flops_per_sec`, `device/mfu`, `samples`, `time`.

Lightning's CSVLogger with ThroughputMonitor (`fabric/utilities/throughput.py`). Its rates are means of a window of many
steps; times the samples since the row before they are those of the row. `device/mfu` is not taken: it divides by
Lightning's own table, in which some peaks are those of shaders.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.statements import JobFacts, Statement, number, with_rate

_RATE, _SAMPLE_RATE = "device/flops_per_sec", "device/samples_per_sec"
_MOST_COLUMNS = 1000


class Follower:
    """Remembers the columns, which the first line names, and the samples and seconds of the row before."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job
        self._columns: list[str] = []
        self._first = self._before = (-1.0, -1.0)
        self._is_first = False

    def line(self, line: str) -> Statement | None:
        """The statement of a row; the first one only marks a beginning.

        When a new metric appears, the logger writes the file again: rows that were read are not stated twice. Raises
        ConfigError for a row that the columns do not fit.
        """
        if _RATE in line and "step" in line and "," in line:
            self._columns = [_plain(name) for name in line.strip().split(",")][:_MOST_COLUMNS]
            self._is_first = True
            return None
        if not self._columns or not line.strip():
            return None
        try:
            cells = next(csv.reader([line.replace("\0", "")]), [])
        except csv.Error as error:
            raise ConfigError(f"metrics.csv: {error}") from error
        if len(cells) != len(self._columns):
            raise ConfigError("metrics.csv: its columns have changed: start tail again")
        row = {name: text for name, text in zip(self._columns, cells, strict=True) if text.strip()}
        return self._row(row) if {_RATE, "step", "time", "samples"} <= row.keys() else None

    def _row(self, row: Mapping[str, str]) -> Statement | None:
        now = number(row["samples"], "samples"), number(row["time"], "time")
        is_earlier = self._before[1] < 0 or now[1] < self._before[1]
        if self._is_first and is_earlier and now != self._first:
            self._first, self._before = now, (-1.0, -1.0)
        self._is_first = False
        if now[1] <= self._before[1]:
            return None
        before, self._before = self._before, now
        step = int(number(row["step"], "step"))
        if before[1] < 0:
            return Statement(step)
        seconds, rate = now[1] - before[1], number(row[_RATE], _RATE)
        window = number(row.get(_SAMPLE_RATE, "0"), _SAMPLE_RATE)
        if window:
            rate *= max(0.0, now[0] - before[0]) / seconds / window
        return with_rate(Statement(step, flops=rate * seconds, seconds=seconds), rate, self._job)


def _plain(name: str) -> str:
    """A column without the stage of Lightning's loggers: `train/time` and `train|time` are `time`."""
    return name.removeprefix("train/").removeprefix("train|")
