"""Numbers of the tables: few have a decimal, and nothing has no sign."""

from __future__ import annotations

from ofu_exporter.fleet.reports import figures
from tests.helpers.every import every


@every([(0.14, "0.14"), (8.0, "8"), (0.0, "0"), (64.001, "64"), (None, "-")])
def test_a_part_of_a_gpu_is_not_none(value: float | None, shown: str) -> None:
    assert figures.gpus(value) == shown


@every([(0.4, "0.4"), (-0.04, "0.0"), (-0.4, "-0.4"), (12.4, "12"), (None, "-")])
def test_few_gpu_hours_have_a_decimal_and_nothing_has_no_sign(
    value: float | None, shown: str
) -> None:
    assert figures.hours(value) == shown


@every([(0.4, "0 EUR"), (-0.4, "0 EUR"), (-1234.0, "-1,234 EUR"), (None, "-")])
def test_no_money_has_no_sign(value: float | None, shown: str) -> None:
    assert figures.money(value, "EUR") == shown


@every([(999_499, "999,499"), (999_600, "1 M"), (999_499_000, "999 M"), (999_600_000, "1 G")])
def test_tokens_have_the_unit_that_they_are_rounded_to(value: float, shown: str) -> None:
    assert figures.tokens(value) == shown


def test_a_period_is_days_with_the_times_where_one_is_not_midnight() -> None:
    first, midnight, morning = (f"2026-11-{at}:00Z" for at in ("01T00:00", "30T00:00", "30T07:30"))
    assert figures.period(first, midnight) == "2026-11-01 to 2026-11-30"
    assert figures.period(first, morning) == "2026-11-01 00:00 to 2026-11-30 07:30 UTC"
