"""What engines served lies in the state file beside the jobs; a row that no agent wrote costs nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ofu_exporter.jobs import kept_served
from ofu_exporter.jobs.kept_served import KeptCounters, KeptJob, KeptServed
from ofu_exporter.jobs.served_totals import ServedTotals
from ofu_exporter.jobs.state_file import StateFile, open_store
from tests.helpers.stored_job import NOW, TOTALS

SERVED = ServedTotals(served_model="m", seconds=60.0, tokens={"generation": 7.0}, requests=2.0)
PAGE = KeptCounters(started=("5.0",), at=NOW, counters=(("tokens", "generation", "m", "x", 7.0),))
KEPT = KeptServed(
    jobs={"chat": KeptJob(began=NOW, served=(SERVED,))}, engines={"engine": (PAGE, PAGE)}
)


def loaded(path: Path) -> KeptServed:
    store: StateFile = open_store(path)
    try:
        saved = store.load(NOW)
        assert saved.jobs == (TOTALS,)
        return saved.served
    finally:
        store.close()


def written(path: Path, kept: KeptServed = KEPT) -> None:
    store = open_store(path)
    store.save([TOTALS], {}, NOW, served=kept)
    store.close()


def test_what_was_served_is_read_as_it_was_written(tmp_path: Path) -> None:
    written(tmp_path / "state")
    assert loaded(tmp_path / "state") == KEPT
    written(tmp_path / "state", KeptServed())
    assert loaded(tmp_path / "state") == KeptServed()


def test_a_file_of_an_agent_that_kept_none_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "state"
    written(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE served")
    assert loaded(path) == KeptServed()


@pytest.mark.parametrize(
    "row",
    [
        "{",
        "[]",
        b"\xff\xfe",
        7,
        '{"jobs": {"chat": {"served": [{"tokens": {"generation": 1e300}}]}}}',
        '{"jobs": {"chat": {"served": [{"tokens": {"generation": -1}}]}}}',
        '{"jobs": {"chat": {"served": [{"requests": NaN}]}}}',
        '{"engines": {"e": [{"at": 1, "counters": [["tokens", "x", "m", "l"]]}]}}',
        '{"engines": {"e": [{"at": "Infinity"}]}}',
        '{"engines": {"e": [{"at": -1e308}]}}',
        None,
    ],
)
def test_a_row_that_no_agent_wrote_is_left_out_and_said(
    tmp_path: Path, row: object, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state"
    written(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE served SET kept = ?", (row,))
    assert loaded(path) == KeptServed()
    assert "what engines served cannot be read in the state file" in caplog.text


def test_a_row_larger_than_any_agents_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path / "state")
    monkeypatch.setattr(kept_served, "MAX_BYTES", 50)
    assert loaded(tmp_path / "state") == KeptServed()
    assert "what engines served cannot be read in the state file" in caplog.text


def test_a_text_that_is_not_utf8_costs_no_other_row(tmp_path: Path) -> None:
    path = tmp_path / "state"
    written(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE served SET kept = CAST(x'ff7b' AS TEXT)")
    assert loaded(path) == KeptServed()
