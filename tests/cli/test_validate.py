"""`validate`: from end to end on a simulated card, its exit codes, and what it says without a GPU."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.agent import call

pytestmark = pytest.mark.slow

FEW = ("--precisions", "bf16,tf32", "--products", "4", "--seconds", "3")


def validate(tmp_path: Path, *args: str) -> tuple[int, dict[str, Any]]:
    done = call("validate", "--output", str(tmp_path / "v.jsonl"), "--format", "json", *args)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_it_prints_everything_and_marks_it_as_simulated(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    done = call("validate", "--simulate", "--quick", "--output", str(path))
    assert done.returncode in (0, 5), done.stderr
    assert done.stdout.startswith("SIMULATED: no GPU was measured.")
    for title in ("(the paper's Table II)", "(Fig. 1)", "(Fig. 3)", "(Table I)", "This card: "):
        assert title in done.stdout
    assert "Not run: fp4: not simulated" in done.stdout
    assert json.loads(path.read_text().splitlines()[0])["simulated"] is True


def test_json_says_the_same(tmp_path: Path) -> None:
    code, report = validate(tmp_path, "--simulate", *FEW, "--quick")
    assert report["simulated"] is True
    assert report["products"] == report["compared"] == 29
    rows = {(row["precision"], row["kind"]): row for row in report["accuracy"]}
    assert rows["bf16", "aligned"]["exact"]["products"] == 4
    assert rows["bf16", "aligned"]["exact"]["mean_absolute"] < 0.5
    assert rows["tf32", "aligned"]["lower"]["products"] == 4
    assert code == (5 if report["verdict"] == "outside" else 0)
    assert report["clock_noise"]["reads"] > 1000
    assert len(report["overhead_curve"]) == 20
    assert {each["precision"] for each in report["speed_ups"]} == {"bf16"}


@pytest.mark.parametrize(("bound", "code"), [("50", 0), ("0.001", 5)])
def test_the_exit_code_says_whether_the_card_is_inside(
    tmp_path: Path, bound: str, code: int
) -> None:
    args = ("--simulate", "--quick", *FEW, "--raw-bound", bound)
    assert validate(tmp_path, *args)[0] == code


def test_it_goes_on_and_reports_again_what_the_file_has(tmp_path: Path) -> None:
    args = ("--simulate", "--quick", *FEW)
    first = validate(tmp_path, *args)
    path = tmp_path / "v.jsonl"
    before = path.read_bytes()
    path.write_bytes(before[: len(before) // 2])
    assert validate(tmp_path, *args)[1]["products"] == 29
    path.write_bytes(before)
    code, again = validate(tmp_path, "--report", "--simulate")
    assert code == first[0]
    assert [row["precision"] for row in again["accuracy"]] == [
        row["precision"] for row in first[1]["accuracy"]
    ]
    for row, old in zip(again["accuracy"], first[1]["accuracy"], strict=True):
        assert row["raw"]["mean_absolute"] == pytest.approx(old["raw"]["mean_absolute"], abs=0.01)


def test_clock_domains(tmp_path: Path) -> None:
    code, report = validate(tmp_path, "--simulate", "--clocks", "--precisions", "bf16,fp64")
    assert code == 0
    rates = {each["precision"]: each["whole"] for each in report["clock_domains"]}
    assert rates == {"bf16": 4096, "fp64": 256}
    assert report["proposed_row"] is None, "the table has this card"


def test_a_simulated_gpu_is_never_taken_unasked(tmp_path: Path) -> None:
    done = call("validate", "--source", "simulate", "--output", str(tmp_path / "v"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "with --simulate the source is simulate" in done.stderr
    done = call("validate", "--simulate", "--source", "nvml")
    assert done.returncode == 2


@pytest.mark.skipif(bool(importlib.util.find_spec("torch")), reason="torch is installed")
def test_without_torch_it_says_what_to_install() -> None:
    done = call("validate")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'torch>=2.4'" in done.stderr


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["--simulate", "--precisions", "bf17"], "--precisions: 'bf17' is not known"),
        (["--simulate", "--precisions", "fp4"], "no precision can be run here: fp4"),
        (["--simulate", "--seconds", "1"], "--seconds: 1 s of a product hold no whole window"),
        (["--simulate", "--clocks", "--published", "bf16"], "--published: 'bf16' is not"),
        (["--simulate", "--clocks", "--published", "bf16=-1"], "--published: 'bf16=-1' is not"),
        (["--simulate", "--clocks", "--published", "bf16=nan"], "--published: 'bf16=nan' is not"),
        (["--simulate", "--clocks", "--published", "x=1"], "--published: 'x=1' is not"),
        (["--simulate", "--seconds", "inf"], "--seconds: inf is not a number of 0 or more"),
        (["--simulate", "--raw-bound", "nan"], "--raw-bound: nan is not a number of 0 or more"),
        (["--report"], "--report needs --output FILE"),
        (["--report", "--output", "nowhere.jsonl"], "nowhere.jsonl: No such file"),
    ],
)
def test_what_cannot_be_used_is_one_line(tmp_path: Path, args: list[str], line: str) -> None:
    output = [] if "--report" in args else ["--output", str(tmp_path / "v.jsonl")]
    done = call("validate", *output, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"ofu-exporter: {line}" in done.stderr


def test_a_plot_is_drawn_or_what_is_missing_is_said(tmp_path: Path) -> None:
    picture = tmp_path / "v.png"
    args = ("--simulate", "--quick", *FEW, "--output", str(tmp_path / "v.jsonl"))
    done = call("validate", *args, "--plot", str(picture))
    if importlib.util.find_spec("matplotlib"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    else:
        assert done.returncode == 2
        assert "pip install 'matplotlib>=3.8'" in done.stderr


def test_csv_has_a_row_for_each_precision_and_kind(tmp_path: Path) -> None:
    stored = ("--output", str(tmp_path / "v.jsonl"))
    _, report = validate(tmp_path, "--simulate", *FEW, "--quick")
    done = call("validate", *stored, "--simulate", "--report", "--format", "csv")
    rows = [*csv.DictReader(io.StringIO(done.stdout))]
    assert [(row["precision"], row["kind"]) for row in rows] == [
        (row["precision"], row["kind"]) for row in report["accuracy"]
    ]
