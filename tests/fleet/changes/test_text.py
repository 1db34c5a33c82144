"""What changed, in words: the first sentence, and tables for a terminal and Markdown."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter.fleet.answer import AskedTime, MissingRow, ReadingCost
from ofu_exporter.fleet.changes.text import chance, changes_headline, document, subject
from ofu_exporter.fleet.changes_result import (
    ChangeRow,
    ChangesReport,
    KindRow,
    NeighbourRow,
    PeerRow,
    SlowRow,
)


def test_sure_changes_come_first() -> None:
    rows = [change(), change(direction="improvement"), change(sure=False)]
    assert changes_headline(rows, [slow()], 40) == (
        "1 sure regression and 1 sure improvement; 1 possible; 1 node is slower than peers (40 series)."
    )


def test_nothing_sure_is_said() -> None:
    assert changes_headline([], [], 40) == (
        "No change is sure; none more is possible; 0 nodes are slower than peers (40 series)."
    )


def test_too_little_data_is_no_all_clear() -> None:
    assert (
        changes_headline([], [], 0) == "There is too little data to say whether anything changed."
    )


NAMES = {"cluster": "lab", "job_name": "train", "user": "ana", "model": "H100"}


def change(**more: Any) -> ChangeRow:
    values: dict[str, Any] = {
        "kind": "name",
        "labels": NAMES,
        "direction": "regression",
        "sure": True,
        "at": "2026-01-10T06:00:00Z",
        "after_last": "2026-01-09T16:00:00Z",
        "factor": 0.4,
        "factor_low": 0.36,
        "factor_high": 0.44,
        "ofu_before": 0.31,
        "ofu_after": 0.124,
        "chance_of_series": 0.001,
        "chance_in_report": 0.0004,
        "lost_gpu_hours": 16588.8,
        "before": [NeighbourRow(job_id="9", begin="2026-01-09", ofu=0.3, gpus=8, gpu_hours=1)],
        "after": [NeighbourRow(job_id="10", begin="2026-01-10", ofu=0.12, gpus=8, gpu_hours=1)],
        "shares": [],
    }
    return ChangeRow(**{**values, **more})


def slow(**more: Any) -> SlowRow:
    values: dict[str, Any] = {
        "cluster": "lab",
        "node": "n7",
        "gpu": "3",
        "uuid": "GPU-7-3",
        "compared": "sm_clock",
        "slower": 0.2,
        "slower_low": 0.19,
        "slower_high": 0.21,
        "sure": True,
        "chance": 0.00001,
        "hours": 40,
        "jobs": ["1", "2"],
    }
    return SlowRow(**{**values, **more})


def report(changes: list[ChangeRow], slow_rows: list[SlowRow]) -> ChangesReport:
    return ChangesReport(
        server="http://p",
        headline=changes_headline(changes, slow_rows, 12),
        time=AskedTime(
            start="2025-12-27T00:00:00Z", end="2026-01-10T00:00:00Z", hours=336, covered_ratio=0.5
        ),
        clusters=[],
        series=[KindRow(kind="name", tested=12, too_short=3, likeness=0.1)],
        report_level=0.01,
        expected_false=0.6,
        least_factor=1.1,
        smaller=2,
        changes=changes,
        slow=slow_rows,
        peers=[PeerRow(compared="ofu", of="gpu", count=40, too_few_hours=4, spread=0.01)],
        missing=[MissingRow(what="jobs", start="c", end="d", why="too many samples")],
        notes=["A note."],
        reading=ReadingCost(queries=1, seconds=0.1, samples=None),
    )


def test_a_change_is_one_row_with_its_size_its_interval_and_its_chance() -> None:
    shown = document(report([change()], [])).plain()
    row = next(line for line in shown.splitlines() if line.startswith("jobs train"))
    assert row.split("  ")[0] == "jobs train of ana on H100 in lab"
    for cell in ("2026-01-10T06:00:00Z", "31.0%", "12.4%", "0.40", "0.36-0.44", "0.04%", "16,589"):
        assert cell in row
    assert "9 30.0%" in shown
    assert "10 12.0%" in shown


def test_it_says_what_was_looked_at_and_what_is_missing() -> None:
    shown = document(report([], [])).plain()
    assert "Series tested: 12 by name; 3 more have too few points." in shown
    assert "at most 1%" in shown
    assert "50.0% of it covered by data" in shown
    assert "2 changes by less than a factor of 1.1 are left out." in shown
    assert "Not read: jobs, c to d: too many samples" in shown
    assert "40 GPUs were compared with peers by OFU, 4 more too briefly" in shown
    assert "- A note." in shown
    assert "up to 0.6 false alarms are expected" in shown


def test_a_slow_gpu_says_by_what_and_how_sure() -> None:
    shown = document(
        report([], [slow(), slow(gpu=None, uuid=None, sure=False, jobs=["1"])])
    ).plain()
    assert "lab/n7  3    SM clock" in shown
    assert "in one job only" in shown
    assert "1 node is slower than peers" in shown


def test_sure_and_possible_changes_are_apart() -> None:
    shown = document(report([change(), change(sure=False, chance_in_report=1.0)], [])).plain()
    assert "Sure changes (1):" in shown
    assert "Possible changes (1):" in shown


def test_at_most_as_many_rows_as_asked_for() -> None:
    shown = document(report([change() for _ in range(9)], []), most_rows=2).plain()
    assert "Sure changes (9):" in shown
    assert shown.count("16,589") == 2


def test_a_name_cannot_write_to_the_terminal() -> None:
    evil = change(labels={**NAMES, "job_name": "\x1b[2J|x"})
    assert "\x1b" not in document(report([evil], [])).plain()
    assert "\\|x" in document(report([evil], [])).markdown()


def test_no_sentence_of_a_file_is_obeyed_by_a_terminal_or_is_an_element_of_a_page() -> None:
    evil = "\x1b[31m<script>x</script> [a](javascript:x)"
    found = report([], []).model_copy(update={"headline": evil, "notes": [evil]})
    found = found.model_copy(update={"time": found.time.model_copy(update={"start": evil})})
    assert "\x1b" not in document(found).plain() + document(found).markdown()
    assert "<script" not in document(found).markdown()
    assert " [a](" not in document(found).markdown()


@pytest.mark.parametrize(
    ("kind", "labels", "words"),
    [
        ("name", {**NAMES, "user": "", "model": "", "cluster": ""}, "jobs train"),
        ("model", {"cluster": "lab", "model": "H100"}, "all H100 in lab"),
        ("node", {"cluster": "", "node": "n1"}, "node n1 against its peers"),
        ("job", {"cluster": "", "job_id": "7", "job_name": "long"}, "job 7 long"),
        ("job", {"cluster": "lab", "job_id": "7"}, "job 7 in lab"),
    ],
)
def test_what_changed_is_said_in_words(kind: str, labels: dict[str, str], words: str) -> None:
    assert subject(change(kind=kind, labels=labels)) == words


def test_a_small_chance_is_a_bound() -> None:
    assert (chance(1e-9), chance(0.0123), chance(1.0)) == ("< 0.01%", "1.23%", "100.00%")
