"""`validate`: from end to end on a simulated card, its exit codes, and what it says without a GPU."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.cli.validate import _size
from ofu_exporter.validation import session
from tests.helpers import in_process
from tests.helpers.agent import call
from tests.validation.simulation import simulated_place

pytestmark = pytest.mark.slow

FEW = ("--precisions", "bf16,tf32", "--products", "4", "--seconds", "3")


simulated = partial(in_process.call, env={"OFU_SOURCE": "simulate"}, obj=simulated_place)
"""Runs the command on the simulated card."""


def validate(tmp_path: Path, *args: str) -> tuple[int, dict[str, Any]]:
    done = simulated("validate", "--output", str(tmp_path / "v.jsonl"), "--format", "json", *args)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_it_prints_everything_and_marks_it_as_simulated(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    done = simulated("validate", "--quick", "--output", str(path))
    assert done.returncode in (0, 5), done.stderr
    assert done.stdout.startswith("SIMULATED: no GPU was measured.")
    for title in ("(the paper's Table II)", "(Fig. 1)", "(Fig. 3)", "(Table I)", "This card: "):
        assert title in done.stdout
    assert "Not run: fp4: not simulated" in done.stdout
    assert json.loads(path.read_text().splitlines()[0])["simulated"] is True


def test_json_says_the_same(tmp_path: Path) -> None:
    code, report = validate(tmp_path, *FEW, "--quick")
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
    args = ("--quick", *FEW, "--raw-bound", bound)
    assert validate(tmp_path, *args)[0] == code


def test_it_goes_on_and_reports_again_what_the_file_has(tmp_path: Path) -> None:
    args = ("--quick", *FEW)
    first = validate(tmp_path, *args)
    path = tmp_path / "v.jsonl"
    before = path.read_bytes()
    path.write_bytes(before[: len(before) // 2])
    assert validate(tmp_path, *args)[1]["products"] == 29
    path.write_bytes(before)
    code, again = validate(tmp_path, "--report")
    assert code == first[0]
    assert [row["precision"] for row in again["accuracy"]] == [
        row["precision"] for row in first[1]["accuracy"]
    ]
    for row, old in zip(again["accuracy"], first[1]["accuracy"], strict=True):
        assert row["raw"]["mean_absolute"] == pytest.approx(old["raw"]["mean_absolute"], abs=0.01)


def test_clock_domains(tmp_path: Path) -> None:
    code, report = validate(tmp_path, "--clocks", "--precisions", "bf16,fp64")
    assert code == 0
    rates = {each["precision"]: each["whole"] for each in report["clock_domains"]}
    assert rates == {"bf16": 4096, "fp64": 256}
    assert report["proposed_row"] is None, "the table has this card"
    path = tmp_path / "v.jsonl"
    path.write_text(path.read_text().partition("\n")[0] + "\n")
    for asked in ((), ("--clocks",)):
        assert validate(tmp_path, "--report", *asked)[0] == 4, "nothing could be compared"


@pytest.mark.parametrize("options", [("simulate",), ("replay", "--path", "recorded.jsonl")])
def test_a_made_up_gpu_is_never_measured(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = call("validate", "--output", str(tmp_path / "v"), "--source", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"source {options[0]}: its GPUs run no products" in done.stderr


@pytest.mark.skipif(bool(importlib.util.find_spec("torch")), reason="torch is installed")
def test_without_torch_it_says_what_to_install() -> None:
    done = call("validate")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'torch>=2.4'" in done.stderr


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["--precisions", "bf17"], "--precisions: 'bf17' is not known"),
        (["--precisions", "fp4"], "no precision can be run here: fp4"),
        (["--seconds", "1"], "--seconds: 1 s of a product hold no whole window"),
        (["--clocks", "--published", "bf16"], "--published: 'bf16' is not"),
        (["--clocks", "--published", "bf16=-1"], "--published: 'bf16=-1' is not"),
        (["--clocks", "--published", "bf16=nan"], "--published: 'bf16=nan' is not"),
        (["--clocks", "--published", "x=1"], "--published: 'x=1' is not"),
        (["--seconds", "inf"], "--seconds: inf is not a number of 0 or more"),
        (["--raw-bound", "nan"], "--raw-bound: nan is not a number of 0 or more"),
        (["--report"], "--report needs --output FILE"),
        (["--report", "--output", "nowhere.jsonl"], "nowhere.jsonl: No such file"),
    ],
)
def test_what_cannot_be_used_is_one_line(tmp_path: Path, args: list[str], line: str) -> None:
    output = [] if "--report" in args else ["--output", str(tmp_path / "v.jsonl")]
    done = simulated("validate", *output, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"ofu-exporter: {line}" in done.stderr


def test_csv_has_a_row_for_each_precision_and_kind(tmp_path: Path) -> None:
    stored = ("--output", str(tmp_path / "v.jsonl"))
    _, report = validate(tmp_path, *FEW, "--quick")
    done = simulated("validate", *stored, "--report", "--format", "csv")
    rows = [*csv.DictReader(io.StringIO(done.stdout))]
    assert [(row["precision"], row["kind"]) for row in rows] == [
        (row["precision"], row["kind"]) for row in report["accuracy"]
    ]


def test_minutes_are_a_deadline_in_seconds() -> None:
    options = {"products": None, "seconds": None, "clocks": False, "quick": True, "minutes": 2.0}
    assert _size(options).deadline == 120.0
    assert _size({**options, "minutes": None}).deadline == session.QUICK.deadline
