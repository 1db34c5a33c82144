"""How many of the sure changes may be false alarms."""

from __future__ import annotations

from ofu_exporter.fleet.changes.text import document
from tests.fleet.changes.test_text import report


def test_false_alarms_are_never_up_to_none() -> None:
    several = report([], []).model_copy(update={"expected_false": 15.05})
    assert "up to 16 false alarms are expected" in document(several).plain()
