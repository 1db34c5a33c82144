"""The real `run` and `demo`: what they serve without a GPU, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.sources.replay.recording import RecordingHeader, RecordingWriter
from tests.helpers.agent import agent, until
from tests.helpers.values import gpu, reading


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Half a second of two GPUs."""
    path = tmp_path / "short.jsonl.gz"
    writer = RecordingWriter(path, RecordingHeader("nvml", False, ""), 0.0)
    for device in (gpu(1), gpu(0)):
        writer.write([reading(0.0, 0.5, device=device)])
    writer.close()
    return path


@pytest.mark.slow
def test_a_demonstration_of_a_recording_begins_anew_at_its_end(recording: Path) -> None:
    """The page of a recording that is over is empty, and a reader comes later than that."""
    with agent("demo", "--path", str(recording), "--interval", "0.2s") as running:
        until(lambda: sum(running.values("ofu_gpu_observed_seconds_total")) >= 2.0)
        assert running.get("/readyz") == (200, "ok\n")


@pytest.mark.slow
def test_a_demonstration_ends_with_its_recording_where_that_is_asked_for(recording: Path) -> None:
    with agent("demo", "--path", str(recording), "--no-loop", "--interval", "0.2s") as running:
        until(lambda: running.get("/readyz")[0] == 200)
        until(lambda: running.values("ofu_gpu_unavailable", reason="recording_ended") == [1.0, 1.0])
        status, text = running.get("/readyz")
        assert status == 503
        assert "or add --loop" in text
        start = running.get("/")[1]
        assert "or add --loop" in start, "the page says what to do, and not only the reason's name"
