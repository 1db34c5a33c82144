"""Makes the page of one job: its OFU beside the MFU that it reports, why they may differ, and each of its GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ofu_exporter.jobs.gpu_totals import GpuTotals
from ofu_exporter.jobs.served_text import served_lines
from ofu_exporter.jobs.strip import by_kind, recovery_lines, strip
from ofu_exporter.jobs.summary import part_lines, percentiles
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.ofu.ownership.job_state import DISTRIBUTION_STEP
from ofu_exporter.serving.history import JOB_STEP_SECONDS, History
from ofu_exporter.serving.pages.pictures import (
    STRIP_COLOURS,
    TIME_COLOURS,
    bar,
    chart,
    histogram,
    strip_bar,
    time_bar,
)
from ofu_exporter.support.drawing import Drawing
from ofu_exporter.support.templates import render
from ofu_exporter.values.job import RECORDED, JobKey
from ofu_exporter.values.losses import FILLED, Loss
from ofu_exporter.values.reported import best_fitting

COLUMNS_OF_DISTRIBUTION = 20


def job_page(job: JobTotals, history: History) -> str:
    reported, pieces = job.reported, strip(job)
    trace = reported.trace if reported else None
    hour = chart(
        *history.job(JobKey(job.scheduler, job.job_id)),
        "OFU and reported MFU of the job over the last hour",
    )
    return render(
        "job.html",
        job=job,
        is_recorded=job.scheduler == RECORDED,
        about=" · ".join(_about(job)),
        reported=reported,
        trace=trace,
        counted=_counted(trace.counters) if trace else None,
        counted_parts=[*_counted_parts(trace.counters)] if trace else (),
        time_bar=time_bar,
        time_colours=TIME_COLOURS,
        causes=reported and reported.causes,
        best_fitting=best_fitting(reported.causes.named if reported and reported.causes else ()),
        hour=hour,
        step_seconds=JOB_STEP_SECONDS,
        strip=strip_bar(pieces) if len(pieces) > 1 else None,
        strip_shares={
            kind: (STRIP_COLOURS[kind], share) for kind, share in by_kind(pieces).items()
        },
        recoveries=recovery_lines(job),
        parts=[*part_lines(job), *served_lines(job)],
        bar=_bar,
        distribution=_distribution(job),
        percentiles=percentiles(job),
    )


def _about(job: JobTotals) -> Iterator[str]:
    yield "ended" if job.ended is not None else "running"
    names = {
        "name": job.job_name,
        "user": job.user,
        "account": job.account,
        "partition": job.partition,
        "namespace": job.namespace,
    }
    yield from (f"{what} {name}" for what, name in names.items() if name)
    yield f"on {', '.join(job.nodes)}"


def _counted(counters: Mapping[str, float]) -> Drawing | None:
    """What the counters saw while a trace was taken."""
    losses = {Loss(name): share for name, share in counters.items() if name != "used"}
    return bar(counters.get("used"), losses)


def _counted_parts(counters: Mapping[str, float]) -> Iterator[tuple[str, str, float]]:
    """The same as colours, words and shares."""
    for name, share in counters.items():
        colour = name if name in ("used", *FILLED) else "rest"
        yield colour, name if name == "used" else Loss(name).words, share


def _bar(gpu: GpuTotals) -> Drawing | None:
    seconds = gpu.observed_seconds
    losses = {loss: lost / seconds for loss, lost in gpu.sums.net.items()} if seconds else {}
    return bar(gpu.utilization_ratio, losses)


def _distribution(job: JobTotals) -> Drawing | None:
    """Observed time by the OFU of its windows."""
    columns = [0.0] * COLUMNS_OF_DISTRIBUTION
    for step, seconds in job.distribution.items():
        place = min(
            int(step * DISTRIBUTION_STEP * COLUMNS_OF_DISTRIBUTION), COLUMNS_OF_DISTRIBUTION - 1
        )
        columns[place] += seconds
    label = "Share of the observed time by the OFU of its windows, from 0 to 100 %"
    return histogram(columns, f"{label}: {percentiles(job)}")
