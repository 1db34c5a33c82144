"""Totals of a GPU: parts of GPUs, and time in which the job waited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.jobs.summary import summary_text
from ofu_exporter.jobs.totals import JobTotals, merged, resumed_job, totals_of
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.instant import Instant
from tests.helpers.documents import VIEW, made, on_instances


def test_runs_of_one_node_are_added_per_gpu() -> None:
    twice = merged([made(ended=1100.0), made(began=2000.0, updated=2100.0, ended=2100.0)])
    assert len(twice.gpus) == 2
    assert twice.gpu_seconds == pytest.approx(300.0)
    assert (twice.began, twice.ended) == (1000.0, 2100.0)


def test_a_job_on_instances_has_parts_of_gpus() -> None:
    job = on_instances()
    assert job.gpu_count == pytest.approx(2)
    assert job.gpu_seconds == pytest.approx(200)
    assert job.utilization_ratio == pytest.approx(0.35)
    assert job.observed_ratio == pytest.approx(0.5)


def waited(seconds: float | None) -> JobTotals:
    """A job of which one GPU waited for this long."""
    first = replace(VIEW.usage[GpuKey("GPU-0", "")], held_seconds=200.0, waiting_seconds=seconds)
    return totals_of(replace(VIEW, usage={**VIEW.usage, first.key: first}), "n1", simulated=False)


def test_the_time_before_a_job_ran_is_no_part_of_its_observed_share() -> None:
    assert waited(100.0).observed_ratio == pytest.approx(0.75)
    assert waited(100.0).waiting_gpu_seconds == pytest.approx(100.0)
    assert (
        "Before its first run it held GPUs for 0.03 GPU-hours, which are not counted"
        in summary_text(waited(100.0))
    )
    assert "Before its first run" not in summary_text(waited(0.0))


def test_where_nobody_says_whether_a_job_ran_the_waiting_is_unknown() -> None:
    assert made().waiting_gpu_seconds is None
    assert waited(None).observed_ratio == pytest.approx(0.5)
    parts = [waited(None), waited(100.0).model_copy(update={"began": 5.0})]
    assert merged(parts).waiting_gpu_seconds == pytest.approx(100.0)


def test_waiting_goes_on_after_a_restart() -> None:
    kept = resumed_job(
        JobTotals.model_validate_json(waited(100.0).model_dump_json()), Instant(0.0, 1100.0)
    )
    assert kept.usage[GpuKey("GPU-0", "")].waiting_seconds == 100.0


def test_time_that_a_job_shared_is_no_part_of_its_observed_share_either() -> None:
    shared = tuple(gpu.model_copy(update={"shared_seconds": 25.0}) for gpu in made().gpus)
    assert made(gpus=shared).observed_ratio == pytest.approx(150 / (200 - 50))


def test_a_gpu_that_any_run_on_its_node_had_last_is_of_the_last_run() -> None:
    had, not_had = (
        made(gpus=tuple(gpu.model_copy(update={"in_last_run": is_last}) for gpu in made().gpus))
        for is_last in (True, False)
    )
    for both in ((had, not_had), (not_had, had)):
        assert merged(both).gpu_count == 2
    assert merged((not_had, not_had)).gpu_count == 0
