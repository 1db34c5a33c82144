"""The second hour on a card, tried without one: the driver's stand-in has a cause planted, and steps fail and last."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.test_trace import EXAMPLE
from tests.hardware import condense, honest, second_hour, traced
from tests.hardware.second_hour import STEPS, Hour, Step
from tests.hardware.training import CONFIG, TINY, Phase, formula


def tried(folder: Path, *args: str, python: str = sys.executable) -> dict[str, Any]:
    """The steps' answers of a try without a GPU."""
    command = [python, "-m", "tests.hardware.second_hour", str(folder), "--stand-in", *args]
    subprocess.run(command, check=True)
    found = json.loads((folder / "second-hour.json").read_text())
    assert {step["outcome"] for step in found["steps"].values()} == {"done"}, found
    return {name: step["answer"] for name, step in found["steps"].items()}


@pytest.mark.slow
def test_what_was_planted_is_found_to_predict_the_error_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tried(tmp_path, "gpm-times", "true-clock", "clock-error", "memory")
    clock = found["clock-error"]
    assert clock["mean_points"]["nvml_clock_hz"] > 1
    assert clock["mean_points"]["true_clock_hz"] < 0.01
    found_points = {e["predictor"]: e["corrected_mean_points"] for e in clock["predictors"]}
    planted = [f"violation_{each}_share" for each in ("power", "app_clocks", "base_clocks")]
    planted += ["sw_power_cap_share", "policy_80_share", "policy_81_share"]
    assert sorted(list(found_points)[:6]) == sorted(planted)
    assert found_points["violation_power_share"] < 0.15 < list(found_points.values())[6]
    assert "celsius" in clock["never_varied"]
    monkeypatch.setattr(condense, "MEASURED", tmp_path)
    condense.main([str(tmp_path), "card"])
    kept = json.loads((tmp_path / "card-clock.json").read_text())
    assert len(kept) == clock["products"]
    planted_share = [each["beside"]["sw_power_cap_share"] for each in kept]
    whole = [each["beside"]["sw_power_cap_share"] for each in clock["by_product"]]
    assert planted_share == pytest.approx(whole, rel=1e-3)
    assert (8, "Q/1e+09") in {
        (each["offset"], each["unit"]) for each in found["gpm-times"]["times"]
    }
    taken = [found["memory"][each] for each in ("interpreter", "with_driver", "agent")]
    assert taken[0]["rss"] < taken[1]["rss"] < taken[2]["rss"]
    assert all(each["files"]["libnvidia-ml.so.1"] > 0 for each in taken[1:])
    with tarfile.open(tmp_path / "raw.tar.gz") as raw:
        assert "raw/true-clock.jsonl" in raw.getnames()


@pytest.mark.slow
def test_both_sources_say_the_same_of_the_same_seconds(tmp_path: Path) -> None:
    found = tried(tmp_path, "both-sources")["both-sources"]
    for phase in found.values():
        assert phase["mean_ofu"]["dcgm"] == pytest.approx(phase["mean_ofu"]["nvml"], abs=0.002)
        assert phase["tensor_active"] == {"dcgm": pytest.approx(0.5), "nvml": pytest.approx(0.5)}
    gaps = found["engine stopped and started"]["longest_gap_seconds"]
    assert gaps["nvml"] == 0 < gaps["dcgm"]


def test_ofu_is_the_mean_of_the_windows_within_by_their_time() -> None:
    rows = [(0, 1, 90, 1830), (1, 3, 50, 1830), (3, 4, 20, 915), (4, 5, 90, 1830)]
    windows = [
        {"start": s, "end": e, "metrics": {"5": t}, "clocks_mhz": [(s, hz)]} for s, e, t, hz in rows
    ]
    assert honest.ofu(windows, 0.5, 4.5) == pytest.approx((2 * 0.5 + 0.2 * 0.5) / 3)
    assert honest.ofu(windows, 4.5, 9.0) is None


def test_a_right_mfu_counts_no_gradients_of_frozen_weights() -> None:
    phase, config = Phase("1", "x", batch=1, seq_len=2), {**CONFIG, **TINY}
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128
    attention = 2 * 12 * 4 * 16 * 1
    whole = 6 * (2 * layer + 64 * 256) + attention
    assert formula(phase, config) == 2 * whole
    adapters = 2 * 3 * (2 * 128 + 2 * 96 + 3 * 192)
    frozen = 4 * (2 * layer + 64 * 256) + 6 * adapters + attention
    assert formula(replace(phase, lora_rank=3), config) == 2 * frozen


def test_what_is_in_a_trace_is_counted(tmp_path: Path) -> None:
    whole = tmp_path / "trace.json"
    whole.write_bytes(gzip.decompress(EXAMPLE.read_bytes()))
    found = traced.events([whole])
    assert found["events"]["kernel"] == found["events"]["cpu_op"] == 501
    assert found["of_nccl"]["nccl:all_reduce"] == 36
    assert traced.rate([1.0, 2.0, 2.5, 3.0, 9.0], 1.5, 4.0) == 2.0


def test_a_step_that_fails_or_lasts_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_hour, "LEAST_SECONDS", 1.0)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    hour = Hour(tmp_path, scratch, second_hour.environment(scratch, True, None), True)
    hour.take(Step("wrong", "gpm_times", 60.0), 60.0)
    hour.take(Step("slow", "gpm_log OUT 60", 60.0), 2.0)
    hour.take(Step("last", "gpm_log OUT 60", 60.0), 0.5)
    steps = json.loads((tmp_path / "second-hour.json").read_text())["steps"]
    outcomes = [re.split(r"[:0-9]", step["outcome"])[0] for step in steps.values()]
    assert outcomes == ["ended with code ", "stopped after ", "did not fit"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_and_a_process_that_does_not_end_cost_no_other_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    hour = Hour(tmp_path, scratch, second_hour.environment(scratch, True, None), True)
    (tmp_path / "raw.part").symlink_to("/dev/full")
    hour.take(Step("unsaved", "first_contact FOLDER facts", 60.0), 60.0)
    assert "could not be saved: [Errno 28]" in capsys.readouterr().out
    assert json.loads((tmp_path / "second-hour.json").read_text())["steps"].keys() == {"unsaved"}
    (tmp_path / "raw.part").unlink()
    left: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(second_hour, "LEAST_SECONDS", 1.0)
        patch.setattr(second_hour, "ENDING_SECONDS", 0.1)
        patch.setattr(os, "killpg", lambda pid, _: left.append(pid))
        hour.take(Step("undying", "gpm_log OUT 60", 60.0), 2.0)
    os.killpg(left[0], signal.SIGKILL)
    os.waitpid(left[0], 0)
    hour.take(Step("facts", "first_contact FOLDER facts", 60.0), 60.0)
    steps = json.loads((tmp_path / "second-hour.json").read_text())["steps"]
    outcomes = [re.split(r"[:0-9]", step["outcome"])[0] for step in steps.values()]
    assert outcomes == ["done", "stopped after ", "done"]


@pytest.mark.slow
def test_a_gpu_with_mig_on_says_so_and_no_step_is_done_that_measured_nothing(
    tmp_path: Path,
) -> None:
    hour = Hour(tmp_path, tmp_path, second_hour.environment(tmp_path, True, None), True)
    with (tmp_path / "scenario").open("a") as scenario:
        scenario.write("gpu 0 mig 1\ngpu 0 instance 1 3g.40gb 60\n")
    for step in STEPS:
        if step.name in ("facts", "gpm-times", "true-clock", "law"):
            hour.take(step, 60.0)
    facts, *others = hour.steps.values()
    assert (facts["outcome"], facts["answer"]["mig"]) == ("done", [1, 1])
    assert facts["answer"]["metrics"] == "refused: Not Supported"
    assert all("done" not in step["outcome"] for step in others), others


def test_nothing_of_a_card_is_ever_set() -> None:
    for path in Path(second_hour.__file__).parent.glob("*.py"):
        sets = r"nvml\w*(Set|Clear|Reset)[A-Z]|nvidia-smi -[^q]"
        assert path.name.startswith("test_") or not re.search(sets, path.read_text())
