"""A job's totals as documents of one node, to be changed, merged and put into words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ofu_exporter.jobs.totals import JobTotals, totals_of
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import GpuUsage, Job
from ofu_exporter.values.reported import (
    NO_ERROR,
    Causes,
    Compared,
    LikelyCause,
    ReportsView,
    StandardError,
    Verdict,
)
from ofu_exporter.values.snapshot import JobView

VIEW = JobView(
    job=Job("slurm", "12", name="llama", user="ada", array_job_id="10", array_task_id="2"),
    usage={
        GpuKey("GPU-0", ""): GpuUsage("0", GpuKey("GPU-0", ""), 100.0, 90.0, 45.0),
        GpuKey("GPU-1", ""): GpuUsage("1", GpuKey("GPU-1", ""), 100.0, 60.0, 6.0),
    },
    distribution={100: 90.0, 20: 60.0},
    began=1000.0,
    ended=None,
    updated=1100.0,
)


def made(node: str = "n1", **changes: Any) -> JobTotals:
    return totals_of(VIEW, node, simulated=False).model_copy(update=changes)


FIRST = LikelyCause("fp8_peak_for_bf16", 2.0, 0.3, "the peak of fp8 is twice that of bf16")
REPORTS = ReportsView(
    total=Compared(40.0, 34.0, 100.0, 0.5),
    outcomes={"accepted": 5, "overlap": 1},
    last=1095.0,
    peak_flops=989.4e12,
    recent_mfu_ratio=0.42,
    horizon=Compared(21.0, 17.0, 50.0),
    settled=Compared(16.0, 13.0, 40.0, 0.1),
    recent_verdict=Verdict.MFU_ABOVE_OFU,
    verdict=Verdict.AGREE,
    causes=Causes((FIRST,), 1),
)


def reporting(
    node: str = "n1",
    total: Compared = REPORTS.total,
    total_error: StandardError = NO_ERROR,
    **changes: Any,
) -> JobTotals:
    changes |= {"stderr_ratio": total_error.ratio, "stderr_method": total_error.method}
    reports = replace(REPORTS, total=total, **changes)
    return totals_of(replace(VIEW, reports=reports), node, simulated=False)


def on_instances() -> JobTotals:
    """A job on three MIG instances of one GPU, and on a whole GPU."""
    usage = [
        GpuUsage("0", GpuKey("GPU-0", number), 200 * share, 100 * share, 50 * share, share=share)
        for number, share in (("1", 3 / 7), ("2", 3 / 7), ("5", 1 / 7))
    ]
    whole = GpuUsage("1", GpuKey("GPU-1", ""), 200.0, 100.0, 20.0)
    used = {each.key: each for each in (*usage, whole)}
    view = JobView(Job("slurm", "1"), 0.0, used, updated=200.0)
    return totals_of(view, "n1", simulated=False)
