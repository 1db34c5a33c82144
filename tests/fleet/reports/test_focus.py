"""The cost export has FOCUS' columns, and sums to the costs of the report."""

from __future__ import annotations

import csv
import io
import re

import pytest

from ofu_exporter.fleet.reports.focus import as_focus
from ofu_exporter.fleet.reports.prices import Prices
from tests.fleet.reports.test_fleet_report import history, report

REQUIRED = {
    *("BilledCost", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory"),
    *("ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "EffectiveCost", "ListCost"),
    *("ServiceCategory", "ServiceName"),
}
"""Mandatory in FOCUS 1.0 and fillable here."""


def lines(text: str) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(text))]


def test_it_sums_to_the_report_and_every_own_column_is_marked() -> None:
    found = lines(as_focus(report()))
    assert sum(float(line["BilledCost"]) for line in found) == pytest.approx(800)
    assert sum(float(line["ConsumedQuantity"]) for line in found) == pytest.approx(400)
    assert found[0].keys() >= REQUIRED
    assert all(re.fullmatch(r"[A-Z]\w+|x_[A-Z]\w+", name) for name in found[0])
    assert found[0]["BillingPeriodStart"] == "2024-10-01T00:00:00Z"
    assert found[0]["BillingPeriodEnd"] == "2024-11-01T00:00:00Z"


def test_a_cost_that_nobody_told_is_empty() -> None:
    assert {line["BilledCost"] for line in lines(as_focus(report(prices=Prices())))} == {""}


def test_a_report_without_a_day_has_its_header() -> None:
    assert as_focus(report(history(installed=0.0))).startswith("BillingPeriodStart,")
