"""The published schema is that of the report, and reports keep to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema

from ofu_exporter.fleet.reports.result import FleetReport
from tests.fleet.reports.test_fleet_report import history, report

SCHEMA = Path(__file__).parents[3] / "docs" / "fleet-report.schema.json"


def test_the_published_schema_is_that_of_the_code(generated: Callable[[Path, str], None]) -> None:
    """A change that breaks readers needs another schema_version."""
    made = json.dumps(FleetReport.model_json_schema(), indent=2) + "\n"
    generated(SCHEMA, made)


def test_reports_keep_to_the_schema() -> None:
    schema = json.loads(SCHEMA.read_text())
    for found in (report(), report(history(installed=0.0))):
        jsonschema.validate(json.loads(found.model_dump_json()), schema)
