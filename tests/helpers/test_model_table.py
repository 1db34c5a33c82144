"""The command renews single rows of the page of models in their places."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ofu_exporter.flops.architectures import ArchitectureRow, read
from tests.helpers import model_table
from tests.helpers.model_table import BOTH, FORWARD

BEFORE = [
    ArchitectureRow(
        "bart", "BartForConditionalGeneration", 5, 5, FORWARD, run="torch 2.13.0; 2026-11-20"
    ),
    ArchitectureRow("bert", "BertForMaskedLM", 7, 7, FORWARD, run="torch 2.13.0; 2026-11-20"),
    ArchitectureRow(
        "clip",
        "CLIPModel",
        None,
        9,
        FORWARD,
        "0",
        "torch 2.13.0; 2026-11-20",
        why='a "why", in words',
    ),
]
AFTER = replace(BEFORE[1], executed=BOTH, run="torch 2.15.0; 2026-11-22")
Command = Callable[..., list[ArchitectureRow]]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command over a page of its own, where every row that is run again comes out as `AFTER`."""

    def ran(wanted: list[ArchitectureRow], at_once: int) -> Iterator[ArchitectureRow]:
        assert at_once == 2
        return (replace(AFTER, kind=each.kind, architecture=each.architecture) for each in wanted)

    def run(*arguments: str) -> list[ArchitectureRow]:
        monkeypatch.setattr(sys, "argv", ["model_table", *arguments])
        model_table.main()
        return read((tmp_path / "architectures.csv").read_text())

    (tmp_path / "architectures.csv").write_text(model_table.text(BEFORE))
    monkeypatch.setattr(model_table, "FILE", tmp_path / "architectures.csv")
    monkeypatch.setattr(model_table, "DENOISERS", {})
    monkeypatch.setattr(model_table, "rows", ran)
    known = {each.kind: each.architecture for each in BEFORE}
    monkeypatch.setattr(model_table, "architectures", lambda: known)
    return run


@pytest.mark.parametrize("name", ["bert", "BertForMaskedLM"])
def test_a_row_is_renewed_in_its_place(command: Command, name: str) -> None:
    assert command("--renew", name) == [BEFORE[0], AFTER, BEFORE[2]]


def test_rows_that_are_only_printed_leave_the_page_alone(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--only", "bert") == BEFORE
    assert "BertForMaskedLM" in capsys.readouterr().err


def test_a_run_that_was_broken_off_goes_on(command: Command, tmp_path: Path) -> None:
    kept = str(tmp_path / "kept.jsonl")
    command("--only", "bert", "--kept", kept)
    found = command("--kept", kept)
    assert found[1] == AFTER
    assert [each.executed for each in found] == [BOTH] * 3
    assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 3


def test_recipes_are_made_of_the_rows_that_have_none(command: Command) -> None:
    found = command("--recipes")
    assert [each.executed for each in found] == [BOTH, BOTH, FORWARD]
    assert found[2] == BEFORE[2]
