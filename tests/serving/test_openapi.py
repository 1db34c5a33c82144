"""The description of the API: to the byte as clients were generated from it, and true to the models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ofu_exporter import __version__
from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.app import all_routes
from ofu_exporter.serving.gpu_json import gpu_state
from ofu_exporter.serving.openapi import openapi
from ofu_exporter.serving.page import Page
from tests.helpers.node import snapshot_of
from tests.helpers.values import FakeClock, reading

GOLDEN = Path(__file__).parents[1] / "golden" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    page = Page(FakeClock())
    book, reports = JobBook(page.snapshot, "node1"), ReportBook(page.snapshot)
    return openapi(all_routes(page, book, reports, Access()))


def test_the_description_that_clients_were_generated_from(
    document: dict[str, Any], regenerate: bool
) -> None:
    """The file was first made by FastAPI, from the same models."""
    text = json.dumps(document, indent=1).replace(f'"{__version__}"', '"VERSION"') + "\n"
    if regenerate:
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "$ref":
                yield each
            else:
                yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_every_reference_leads_to_a_schema_and_every_schema_is_used(
    document: dict[str, Any],
) -> None:
    used = {each.removeprefix("#/components/schemas/") for each in references(document)}
    assert used == set(document["components"]["schemas"])


def test_operations_have_names_of_their_own(document: dict[str, Any]) -> None:
    names = [
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
    ]
    assert len(set(names)) == len(names)


def test_what_is_answered_fits_its_schema(document: dict[str, Any]) -> None:
    snapshot = snapshot_of(reading())
    shown = json.loads(gpu_state(snapshot.gpus[0], snapshot).model_dump_json())
    schema = {"$ref": "#/components/schemas/GpuState", "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(shown)
    del shown["uuid"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(shown)
