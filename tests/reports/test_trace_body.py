"""A report with a trace: what is taken, what is refused, and what a job keeps of it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ofu_exporter.jobs.totals import JobTotals, merged, totals_of
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.values.job import Job
from ofu_exporter.values.trace import Finding, RankTime, TimeParts, TraceResult, reported, summary
from tests.helpers.desk import Desk

JOB = Job("slurm", "7")
PARTS = {"tensor": 0.4, "other": 0.2, "communication": 0.1, "copies": 0.05, "idle": 0.25}
HOST = {
    "finding": "host_bound",
    "share": 0.2,
    "seconds": 0.4,
    "evidence": "launches",
    "remedy": "x",
}
TRACE: dict[str, Any] = {"ranks": 2, "seconds": 2.0, "parts": PARTS, "findings": [HOST]}


def rank(seconds: float, *parts: float) -> RankTime:
    return RankTime(None, None, None, seconds, TimeParts(*parts), None)


@pytest.fixture
def desk() -> Desk:
    desk = Desk(1)
    desk.give(JOB, "0")
    desk.run(30)
    return desk


def kept(desk: Desk) -> JobTotals:
    desk.run(5)
    (view,) = desk.shown.jobs
    return totals_of(view, "n1", simulated=False)


def test_ranks_are_added_by_their_seconds() -> None:
    ranks = (rank(1.0, 1, 0, 0, 0, 0), rank(3.0, 0, 0, 0, 0, 1))
    whole = summary(TraceResult(ranks, ()), at=5.0)
    assert whole is not None
    assert (whole.ranks, whole.seconds, whole.at) == (2, 4.0, 5.0)
    assert whole.parts == TimeParts(0.25, 0, 0, 0, 0.75)._asdict()
    assert summary(TraceResult((), ()), at=5.0) is None
    assert reported(TraceResult((), ())) == {}


def test_what_the_command_sends_is_what_the_agent_takes() -> None:
    findings = tuple(Finding(f"f{n}", 0.1, 1.0, "e" * 300, "r") for n in range(9))
    body = reported(TraceResult((rank(2.0, 0.5, 0.5, 0, 0, 0),), findings, slowest_rank=3))
    report = MfuReport.model_validate({"job_id": "7", **body})
    assert report.facts_only
    assert report.trace is not None
    assert [each.finding for each in report.trace.findings] == ["f0", "f1", "f2", "f3", "f4"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ranks": 0},
        {"seconds": 0},
        {"seconds": float("nan")},
        {"parts": {**PARTS, "idle": 0.5}},
        {"parts": {**PARTS, "idle": -0.25, "tensor": 0.9}},
        {"findings": [HOST] * 6},
        {"findings": [{**HOST, "finding": "Ev{il"}]},
        {"findings": [{**HOST, "share": 1.5}]},
        {"findings": [{**HOST, "evidence": "x" * 301}]},
        {"more": 1},
    ],
)
def test_what_no_trace_says_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MfuReport.model_validate({"job_id": "7", "trace": {**TRACE, **wrong}})


def test_a_job_keeps_its_last_trace_and_adds_up_what_findings_cost(desk: Desk) -> None:
    desk.book.submit({"job_id": "7", "trace": TRACE})
    more = {**TRACE, "ranks": 4, "findings": [{**HOST, "seconds": 1.0}]}
    desk.book.submit({"job_id": "7", "trace": more})
    of_job = kept(desk).reported
    assert of_job is not None
    assert of_job.trace is not None
    assert (of_job.trace.ranks, of_job.trace.parts["idle"]) == (4, 0.25)
    assert of_job.finding_seconds == {"host_bound": pytest.approx(1.4)}
    assert of_job.traced_seconds == pytest.approx(TRACE["seconds"] + more["seconds"])
    next_run = desk.book._entries[JOB.key].next_run("later")
    assert next_run.traced_seconds == of_job.traced_seconds
    assert next_run.finding_seconds == of_job.finding_seconds


def test_a_job_has_five_series_of_findings_at_most(desk: Desk) -> None:
    for n in range(20):
        desk.book.submit(
            {"job_id": "7", "trace": {**TRACE, "findings": [{**HOST, "finding": f"f{n}"}]}}
        )
    of_job = kept(desk).reported
    assert of_job is not None
    assert len(of_job.finding_seconds) == 5
    of_first = of_job.finding_seconds["f0"]
    desk.book.submit({"job_id": "7", "trace": {**TRACE, "findings": [{**HOST, "finding": "f0"}]}})
    again = kept(desk).reported
    assert again is not None
    assert again.finding_seconds["f0"] == pytest.approx(2 * of_first)


def test_a_trace_goes_through_the_state_file_and_to_the_next_agent(desk: Desk) -> None:
    desk.book.submit({"job_id": "7", "trace": TRACE})
    saved = JobTotals.model_validate_json(kept(desk).model_dump_json())
    assert saved.reported is not None
    assert saved.reported.trace == kept(desk).reported.trace  # type: ignore[union-attr]
    desk.book = desk.opened()
    desk.book.resume(JOB.key, "", saved.reported)
    again = kept(desk).reported
    assert again is not None
    assert again.trace == saved.reported.trace
    assert again.finding_seconds == saved.reported.finding_seconds
    assert again.traced_seconds == saved.reported.traced_seconds > 0


def test_of_several_nodes_the_last_trace_counts_and_costs_are_added(desk: Desk) -> None:
    desk.book.submit({"job_id": "7", "trace": TRACE})
    first = kept(desk)
    desk.run(10)
    desk.book.submit({"job_id": "7", "trace": {**TRACE, "ranks": 9}})
    second = kept(desk)
    both = merged([second, first]).reported
    assert both is not None
    assert both.trace is not None
    assert both.trace.ranks == 9
    assert both.finding_seconds["host_bound"] == pytest.approx(0.4 + 0.8)
    assert both.traced_seconds == pytest.approx(3 * TRACE["seconds"])


@pytest.mark.parametrize("share", ["NaN", "Infinity", '"x"'])
def test_a_tampered_state_file_is_refused(desk: Desk, share: str) -> None:
    desk.book.submit({"job_id": "7", "trace": TRACE})
    text = kept(desk).model_dump_json().replace('"tensor":0.4', f'"tensor":{share}')
    with pytest.raises(ValidationError):
        JobTotals.model_validate_json(text)
