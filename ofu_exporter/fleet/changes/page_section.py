"""Shows what changed as a part of a report's page, from the JSON that `fleet changes` writes."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path

from pydantic import ValidationError

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.changes.result import ChangesReport
from ofu_exporter.fleet.changes.survey import Kind
from ofu_exporter.fleet.changes.text import MOST_ROWS, facts, remarks, sections
from ofu_exporter.fleet.reports.report_page import ChangesSection
from ofu_exporter.support.small_files import read_small

MOST_BYTES = 64 << 20
_NEEDED: Mapping[Kind, Set[str]] = {
    "name": {"job_name", "user", "model"},
    "job": {"job_id"},
    "model": {"model"},
    "node": {"node"},
}
"""Labels without which nobody can tell what a change is of."""


def read_changes(path: Path) -> ChangesReport:
    """What `fleet changes --format json` wrote. Raises ConfigError, which names what cannot be used."""
    content = read_small(path, "--changes:", MOST_BYTES)
    try:
        report = ChangesReport.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigError(
            f"--changes: {path}: {place}: {first['msg']}; it takes what fleet changes --format json writes"
        ) from error
    for place_of, row in enumerate(report.changes):
        if missing := _NEEDED[row.kind] - row.labels.keys():
            raise ConfigError(
                f"--changes: {path}: changes.{place_of}.labels: no {', '.join(sorted(missing))}"
            )
    return report


def page_section(report: ChangesReport) -> ChangesSection:
    """What the page shows of it: what matters first, and every table that has rows."""
    return ChangesSection(
        report.headline,
        " ".join(facts(report)),
        [*sections(report, MOST_ROWS)],
        [*remarks(report)],
    )
