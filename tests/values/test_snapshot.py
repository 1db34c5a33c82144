"""What of a snapshot may still be shown: a hung sampler leaves totals, and no value of the moment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.reported import Causes, Compared, ReportsView, Verdict
from ofu_exporter.values.snapshot import Snapshot, SourceHealth
from tests.helpers.desk import Desk
from tests.helpers.node import snapshot_of
from tests.helpers.values import fault, gpu, reading

LATER = 3600.0


def compared() -> Snapshot:
    """One job whose reports are compared, and one GPU of two that it has."""
    desk = Desk(2)
    desk.give(Job("slurm", "41"), "0")
    desk.every(10.0, 20, job_id="41", mfu=0.765, gpus=1, precision="bf16")
    return desk.shown


def test_a_snapshot_is_shown_as_it_is_while_it_is_fresh() -> None:
    snapshot = compared()
    until = min(view.fresh_until for view in snapshot.gpus)
    assert snapshot.fresh(until) is snapshot
    assert snapshot.fresh(until + 0.001) != snapshot


@pytest.mark.parametrize(
    ("snapshot", "is_complete"),
    [
        (snapshot_of(reading(), fault(5.0, Reason.LOST, gpu(1))), True),
        (snapshot_of(reading(), fault(5.0, Reason.STARTING, gpu(1))), False),
        (snapshot_of(source=SourceHealth("dcgm", reason=Reason.UNREACHABLE)), True),
        (snapshot_of(source=SourceHealth("dcgm", reason=Reason.STARTING)), False),
    ],
)
def test_it_is_complete_once_every_gpu_or_the_source_has_a_value_or_a_reason(
    snapshot: Snapshot, is_complete: bool
) -> None:
    assert snapshot.is_complete is is_complete


@given(st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_no_window_is_shown_after_its_time(one: float, other: float) -> None:
    snapshot = snapshot_of(reading(), reading(device=gpu(1)))
    first, second = snapshot.gpus
    views = (first._replace(fresh_until=one), second._replace(fresh_until=other))
    snapshot = replace(snapshot, gpus=views)
    for now in (0.0, one, other, 50.0, 101.0):
        for view in snapshot.fresh(now).gpus:
            assert (view.window is None) == (now > view.fresh_until)
            assert (view.reason is Reason.STALE) == (view.window is None)


def test_one_gpu_that_is_late_costs_the_others_nothing() -> None:
    snapshot = snapshot_of(reading(), reading(device=gpu(1)))
    first, second = snapshot.gpus
    snapshot = replace(snapshot, gpus=(first._replace(fresh_until=1.0), second))
    shown = snapshot.fresh(2.0)
    assert [view.window is None for view in shown.gpus] == [True, False]
    assert [view.reason for view in shown.gpus] == [Reason.STALE, second.reason]


def test_totals_stay_when_the_window_goes() -> None:
    snapshot = snapshot_of(reading(0, 5))
    (view,) = snapshot.fresh(LATER).gpus
    assert view.window is None
    assert (view.observed_seconds, view.sampled_at) == (5.0, 5.0)


def test_what_was_not_measured_keeps_its_own_reason() -> None:
    (view,) = snapshot_of(fault(5, Reason.LOST)).fresh(LATER).gpus
    assert view.reason is Reason.LOST


def test_a_comparison_goes_with_the_last_window_and_its_sums_stay() -> None:
    snapshot = compared()
    (now,) = snapshot.jobs
    assert now.reports is not None
    assert now.reports.recent_verdict is Verdict.MFU_ABOVE_OFU
    one_left = replace(
        snapshot, gpus=(snapshot.gpus[0]._replace(fresh_until=0.0), *snapshot.gpus[1:])
    )
    assert one_left.fresh(snapshot.at).jobs == snapshot.jobs, "the sampler turns"
    (later,) = snapshot.fresh(LATER).jobs
    assert later.reports is not None
    assert later.reports.recent_mfu_ratio is None
    assert later.reports.recent_verdict is Verdict.INSUFFICIENT_DATA
    assert later.reports.total == now.reports.total


@pytest.mark.parametrize("beside", [[], [100.0], [None]], ids=["alone", "another", "unmeasured"])
def test_where_every_window_is_old_nothing_is_compared_any_more(beside: list[float | None]) -> None:
    """Neither of jobs with GPUs here nor of those without; a GPU that was never measured changes nothing."""
    reports = ReportsView(
        outcomes={"accepted": 3},
        recent_mfu_ratio=0.5,
        horizon=Compared(30.0, 15.0, 60.0),
        causes=Causes(),
    )
    measured = snapshot_of(reading()).gpus[0]
    gpus = [
        measured._replace(fresh_until=until or 0.0, window=measured.window if until else None)
        for until in (10.0, *beside)
    ]
    snapshot = replace(compared(), gpus=tuple(gpus), unowned_reports=(("2", reports),))
    ((_, later),) = snapshot.fresh(LATER).unowned_reports
    assert (later.recent_mfu_ratio, later.causes, later.outcomes) == (None, None, reports.outcomes)


def test_a_job_that_reports_nothing_stays_one() -> None:
    desk = Desk(1)
    desk.give(Job("slurm", "41"), "0")
    desk.run(10.0)
    (job,) = desk.shown.fresh(LATER).jobs
    assert job.reports is None


def test_where_nothing_was_measured_nothing_becomes_old() -> None:
    snapshot = snapshot_of(fault(5, Reason.LOST))
    assert snapshot.fresh(1e9) == snapshot
