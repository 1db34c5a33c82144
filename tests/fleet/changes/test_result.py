"""The published schema is that of the answer."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from ofu_exporter.fleet.changes.result import ChangesReport
from tests.fleet.changes.test_text import change, report, slow

SCHEMA = Path(__file__).parents[3] / "docs" / "fleet-changes.schema.json"


def test_the_published_schema_is_that_of_the_code(regenerate: bool) -> None:
    """Regenerate with `pytest --regenerate`; a change that breaks readers needs another schema_version."""
    made = json.dumps(ChangesReport.model_json_schema(), indent=2) + "\n"
    if regenerate:
        SCHEMA.write_text(made)
    assert SCHEMA.read_text() == made


def test_answers_keep_to_the_schema() -> None:
    schema = json.loads(SCHEMA.read_text())
    for found in (report([], []), report([change()], [slow(gpu=None, uuid=None)])):
        jsonschema.validate(json.loads(found.model_dump_json()), schema)
