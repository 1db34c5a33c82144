"""A whole report says what it found once, and compares single GPUs for a bounded time."""

from __future__ import annotations

from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.hours import HOUR
from ofu_exporter.fleet.whole_report import _without_twice
from tests.fleet.changes.test_text import change
from tests.fleet.changes.test_text import report as changes_report
from tests.fleet.reports.test_fleet_report import SPAN, history, report


def test_what_the_report_says_itself_is_not_said_of_changes_too() -> None:
    whole = report(prices=Prices())
    assert whole.notes
    changes = changes_report([change()], [])
    twice = changes.model_copy(update={"notes": [*whole.notes, "its own"]})
    assert _without_twice(twice, whole).notes == ["its own"]


def test_single_gpus_are_compared_for_the_last_hours_that_have_so_many_gpu_hours() -> None:
    made = history(installed=400.0)  # in 48 hours
    made.raw = {("a", made.clock.hour_of(SPAN.start) + at) for at in (1, 25, 48)}
    last = made.last(200.0)
    assert (last.span.end, last.span.hours) == (SPAN.end, 24)
    assert {hour for _, hour in last.raw} == {
        made.clock.hour_of(SPAN.start) + 25,
        made.clock.hour_of(SPAN.end),
    }
    assert made.last(400.0).span == made.span
    assert made.last(0.0).span.start == SPAN.end - HOUR
