"""Rows for other programs: Parquet has the values, types and meanings of the report, also where nothing is known."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest

from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.pages.rows import as_focus, as_parquet, rows
from ofu_exporter.fleet.reports.result import By, FleetReport
from tests.fleet.reports.test_fleet_report import UNMEASURED, history, report
from tests.helpers.every import every

parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow, which tests/run installs")


def read(found: FleetReport) -> Any:
    return parquet.read_table(io.BytesIO(as_parquet(found)))


@every(["job", "user"])
def test_what_is_read_back_is_what_was_written_and_unknown_is_null(by: By) -> None:
    found = report(by=by)
    assert read(found).to_pylist() == [row.model_dump() for row in rows(found)[1]]


@every(["job", "user"])
def test_columns_have_the_same_types_whether_anything_is_known_or_not(by: By) -> None:
    """Files of many weeks are read together."""
    full, unknown, empty = (
        read(report(each, by)) for each in (history(UNMEASURED), history(), history(installed=0.0))
    )
    assert full.schema.equals(unknown.schema)
    assert full.schema.equals(empty.schema)
    kinds = {str(column.type) for column in full.schema}
    assert kinds <= {"string", "double", "int64", "bool"}


def test_columns_say_what_they_are_and_the_file_its_currency_and_time() -> None:
    table = read(report(by="job"))
    assert table.schema.field("error").metadata[b"description"].startswith(b"MFU - OFU")
    assert table.schema.metadata[b"currency"] == b"USD"
    assert table.schema.metadata[b"start"] == b"2024-10-04T00:00:00Z"


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
    held_by_nobody = "GPUs that no job held"
    for line in found:
        assert (line["ChargeDescription"] == held_by_nobody) == (line["SubAccountId"] == "")
    assert {line["ChargeDescription"] for line in found} == {"GPUs held by jobs", held_by_nobody}
    assert found[0]["BillingPeriodStart"] == "2024-10-01T00:00:00Z"
    assert found[0]["BillingPeriodEnd"] == "2024-11-01T00:00:00Z"


def test_a_cost_that_nobody_told_is_empty() -> None:
    assert {line["BilledCost"] for line in lines(as_focus(report(prices=Prices())))} == {""}


def test_a_report_without_a_day_has_its_header() -> None:
    assert as_focus(report(history(installed=0.0))).startswith("BillingPeriodStart,")
