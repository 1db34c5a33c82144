"""Reads the jobs of a recording and what they reported, which stand between its readings.

A job is `{"job": {...}}` with the fields of `values.job.Job` that the scheduler said, `gpus`, `start` and `end`. A
report is `{"report": {...}}` with the body of a `POST /v1/mfu`. All times are seconds since the recording began.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, NamedTuple

from ofu_exporter.recordings.recording import BAD_LINE, raw_lines
from ofu_exporter.values.job import RECORDED, Job

MOST_LINES = 100_000
"""Most jobs and reports that are read of one recording, because they are held in memory."""
LONGEST_SECONDS = 1e8
"""Three years: no recording is longer."""
TEXTS = frozenset(field.name for field in fields_of(Job) if field.type == "str") - {"scheduler"}
"""The fields of a job that are texts."""


class RecordedJob(NamedTuple):
    """A job of the recording, and when it held which GPUs."""

    job: Job
    gpus: tuple[str, ...]
    """Names that `device_names.parse` understands."""
    start: float
    end: float


class RecordedReport(NamedTuple):
    """The body of a report, with `start` and `end` in seconds since the recording began."""

    job_id: str
    end: float
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecordedJobs:
    """The jobs of a recording, and their reports in the order of their ends."""

    jobs: tuple[RecordedJob, ...]
    reports: tuple[RecordedReport, ...]
    seconds: float
    """The end of the last reading: when a replay in a loop begins anew."""
    damaged: int
    """Lines of jobs and reports that could not be read."""


def read_jobs(path: Path) -> RecordedJobs:
    """Every job and report of a recording. Raises SourceError for any other file."""
    jobs: list[RecordedJob] = []
    reports: list[RecordedReport] = []
    seconds, damaged = 0.0, 0
    for fields in _objects(path):
        try:
            if "job" in fields:
                jobs.append(_job(fields["job"]))
            elif "report" in fields:
                reports.append(_report(fields["report"]))
            else:
                seconds = max(seconds, _seconds(fields.get("end", fields.get("at", 0.0))))
        except BAD_LINE:
            damaged += "job" in fields or "report" in fields
        if len(jobs) + len(reports) + damaged >= MOST_LINES:
            break
    reports.sort(key=lambda report: report.end)
    return RecordedJobs(tuple(jobs), tuple(reports), seconds, damaged)


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that are JSON objects; the source says which are none."""
    for line in raw_lines(path):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(fields, dict):
            yield fields


def _job(line: Mapping[str, Any]) -> RecordedJob:
    texts: dict[str, Any] = {name: str(line[name]) for name in TEXTS if name in line}
    gpus = tuple(str(gpu) for gpu in line["gpus"])
    job = Job(scheduler=RECORDED, **texts)
    return RecordedJob(job, gpus, _seconds(line["start"]), _seconds(line["end"]))


def _report(body: Mapping[str, Any]) -> RecordedReport:
    _seconds(body["start"])
    return RecordedReport(str(body["job_id"]), _seconds(body["end"]), body)


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= LONGEST_SECONDS:
        raise ValueError(f"{value!r} is no time of a recording")
    return float(value)
