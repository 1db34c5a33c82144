"""Jobs and reports in a recording: what was written is read again, and readings are played without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ofu_exporter.errors import SourceError
from ofu_exporter.recordings import recording
from ofu_exporter.recordings.jobs import RecordedJob, read_jobs
from ofu_exporter.values.job import Job
from tests.helpers.recorded_jobs import job_line
from tests.helpers.values import reading

JOB = RecordedJob(Job("replay", "7", "train", user="ada"), ("0", "1"), 0.5, 4.5)
BODY = {"job_id": "7", "mfu": 0.4, "start": 1.0, "end": 4.0, "precision": "bf16"}
HEADER = {"format": "ofu-recording", "version": 1, "source": "x", "simulated": False, "created": ""}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recording"


def written(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in (HEADER, *lines)))
    return path


def test_jobs_and_reports_are_read_as_they_were_written(path: Path) -> None:
    writer = recording.RecordingWriter(path, recording.RecordingHeader("nvml", False, ""), 0.0)
    later = {**BODY, "start": 4.0, "end": 8.0}
    writer.put([{"report": later}, job_line(JOB), {"report": BODY}])
    writer.write([reading(0.0, 5.0), reading(5.0, 10.0)])
    writer.close()
    played = read_jobs(path)
    assert played.jobs == (JOB,)
    assert [report.body for report in played.reports] == [BODY, later], "by their end"
    assert (played.seconds, played.damaged) == (10.0, 0)


def test_who_replays_the_readings_passes_over_everything_else(path: Path) -> None:
    written(path, job_line(JOB), {"report": BODY}, {"weather": "fine"})
    played = recording.read(path)
    assert list(played.events) == []
    assert played.damaged == []


def test_a_recording_without_jobs_has_none(path: Path) -> None:
    played = read_jobs(written(path, {"n": 0, "start": 0.0, "end": 5.0}, {"n": 0, "at": 7.0}))
    assert (played.jobs, played.reports, played.seconds) == ((), (), 7.0)


@pytest.mark.parametrize(
    "line",
    [
        {"job": []},
        {"job": {"job_id": "7"}},
        {"job": {**job_line(JOB)["job"], "end": "soon"}},
        {"job": {**job_line(JOB)["job"], "end": 1e999}},
        {"job": {"gpus": ["0"], "start": 0.0, "end": 1.0}},
        {"job": {**job_line(JOB)["job"], "start": -1e308}},
        {"report": {"job_id": "7"}},
        {"report": {**BODY, "start": "1"}},
        {"report": None},
    ],
    ids=str,
)
def test_a_line_that_cannot_be_read_is_counted_and_left_out(path: Path, line: object) -> None:
    played = read_jobs(written(path, line, job_line(JOB)))
    assert (played.jobs, played.damaged) == ((JOB,), 1)


def test_a_reading_that_cannot_be_read_is_left_to_the_source_to_count(path: Path) -> None:
    played = read_jobs(written(path, {"n": 0, "start": 0.0, "end": "late"}))
    assert (played.seconds, played.damaged) == (0.0, 0)


def test_what_is_no_json_is_left_to_the_source_to_count(path: Path) -> None:
    with written(path, job_line(JOB)).open("a") as file:
        file.write("{\n[]\n" + "[" * 100_000 + "\n")
    assert read_jobs(path).damaged == 0


def test_another_file_is_refused(path: Path) -> None:
    path.write_text("hello\n")
    with pytest.raises(SourceError):
        read_jobs(path)
