"""What the status page shows where one value of a node is another, 0 or not known, golden: the lines that differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ofu_exporter import __version__
from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.serving.history import History
from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.serving.pages.job_page import job_page
from ofu_exporter.serving.pages.node_page import node_page
from ofu_exporter.values.job import Job
from tests.fleet.pages.test_golden_reports import bare
from tests.helpers.changed import lines_that_differ
from tests.helpers.rounding import without_last_digits
from tests.helpers.shown_node import LINES, LLAMA, MOE, node_after
from tests.jobs.test_golden_summaries import SERVED
from tests.terminal.test_golden_edges import printed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("in_utc"),
    pytest.mark.xdist_group("shown node"),
]


@pytest.mark.parametrize("part", ["gpus", "jobs", "rest"])
def test_another_value_is_shown_as_it_was(part: str, golden: Callable[[str, str], None]) -> None:
    usual = printed()

    def told(changed: dict[str, Any]) -> list[str] | None:
        try:
            made = NodeJson.model_validate_json(json.dumps({**usual, **changed}))
            page = bare(node_page(made, LINES)).replace(__version__, "VERSION")
        except ValueError:  # the page is of the agent's own values
            return None
        return [line.strip() for line in page.splitlines() if line.strip()]

    rest = {key: each for key, each in usual.items() if key not in ("gpus", "jobs")}
    document = rest if part == "rest" else {part: usual[part]}
    golden(f"edges/page-{part}.txt", lines_that_differ(document, told))


@pytest.mark.parametrize("job", [LLAMA, MOE], ids=lambda job: job.name)
def test_another_total_of_a_job_is_shown_as_it_was(
    job: Job, golden: Callable[[str, str], None]
) -> None:
    found = JobBook(lambda: node_after().snapshot, "node-17").find(job.job_id)
    assert found is not None
    usual = {**found.model_dump(mode="json"), "served": SERVED}
    (run,) = usual["runs"]
    began = run["began"]
    usual["runs"] = [{**run, "ended": began + 600.0}, {**run, "began": began + 900.0}]
    usual["starts"] = [[began, began + 60.0], [began + 900.0, began + 1000.0]]

    def told(changed: dict[str, Any]) -> list[str] | None:
        try:
            page = job_page(JobTotals.model_validate_json(json.dumps(changed)), History())
        except ValueError:  # no state file has it
            return None
        return [line.strip() for line in bare(page).splitlines() if line.strip()]

    text = lines_that_differ({**usual}, told).replace(__version__, "VERSION")
    golden(f"edges/page-of-{job.name}.txt", without_last_digits(text))
