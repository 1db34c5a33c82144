"""How far a job has come survives a file and is added over nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.values.instant import Span
from ofu_exporter.values.progress import (
    MOST_RECOVERIES,
    MOST_RUN_LINES,
    MOST_SPANS,
    Fall,
    Progress,
    Recovery,
    RunLine,
    Unsure,
)
from tests.helpers.documents import reporting
from tests.reports.test_progress import GPUS, Told

PROGRESS = Progress(
    "llama",
    {"": RunLine(9, 1000.0), "llama": RunLine(150, 1090.0, 100)},
    step=120,
    highest_before=150,
    stopped=1090.0,
    until=1095.0,
    pace=10.0,
    fall=Fall(119, 1096.0, 1096.0, 118, 1095.0),
    done_again_seconds=8.0,
    evaluation_seconds=0.0,
    restarts=2,
    recoveries=(Recovery(1090.0, 110, 150, None, 1092.0),),
    again=(Span(1091.0, 1095.0),),
)


@pytest.mark.parametrize(
    ("name", "most", "some"),
    [
        ("lines", MOST_RUN_LINES, lambda n: {str(each): RunLine(1, 1.0) for each in range(n)}),
        ("recoveries", MOST_RECOVERIES, lambda n: PROGRESS.recoveries * n),
        ("again", MOST_SPANS, lambda n: PROGRESS.again * n),
        ("unsure", MOST_SPANS, lambda n: (Unsure("checkpoint", 1.0, 2.0, 8.0),) * n),
    ],
)
def test_as_much_as_an_agent_keeps_is_possible_and_no_more(
    name: str, most: int, some: Callable[[int], Any]
) -> None:
    kept, more = (replace(PROGRESS, **{name: some(number)}) for number in (most, most + 1))
    assert (kept.is_possible, more.is_possible) == (True, False)


def test_how_far_a_job_has_come_survives_the_file() -> None:
    document = reporting(progress=PROGRESS).model_dump_json()
    reported = JobTotals.model_validate_json(document).reported
    assert reported is not None
    assert reported.progress == PROGRESS


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": -1},
        {"step": 1 << 60},
        {"until": 1e300},
        {"done_again_seconds": -1.0},
        {"restarts": -1},
        {"lines": {str(n): RunLine(1, 1.0) for n in range(1000)}},
        {"lines": {"": RunLine(1 << 60, 1.0)}},
        {"lines": {"": RunLine(1, 1e300)}},
        {"recoveries": (Recovery(-1.0, 1, 1),)},
        {"recoveries": (Recovery(1.0, 1 << 60, 1),)},
        {"unsure": (Unsure("checkpoint", 1.0, 1e300, 8.0),)},
        {"fall": Fall(1 << 60, 1.0, 2.0, 1, 1.0)},
        {"fall": Fall(1, 1.0, 1e300, 1, 1.0)},
        {"again": ((1.0, 2.0),) * 1000},
        {"run": "a\nb"},
        {"run": "a" * 257},
        {"recoveries": (Recovery(1.0, 1, 1),) * 17},
        {"until": 1.01e11},
    ],
)
def test_a_progress_that_no_agent_wrote_is_refused(wrong: dict[str, Any]) -> None:
    document = json.loads(reporting(progress=PROGRESS).model_dump_json())
    document["reported"]["progress"] |= json.loads(json.dumps(wrong))
    with pytest.raises(ValidationError, match="progress"):
        JobTotals.model_validate(document)


def test_the_most_that_an_agent_writes_is_read() -> None:
    most = replace(PROGRESS, run="a" * 256, recoveries=PROGRESS.recoveries * 16, until=1e11)
    document = reporting(progress=most).model_dump_json()
    reported = JobTotals.model_validate_json(document).reported
    assert reported is not None
    assert reported.progress == most


def test_what_two_names_of_a_job_knew_is_added() -> None:
    one = Told().step(100, 10).event("evaluation", 10, 19).progress
    other = Told().step(70, 12).event("checkpoint", 12, 15, 70).progress
    for both in (one.plus(other), other.plus(one)):
        assert both.lines[""].step == 100
        assert both.evaluation_seconds == pytest.approx(9 * GPUS)
        assert both.checkpoint_seconds == pytest.approx(3 * GPUS)
