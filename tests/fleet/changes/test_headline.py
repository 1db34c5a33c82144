"""The first sentence: what a reader should know who reads nothing else."""

from __future__ import annotations

from ofu_exporter.fleet.changes.headline import headline
from tests.fleet.changes.test_text import change, slow


def test_sure_changes_come_first() -> None:
    rows = [change(), change(direction="improvement"), change(sure=False)]
    assert headline(rows, [slow()], 40) == (
        "1 sure regression and 1 sure improvement; 1 possible; 1 node is slower than peers (40 series)."
    )


def test_nothing_sure_is_said() -> None:
    assert headline([], [], 40) == (
        "No change is sure; none more is possible; 0 nodes are slower than peers (40 series)."
    )


def test_too_little_data_is_no_all_clear() -> None:
    assert headline([], [], 0) == "There is too little data to say whether anything changed."
