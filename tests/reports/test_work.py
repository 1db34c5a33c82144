"""CPU time that reports cost is known afterwards; whoever has used too much of it waits."""

from __future__ import annotations

import time

import pytest

from ofu_exporter.errors import ReportError
from ofu_exporter.reports.work import ADDRESS, ALL, AT_ONCE_SECONDS, JOB, SHARES, WorkBudget
from ofu_exporter.values.reasons import ReportRejection
from tests.helpers.values import FakeClock


def refused(work: WorkBudget, **whom: str) -> ReportError:
    with pytest.raises(ReportError) as error:
        work.check(**whom)
    assert error.value.reason is ReportRejection.TOO_MANY
    return error.value


def test_a_job_that_has_used_its_time_waits_and_no_other_does() -> None:
    clock = FakeClock(0.0)
    work = WorkBudget(clock)
    work.spend(AT_ONCE_SECONDS[JOB], job="1")
    error = refused(work, job="1", address="10.0.0.1")
    assert "what the job had the agent count" in str(error)
    work.check("2", "10.0.0.1")
    assert error.retry_after is not None
    clock.now += error.retry_after
    work.check("1")
    work.spend(1.0, job="1")
    error = refused(work, job="1")
    assert error.retry_after == pytest.approx(1.0 / SHARES[JOB], rel=0.01)


def test_an_address_has_the_time_of_a_few_jobs() -> None:
    work = WorkBudget(FakeClock(0.0))
    work.spend(AT_ONCE_SECONDS[ADDRESS], "1", "10.0.0.1")
    assert "this address" in str(refused(work, job="2", address="10.0.0.1"))
    work.check("2", "10.0.0.2")
    assert SHARES[JOB] < SHARES[ADDRESS] < SHARES[ALL]


def test_all_together_leave_most_of_a_core_to_others() -> None:
    work = WorkBudget(FakeClock(0.0))
    for number in range(100):
        work.spend(0.1, str(number), f"10.0.0.{number}")
    assert "all jobs together" in str(refused(work, job="x"))
    assert not work.has_time("x")


def test_what_a_thread_computes_is_measured_even_if_it_fails() -> None:
    work = WorkBudget(FakeClock(0.0))
    work.spend(AT_ONCE_SECONDS[JOB] - 0.001, "1")

    def compute() -> None:
        with work.measured("1"):
            until = time.thread_time() + 0.01
            while time.thread_time() < until:
                pass
            raise ZeroDivisionError

    assert work.has_time("1")
    with pytest.raises(ZeroDivisionError):
        compute()
    assert not work.has_time("1")
