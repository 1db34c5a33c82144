"""The truth lies beside the fleet, in files that anybody can read."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.fleet.simulation import truth_file
from tests.helpers.fleets import BEGIN, ONE_JOB, fleet

REST = (
    ", report: {mistake: sparse_peak}, left_out: 0.1, changes: [{at: 30m, factor: 0.5}], "
    "straggler: {gpu: 5, share: 0.2}}\n"
)
FAULTS = "faults:\n  - {fault: gpu_lost, nodes: [n2], gpus: [1], at: 10m, lasts: 5m}\nlength: 1h\n"


def written(text: str, folder: Path) -> dict[str, list[Any]]:
    truth_file.write(fleet(text, folder), BEGIN, folder / "truth")
    found: dict[str, list[Any]] = {}
    for path in (folder / "truth").iterdir():
        lines = path.read_text().splitlines()
        is_csv = path.suffix == ".csv"
        found[path.name] = [*csv.DictReader(lines)] if is_csv else [json.loads(x) for x in lines]
    return found


def test_a_job_is_described_with_its_means(tmp_path: Path) -> None:
    (job,) = written(ONE_JOB + REST, tmp_path)["jobs.jsonl"]
    whole = (30 * 0.4 + 1410 * 0.2) / 1440 * (7.2 / 8)
    assert job["ofu"] == pytest.approx(whole)
    assert job["mfu"] == pytest.approx(whole * 0.3 / 0.4)
    assert job["reported_mfu"] == pytest.approx(whole * 0.3 / 0.4 / 2)
    assert job["mistake"] == "sparse_peak"
    assert job["changes"] == [{"unix": BEGIN + 1800, "factor": 0.5}]
    assert job["straggler"]["node"] == "n2"
    assert job["straggler"]["gpu"] == "1"
    assert job["nodes"] == ["n1", "n2"]
    assert job["runs"] == [[BEGIN, BEGIN + 86400]]
    assert job["held_gpu_seconds"] == 8 * 86400


def test_a_jobs_losses_add_up_with_its_ofu(tmp_path: Path) -> None:
    text = ONE_JOB + ", clock_mhz: 1525, idle: 0.1, empty_sms: 0.2}\n"
    (job,) = written(text, tmp_path)["jobs.jsonl"]
    active = 0.4 * 1830 / 1525
    assert job["lost"] == pytest.approx(
        {"clock": active - 0.4, "no_tensor": 0.7 - active, "empty_sms": 0.2, "idle": 0.1}, abs=1e-4
    )
    (idle,) = written(text.replace("ofu: 0.4", "work: idle"), tmp_path)["jobs.jsonl"]
    assert idle["lost"] == pytest.approx(
        {"clock": 0.0, "no_tensor": 0.0, "empty_sms": 0.0, "idle": 1.0}
    )
    (slow,) = written(ONE_JOB + REST, tmp_path)["jobs.jsonl"]
    assert sum(slow["lost"].values()) + slow["ofu"] == pytest.approx(1.0)


def test_each_minute_has_a_line(tmp_path: Path) -> None:
    minutes = written(ONE_JOB + REST + FAULTS, tmp_path)["minutes.csv"]
    assert len(minutes) == 60
    first, last = minutes[0], minutes[-1]
    assert (first["unix"], first["job_id"]) == (f"{BEGIN:.0f}", "1001")
    assert float(first["ofu"]) == pytest.approx(0.4 * 7.2 / 8)
    assert first["reported_mfu"] == ""
    assert float(last["ofu"]) == pytest.approx(0.2 * 7.2 / 8)
    assert float(last["reported_mfu"]) == pytest.approx(float(last["mfu"]) / 2, rel=0.02)


def test_a_fault_has_a_line(tmp_path: Path) -> None:
    (fault,) = written(ONE_JOB + REST + FAULTS, tmp_path)["faults.jsonl"]
    assert fault["node"] == "n2"
    assert fault["fault"] == "gpu_lost"
    assert (fault["from"], fault["to"]) == (BEGIN + 600, BEGIN + 900)
    assert fault["uuids"] == ["SIMULATED-1-n2-1"]


def test_equal_seeds_make_an_equal_truth(tmp_path: Path) -> None:
    text = ONE_JOB.replace("noise: 0", "noise: 0.05") + REST
    assert written(text, tmp_path) == written(text, tmp_path)
    assert written(text, tmp_path) != written(text + "seed: 2\n", tmp_path)
