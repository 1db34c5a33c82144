"""What ml-goodput-measurement says of runs: JSON of them on stdin, JSON of its seconds on stdout.

It is run by tests.bench.goodput with the Python of an environment that has that package.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import datetime, timezone
from typing import Any

from ml_goodput_measurement.src import goodput  # type: ignore[import-not-found,unused-ignore]


class Log:
    """Stands in the place of Google's log service, as in the package's own tests: it keeps entries in memory."""

    def __init__(self) -> None:
        self.entries: list[tuple[datetime, dict[str, Any]]] = []

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        stamp = next(value for key, value in entry.items() if key.endswith("_time"))
        self.entries.append((datetime.fromtimestamp(stamp, timezone.utc), entry))

    def read_cloud_logging_entries(
        self, start_time: Any = None, end_time: Any = None, last_entry_info: Any = None
    ) -> Any:
        return [
            entry
            for time, entry in self.entries
            if (start_time is None or time > start_time) and (end_time is None or time <= end_time)
        ], last_entry_info


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(1_700_000_000 + seconds, timezone.utc)


def said(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    log = Log()
    recorder = goodput.GoodputRecorder(name, "log", True, log)
    for run in runs:
        recorder.record_job_start_time(at(run["begin"]))
        recorder.record_tpu_init_start_time(at(run["begin"]))
        recorder.record_tpu_init_end_time(at(run["begin"] + run["start"] / 2))
        recorder.record_training_preparation_start_time(at(run["begin"] + run["start"] / 2))
        recorder.record_training_preparation_end_time(at(run["begin"] + run["start"]))
        for step, time in run["steps"]:
            recorder.record_step_start_time(step, at(time))
    recorder.record_job_end_time(at(runs[-1]["end"]))
    with tempfile.TemporaryDirectory() as folder:
        calculator = goodput.GoodputCalculator(name, "log", log, cache_dir=folder)
        calculator.get_job_goodput(include_badput_breakdown=True)
        details = calculator.get_job_goodput_details()
    seconds = {kind.name: value for kind, value in details["badput_time"].items()}
    return {"badput": seconds, "disruptions": details["disruption_count"]}


if __name__ == "__main__":
    print(json.dumps({name: said(name, runs) for name, runs in json.load(sys.stdin).items()}))
