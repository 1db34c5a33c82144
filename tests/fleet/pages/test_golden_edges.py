"""What texts of a fleet say where one number of a report is another, 0 or not known, golden: the lines that differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ofu_exporter.fleet.changes.text import document as changes_document
from ofu_exporter.fleet.changes_result import ChangesReport
from ofu_exporter.fleet.digest import text as digest_text
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.fleet.pages import report_text
from ofu_exporter.fleet.pages.job_page import job_text
from ofu_exporter.fleet.reports.job_result import JobResult
from ofu_exporter.fleet.reports.result import FleetReport
from tests.fleet.pages.test_golden_reports import changes as changes_of
from tests.fleet.pages.test_golden_reports import of_ada, story, whole
from tests.helpers.changed import lines_that_differ
from tests.helpers.rounding import rounded

pytestmark = pytest.mark.slow


def report(made: Any) -> str:
    return report_text.document(made, None, 5).plain()


TEXTS: dict[str, tuple[Callable[[], BaseModel], type[BaseModel], Callable[[Any], str]]] = {
    "report": (whole, FleetReport, report),
    "job": (story, JobResult, job_text),
    "digest": (of_ada, Digest, lambda made: digest_text.text(made, 2)),
    "changes": (changes_of, ChangesReport, lambda made: changes_document(made).plain()),
}


def short(value: Any) -> Any:
    """With two rows at most of each table."""
    if isinstance(value, dict):
        return {key: short(each) for key, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [short(each) for each in value[:2]]
    return value


def printed(name: str) -> dict[str, Any]:
    made = rounded(TEXTS[name][0]().model_dump(mode="json"))
    assert isinstance(made, dict)
    return {key: short(each) for key, each in made.items()}


def parts() -> Iterator[tuple[str, str]]:
    for name in TEXTS:
        yield name, ""
        for key, each in printed(name).items():
            if isinstance(each, (list, dict)) and each:
                yield name, key


@pytest.mark.parametrize(("name", "part"), [*parts()])
def test_another_number_is_told_as_it_was(
    name: str, part: str, golden: Callable[[str, str], None]
) -> None:
    _, model, text = TEXTS[name]
    usual = printed(name)

    def told(changed: dict[str, Any]) -> list[str] | None:
        try:
            return text(model.model_validate_json(json.dumps({**usual, **changed}))).splitlines()
        except (ValidationError, KeyError, ZeroDivisionError):
            return None  # no reader of a file and no report lets such an answer pass

    own = {key: each for key, each in usual.items() if not isinstance(each, (list, dict))}
    document = {part: usual[part]} if part else own
    golden(f"edges/{name}-{part or 'itself'}.txt", lines_that_differ(document, told))
