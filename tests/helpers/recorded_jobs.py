"""Writes the job of a recording, as `recordings.jobs` reads it."""

from __future__ import annotations

from typing import Any

from ofu_exporter.recordings.jobs import TEXTS, RecordedJob


def job_line(recorded: RecordedJob) -> dict[str, Any]:
    """The line of a job."""
    texts = {name: text for name in sorted(TEXTS) if (text := getattr(recorded.job, name))}
    start, end = round(recorded.start, 6), round(recorded.end, 6)
    return {"job": {**texts, "gpus": recorded.gpus, "start": start, "end": end}}
