"""Sums of jobs are added name by name, and none is forgotten."""

from __future__ import annotations

from dataclasses import fields

from ofu_exporter.fleet.history.fleet_history import JobSums, ModelSums
from ofu_exporter.fleet.history.progress_sums import ProgressSums
from ofu_exporter.fleet.history.served_sums import ServedSums
from tests.helpers.every import every

NUMBERS = [each.name for each in fields(JobSums) if each.name != "lost"]


@every([JobSums, ModelSums, ServedSums, ProgressSums])
def test_what_nothing_was_added_to_is_0(sums: type) -> None:
    made = sums()
    numbers = [getattr(made, each.name) for each in fields(made)]
    assert {each for each in numbers if isinstance(each, int | float)} == {0.0}


def test_every_sum_is_added() -> None:
    sums, more = JobSums(), JobSums()
    for number, name in enumerate(NUMBERS, 1):
        sums.add_one(name, float(number))
        more.add_one(name, float(number))
    sums.add_each("lost", [3.0], "idle")
    sums.add(JobSums(lost={"idle": 1.0, "clock": 0.5}))
    sums.add(more)
    assert [getattr(sums, name) for name in NUMBERS] == [
        2.0 * number for number, _ in enumerate(NUMBERS, 1)
    ]
    assert sums.lost == {"idle": 4.0, "clock": 0.5}
