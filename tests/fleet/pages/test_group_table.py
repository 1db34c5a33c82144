"""How a group's OFU went over the periods, in a cell."""

from __future__ import annotations

from ofu_exporter.fleet.pages.group_table import signed_points, spark
from tests.helpers.every import every


@every([([0.0, 0.2, None, 0.4], "▁▅ █"), ([0.3], "█"), ([0.0, 0.0], "▁▁"), ([None], ""), ([], "")])
def test_a_bar_for_each_period_and_a_gap_for_what_is_not_known(
    values: list[float | None], drawn: str
) -> None:
    assert spark(values) == drawn


@every([(0.0123, "+1.2"), (-0.05, "-5.0"), (-0.0001, "+0.0"), (None, "-")])
def test_a_change_has_its_sign_and_nothing_has_none(value: float | None, said: str) -> None:
    assert signed_points(value) == said
