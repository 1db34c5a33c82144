"""The published schema is that of the answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.changes.text import document
from ofu_exporter.fleet.changes_result import ChangesReport, read_changes
from ofu_exporter.fleet.pages.report_page import page
from ofu_exporter.fleet.pages.tables import covered
from tests.fleet.changes.test_text import change, report, slow
from tests.fleet.reports.test_fleet_report import report as fleet_report
from tests.helpers.browser import BROWSER, violations
from tests.helpers.screenshots import LOOKS

SCHEMA = Path(__file__).parents[2] / "docs" / "fleet-changes.schema.json"


def test_the_published_schema_is_that_of_the_code(generated: Callable[[Path, str], None]) -> None:
    """A change that breaks readers needs another schema_version."""
    made = json.dumps(ChangesReport.model_json_schema(), indent=2) + "\n"
    generated(SCHEMA, made)


def test_answers_keep_to_the_schema() -> None:
    schema = json.loads(SCHEMA.read_text())
    for found in (report([], []), report([change()], [slow(gpu=None, uuid=None)])):
        jsonschema.validate(json.loads(found.model_dump_json()), schema)


FOUND = report([change(), change(sure=False, direction="improvement")], [slow()])


def test_the_page_has_every_change_and_slow_gpu_with_the_time_that_they_are_of() -> None:
    shown = page(fleet_report(), document(FOUND))
    for said in (
        FOUND.headline,
        covered(FOUND.time),
        "Sure changes (1)",
        "Possible changes (1)",
        "n7",
    ):
        assert said in shown
    assert "fleet changes --prometheus" not in shown


def test_names_of_others_are_text() -> None:
    hostile = change(
        labels={"cluster": "", "job_name": "<script>x</script>", "user": "", "model": ""}
    )
    shown = page(fleet_report(), document(report([hostile], [])))
    assert shown.count("<script>") == 1


def test_the_file_is_the_other_commands_json(tmp_path: Path) -> None:
    path = tmp_path / "changes.json"
    path.write_text(FOUND.model_dump_json())
    assert read_changes(path) == FOUND


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "the file: Invalid JSON"),
        ('{"schema_version": 1}', "server: Field required"),
        (
            FOUND.model_dump_json().replace('"schema_version":1', '"schema_version":2'),
            "schema_version",
        ),
        (FOUND.model_dump_json().replace('"user":', '"owner":'), "changes.0.labels: no user"),
        ("[" * 100_000, "recursion limit"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_none_is_refused_by_what_is_wrong_with_it(
    content: str | None, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "changes.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=why):
        read_changes(path)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "changes")
    with pytest.raises(ConfigError, match="is not a file"):
        read_changes(tmp_path / "changes")


def test_a_file_that_is_huge_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "changes.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ConfigError, match="is larger than 65536 KiB"):
        read_changes(path)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium, which tests/run installs on Debian")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing(look: str, tmp_path: Path) -> None:
    assert violations(page(fleet_report(), document(FOUND)), tmp_path, look) == []
