"""What is said of a job's totals, with each of them changed, and of two nodes' totals together, golden."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from pydantic import ValidationError

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.jobs.summary import one_line, summary_text
from ofu_exporter.jobs.totals import JobTotals, merged
from tests.helpers.changed import changes
from tests.helpers.rounding import rounded
from tests.helpers.shown_node import LLAMA, MOE, NOTEBOOK, node_after

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("shown node")]

JOBS = {job.name: job for job in (LLAMA, MOE, NOTEBOOK)}
VERDICTS = ("agree", "mfu_above_ofu", "mfu_below_ofu", "insufficient_data")
SERVED = [
    {
        "served_model": "llama",
        "seconds": 14000.0,
        "tokens": {"prompt": 9e8, "generation": 2e7},
        "requests": 1234.0,
        "forward_seconds": {"decode": 9000.0},
        "moved_bytes": {"read": 2e16, "write": 1e15},
        "flops": 3e18,
    },
    {"served_model": "", "seconds": 100.0, "tokens": {"prompt": 0.0}, "requests": 3.0},
]


def totals(name: str) -> JobTotals:
    found = JobBook(lambda: node_after().snapshot, "node-17").find(JOBS[name].job_id)
    assert found is not None
    return found


def others(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield from (0, 1, 3 * value)
    elif isinstance(value, str):
        yield from ("", "other")
    elif isinstance(value, list):
        yield from ([], value[:1])
    elif value is None:
        yield from (1, "x", True)


def told(document: dict[str, Any]) -> list[str]:
    try:
        job = JobTotals.model_validate_json(json.dumps(document))
    except ValidationError:
        return ["refused"]
    return [one_line(job), *summary_text(job).splitlines()]


@pytest.mark.parametrize("name", JOBS)
def test_a_changed_job_is_told_as_it_was(name: str, golden: Callable[[str, str], None]) -> None:
    document = rounded(totals(name).model_dump(mode="json"))
    assert isinstance(document, dict)
    usual = told(document)
    lines = [*usual]
    for said, changed in changes(document, others):
        found = told(changed)
        if found not in (usual, ["refused"]):
            lines.append(said)
            compared = difflib.ndiff(usual, found)
            lines += [f"  {line}" for line in compared if line[:1] == "+"]
    golden(f"summaries/{name}.txt", "\n".join(lines) + "\n")


def test_a_job_that_serves_is_told_as_it_was(golden: Callable[[str, str], None]) -> None:
    document = rounded(totals("llama-8b-train").model_dump(mode="json"))
    assert isinstance(document, dict)

    def told_with(changed: dict[str, Any]) -> list[str]:
        return told({**document, **changed})

    lines = told_with({"served": SERVED})
    for said, changed in changes({"served": SERVED}, others):
        if (found := told_with(changed)) not in (lines, ["refused"]):
            lines += [said, *(f"  {line}" for line in found if line not in lines)]
    golden("summaries/serving.txt", "\n".join(lines) + "\n")


def test_each_verdict_is_told_as_it_was(golden: Callable[[str, str], None]) -> None:
    document = rounded(totals("llama-8b-train").model_dump(mode="json"))
    assert isinstance(document, dict)
    reported, lines = document["reported"], []
    for verdict, seconds in product(VERDICTS, (0.0, 20.0, 4000.0)):
        sums = {"mfu_seconds": 0.3 * seconds, "gpu_seconds": seconds, "verdict": verdict}
        changed = {**document, "reported": {**reported, **sums}}
        lines += [f"{verdict} {seconds:g}: {line}" for line in told(changed) if "MFU" in line]
    golden("summaries/verdicts.txt", "\n".join(lines) + "\n")


def test_the_totals_of_two_nodes_are_added_as_they_were(golden: Callable[[str, str], None]) -> None:
    lines = []
    for name in JOBS:
        one = totals(name)
        other = one.model_copy(update={"node": "node-18"})
        both = merged([one, other])
        lines += [name, one_line(both), summary_text(both)]
        lines.append(json.dumps(rounded(both.model_dump(mode="json", exclude_none=True)))[:4000])
    golden("summaries/merged.txt", "\n".join(lines) + "\n")
