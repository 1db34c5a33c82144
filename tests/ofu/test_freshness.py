"""What of a snapshot is still shown as time goes on without a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ofu_exporter.ofu.freshness import fresh, stale
from ofu_exporter.values.job import Job
from ofu_exporter.values.reading import Window
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.reported import Causes, Compared, ReportsView, Verdict
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot
from tests.helpers.values import gpu, health

COMPARED = ReportsView(
    outcomes={"accepted": 3},
    mfu=0.5,
    horizon=Compared(30.0, 15.0, 60.0),
    total=Compared(300.0, 150.0, 600.0),
    verdict=Verdict.MFU_ABOVE_OFU,
    total_verdict=Verdict.MFU_ABOVE_OFU,
    causes=Causes(),
)


def snapshot(fresh_until: Sequence[float | None], silent: bool = False) -> Snapshot:
    """GPUs whose windows hold until then, None for one that has none; a job that reports, or is silent."""
    window = Window(0.0, 5.0, 0.5, {}, 1400e6, 0.4)
    views = tuple(
        GpuView(gpu(index), None, window if until else None, None, fresh_until=until or 0.0)
        for index, until in enumerate(fresh_until)
    )
    reports = None if silent else COMPARED
    job = JobView(Job("slurm", "1"), (), {}, 0.0, None, 5.0, reports)
    return Snapshot(5.0, views, health(), (job,), unowned_reports=(("2", COMPARED),))


def comparisons(shown: Snapshot) -> list[ReportsView | None]:
    return [*(view.reports for view in shown.jobs), *(each for _, each in shown.unowned_reports)]


def test_a_window_is_shown_up_to_its_last_instant_and_no_longer() -> None:
    made = snapshot([10.0])
    assert fresh(made, 10.0) == made
    assert stale(made, 10.0) == frozenset()
    assert stale(made, 10.001) == {gpu(0).key}
    (view,) = fresh(made, 10.001).gpus
    assert (view.window, view.reason) == (None, Reason.STALE)


def test_a_gpu_that_had_no_window_keeps_its_own_reason() -> None:
    made = snapshot([10.0, None])
    lost = replace(made.gpus[1], reason=Reason.LOST)
    shown = fresh(replace(made, gpus=(made.gpus[0], lost)), 11.0)
    assert [view.reason for view in shown.gpus] == [Reason.STALE, Reason.LOST]


def test_one_gpu_whose_window_is_old_costs_no_comparison() -> None:
    shown = fresh(snapshot([10.0, 20.0]), 15.0)
    assert [view.window is None for view in shown.gpus] == [True, False]
    assert comparisons(shown) == [COMPARED, COMPARED]


@pytest.mark.parametrize("fresh_until", [[10.0], [10.0, 12.0], [10.0, None]])
def test_where_every_window_is_old_nothing_is_compared_and_the_sums_stay(
    fresh_until: list[float | None],
) -> None:
    for reports in comparisons(fresh(snapshot(fresh_until), 15.0)):
        assert reports is not None
        assert (reports.mfu, reports.verdict, reports.causes) == (
            None,
            Verdict.INSUFFICIENT_DATA,
            None,
        )
        assert (reports.total, reports.outcomes) == (COMPARED.total, COMPARED.outcomes)


def test_a_job_that_reports_nothing_stays_one() -> None:
    assert comparisons(fresh(snapshot([10.0], silent=True), 15.0))[0] is None


def test_where_nothing_was_measured_nothing_becomes_old() -> None:
    made = snapshot([None, None])
    assert fresh(made, 1e9) == made
