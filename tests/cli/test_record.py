"""`record`: what a source reads, in a file that can be replayed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from ofu_exporter.recordings import recording
from ofu_exporter.values.reading import Reading
from tests.helpers.agent import COMMAND, bare_environment, call, until

pytestmark = pytest.mark.slow

QUICK = ("--source", "simulate", "--simulated-gpus", "2", "--interval", "0.2s")


def test_a_recording_says_what_it_is_and_can_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    done = call("record", str(path), "--duration", "1s", *QUICK)
    assert done.returncode == 0, done.stderr
    played = recording.read(path)
    assert (played.header.source, played.header.simulated) == ("simulate", True)
    assert played.header.software["driver"] == "simulated"
    assert list(played.header.gpus) == ["NVIDIA H100 80GB HBM3"] * 2
    readings = [event for event in played.events if isinstance(event, Reading)]
    assert len(readings) >= 4
    checked = call("check", "--source", "replay", "--path", str(path), "--format", "json")
    report = json.loads(checked.stdout)
    assert report["simulated"] is True
    assert all(gpu["available"] for gpu in report["gpus"])


def test_stopping_it_leaves_a_whole_recording(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    process = subprocess.Popen(
        [*COMMAND, "record", str(path), *QUICK], stderr=subprocess.PIPE, env=bare_environment()
    )
    until(lambda: path.exists() and os.path.getsize(path) > 400)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"readings and faults in" in stderr
    assert any(recording.read(path).events)


def test_killing_it_loses_nothing_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    process = subprocess.Popen(
        [*COMMAND, "record", str(path), *QUICK], stderr=subprocess.DEVNULL, env=bare_environment()
    )
    until(lambda: path.exists() and os.path.getsize(path) > 400)
    process.kill()
    process.wait(20)
    assert any(recording.read(path).events)


def test_a_disk_that_becomes_full_is_named_and_what_was_written_can_be_replayed(
    tmp_path: Path,
) -> None:
    """RLIMIT_FSIZE makes the kernel refuse the write, as a full disk does."""
    path = tmp_path / "r.jsonl.gz"
    limited = ["sh", "-c", 'ulimit -f 4; exec "$@"', "sh", *COMMAND]
    done = subprocess.run(
        [*limited, "record", str(path), "--duration", "60s", *QUICK],
        capture_output=True,
        text=True,
        env={**bare_environment(), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 2
    count, problem = done.stderr.splitlines()
    assert count.endswith(f"readings and faults in {path}")
    assert problem == f"ofu-exporter: {path}: File too large"
    assert any(recording.read(path).events)


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    path.write_text("precious")
    done = call("record", str(path), *QUICK)
    assert (done.returncode, path.read_text()) == (2, "precious")
    assert done.stderr == f"ofu-exporter: {path} exists; a recording is never overwritten\n"


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "r.jsonl.gz"
    done = call("record", str(path), "--duration", "5s", *QUICK)
    assert done.returncode == 2
    assert f"{path}: No such file or directory" in done.stderr
    assert "readings" not in done.stderr


def test_a_name_that_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    path = tmp_path / ("r" * 300)
    done = call("record", str(path), "--duration", "5s", *QUICK)
    assert done.returncode == 2
    assert done.stderr.endswith(f"ofu-exporter: {path}: File name too long\n")


def test_a_recording_shorter_than_a_window_is_no_success(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    done = call("record", str(path), "--duration", "0", "--source", "simulate")
    assert done.returncode == 3
    assert f"nothing was read, so {path} was not written" in done.stderr
    assert not path.exists()


def test_a_source_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    done = call("record", str(tmp_path / "r"), "--source", "nvml", "--duration", "5s")
    assert done.returncode == 3
    assert "NVML Shared Library Not Found" in done.stderr


@pytest.mark.parametrize("duration", ["soon", "-1s", ""])
def test_a_bad_duration_is_named(tmp_path: Path, duration: str) -> None:
    done = call("record", str(tmp_path / "r"), f"--duration={duration}", *QUICK)
    assert done.returncode == 2
    assert "--duration" in done.stderr


def test_a_source_that_cannot_be_read_is_said_once(tmp_path: Path) -> None:
    args = ("--source", "dcgm-exporter", "--url", "http://127.0.0.1:9/metrics")
    done = call("record", str(tmp_path / "r.gz"), *args)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("Connection refused") == 1
    assert done.stderr.count("\n") == 1
