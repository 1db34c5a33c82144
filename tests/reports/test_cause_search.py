"""Causes are looked for when a job diverges, of one job at a time, and cost no report."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ofu_exporter.flops import explain
from ofu_exporter.ofu.divergence import Thresholds
from ofu_exporter.ofu.ownership.job_state import GRACE_SECONDS
from ofu_exporter.reports import causes as search
from ofu_exporter.reports.book import EXPLAINED_AT_ONCE
from ofu_exporter.reports.cause_question import EXPLAIN_SECONDS
from ofu_exporter.reports.causes import likely_causes
from ofu_exporter.reports.entry import Policy
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import ReportRejection
from ofu_exporter.values.reported import Causes, Verdict
from tests.helpers.desk import OFU, WITHOUT_NOISE, A, Desk, anybody, said
from tests.helpers.node import EPOCH, whole


def test_what_diverges_is_explained_by_the_thresholds_of_the_site(desk: Desk) -> None:
    """A point above OFU is nothing unusual, unless the site has said that it is."""
    near = OFU + 0.01
    answer = desk.report(mfu=near)
    assert answer.interval is not None
    assert (answer.interval.verdict, answer.causes) == (Verdict.AGREE, ())
    desk.book.policy = Policy(thresholds=Thresholds(above=0.005, standard_errors=0.0))
    desk.run(70.0)
    answer = desk.report(mfu=near)
    assert answer.interval is not None
    assert answer.interval.verdict is Verdict.MFU_ABOVE_OFU
    assert answer.horizon is not None
    assert answer.horizon.verdict is Verdict.MFU_ABOVE_OFU
    assert answer.causes
    desk.run(5.0)
    reports = desk.job().reports
    assert reports is not None
    assert reports.verdict is Verdict.MFU_ABOVE_OFU


def test_there_is_nothing_to_explain_of_what_was_not_compared_or_has_left() -> None:
    desk = Desk()
    desk.give(A, "0")
    desk.clock.now = 3.0
    receipt = desk.book.take(said(mfu=0.4), anybody)
    desk.book.explain(receipt.owner.key)
    assert desk.book.answer(receipt).causes == ()
    desk.node.give(4.0)
    desk.run(2 * GRACE_SECONDS)
    assert desk.shown.jobs == ()
    desk.book.explain(receipt.owner.key)
    assert desk.book.answer(receipt).causes == ()


@pytest.mark.slow
def test_divergence_is_explained_when_it_begins_and_now_and_then(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[float] = []
    look = likely_causes

    def counted(*args: Any) -> Causes:
        looked.append(desk.clock.now)
        return look(*args)

    monkeypatch.setattr(search, "likely_causes", counted)
    for _ in range(int(3.5 * EXPLAIN_SECONDS)):
        desk.run(1.0, window=1.0)
        desk.report(mfu=0.9)
    assert len(looked) == 4
    desk.report(gpus=2)
    at_once = len(looked)
    desk.run(1.0, window=1.0)
    desk.report(mfu=0.9, recompute="none")
    assert len(looked) == at_once + 1, "another fact is another explanation"


def late_windows(desk: Desk, *jobs: Job) -> None:
    """Reports of 120 s whose windows come only now: the verdict turns when nobody reports."""
    for job in jobs:
        desk.give(job, "0", "1")
    began = desk.clock.now
    desk.clock.now += 120.0
    answer = desk.report(mfu=2 * OFU, start=EPOCH + began)
    assert answer.horizon is not None
    assert (answer.horizon.verdict, answer.causes) == (Verdict.INSUFFICIENT_DATA, ())
    desk.clock.now = began
    desk.run(120.0)


def test_causes_are_there_as_soon_as_a_verdict_turns() -> None:
    desk = Desk(policy=WITHOUT_NOISE)
    late_windows(desk, A)
    reports = desk.job().reports
    assert reports is not None
    assert reports.recent_verdict is Verdict.MFU_ABOVE_OFU
    assert reports.causes is not None
    assert reports.causes.first is not None


@pytest.mark.parametrize(
    ("spent", "counts"),
    [("", [EXPLAINED_AT_ONCE, 2 * EXPLAINED_AT_ONCE, 5, 5]), ("12", [EXPLAINED_AT_ONCE, 3, 3, 3])],
)
def test_a_tick_looks_for_the_causes_of_few_jobs_and_the_next_goes_on(
    spent: str, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it looks, whoever needs the book gets it. Jobs that have spent their time hold up no other."""
    looked: list[str] = []
    desk = Desk(6, policy=WITHOUT_NOISE)

    def counted(*args: Any) -> Causes:
        with ThreadPoolExecutor(1) as another:
            another.submit(desk.book.reject, ReportRejection.MALFORMED).result(20)
        looked.append(args[0].report.job_id)
        return Causes()

    monkeypatch.setattr(search, "likely_causes", counted)
    jobs = [Job("slurm", str(number)) for number in range(1, 6)]
    desk.node.give(0.0, *(whole(job, str(place)) for place, job in enumerate(jobs)))
    desk.clock.now = 100.0
    for job in jobs:
        desk.report(job.job_id, mfu=0.9, start=EPOCH)
    assert looked == []
    for job_id in spent:
        desk.book.work.spend(1.5, job_id)
    desk.node.run(0.0, 100.0)
    found = []
    for _ in range(4):
        desk.show()
        found.append(len(looked))
    assert found == counts
    assert sorted(looked) == [each for each in "12345" if each not in spent]


def test_of_many_reports_at_once_one_explains(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    looking, going_on = threading.Event(), threading.Event()
    looks = []

    def slow(*args: Any) -> Causes:
        looks.append(args)
        looking.set()
        assert going_on.wait(20)
        return Causes()

    monkeypatch.setattr(search, "likely_causes", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(desk.report, mfu=0.9)
        assert looking.wait(20)
        desk.run(5.0)
        assert desk.report(mfu=0.9).causes == (), "nobody waits for an explanation of somebody else"
        going_on.set()
        first.result(20)
    assert len(looks) == 1


def test_an_explanation_that_fails_costs_the_answer_nothing(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No configuration is known that breaks it; whoever finds one must not break the report."""

    def broken(*args: object, **more: object) -> None:
        raise ZeroDivisionError("nothing to divide by")

    monkeypatch.setattr(explain, "explain", broken)
    answer = desk.report(mfu=0.9)
    assert answer.horizon is not None
    assert answer.horizon.verdict is Verdict.MFU_ABOVE_OFU
    assert answer.causes == ()
    (line,) = caplog.messages
    assert line.startswith("job 1: no causes looked for: cannot be explained: ZeroDivisionError")
    desk.run(5.0)
    assert desk.job().reports.causes == Causes()  # type: ignore[union-attr]


def test_nor_does_one_that_fails_in_another_way(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("never seen")

    monkeypatch.setattr(search, "likely_causes", broken)
    assert desk.report(mfu=0.9).mfu == 0.9
    assert caplog.messages == ["job 1: no causes found"]
    assert "RuntimeError: never seen" in caplog.text


def test_a_package_replaced_under_the_agent_costs_the_causes_and_no_report(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, search.__name__, None)
    assert desk.report(mfu=0.9).causes == ()
    assert caplog.messages[0].startswith("job 1: no causes looked for, restart the agent: ")
    monkeypatch.undo()
    desk.run(EXPLAIN_SECONDS + 1)
    assert desk.report(mfu=0.9).causes, "the next search finds it again"
