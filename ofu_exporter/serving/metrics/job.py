"""Names the metrics of a job: what it is, which GPUs it shares, and its totals on this node."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ofu_exporter.serving.metrics.spec import GPU_LABELS, MetricSpec, Rows
from ofu_exporter.values.snapshot import JobView

GPU_SHARED = MetricSpec(
    "ofu_gpu_shared",
    "gauge",
    (*GPU_LABELS, "job_id"),
    "1 for every job on a GPU that several have at once; its OFU is credited to none of them.",
)


class JobMetric(NamedTuple):
    """A metric with one row per job."""

    spec: MetricSpec
    rows: Callable[[JobView], Rows]


def _job_info(view: JobView) -> Rows:
    job = view.job
    labels = (
        job.job_id,
        job.name,
        job.user,
        job.account,
        job.partition,
        job.namespace,
        job.scheduler,
        job.array_job_id,
        job.array_task_id,
        view.reports.framework if view.reports else "",
    )
    return ((labels, 1.0),)


JOB_METRICS: tuple[JobMetric, ...] = (
    JobMetric(
        MetricSpec(
            "ofu_job_info",
            "gauge",
            (
                "job_id",
                "job_name",
                "user",
                "account",
                "partition",
                "namespace",
                "scheduler",
                "array_job_id",
                "array_task_id",
                "framework",
            ),
            "1; what the scheduler says of the job, and the name of the framework that its reports say it uses.",
        ),
        _job_info,
    ),
    JobMetric(
        MetricSpec(
            "ofu_job_utilization_seconds",
            "counter",
            ("job_id",),
            "Integral of OFU over the observed GPU-seconds of the job on this node; the sum of its "
            "rates over the nodes, divided by that of ofu_job_gpu_seconds_total, is the job's OFU.",
        ),
        lambda view: [((view.job.job_id,), view.utilization_seconds)],
    ),
    JobMetric(
        MetricSpec(
            "ofu_job_gpu_seconds",
            "counter",
            ("job_id",),
            "GPU-seconds of the job on this node in which OFU was measured: time x share of the GPU.",
        ),
        lambda view: [((view.job.job_id,), view.observed_seconds)],
    ),
    JobMetric(
        MetricSpec(
            "ofu_job_lost_seconds",
            "counter",
            ("job_id", "part"),
            "Observed GPU-seconds of the job on this node in which the peak was not used, by part, as "
            "ofu_gpu_lost_seconds_total.",
        ),
        lambda view: [
            ((view.job.job_id, loss.value), lost) for loss, lost in view.sums.lost.items()
        ],
    ),
    JobMetric(
        MetricSpec(
            "ofu_job_gained_seconds",
            "counter",
            ("job_id",),
            "What the tensor pipes gained for the job by running above the tensor clock, in observed GPU-seconds.",
        ),
        lambda view: [((view.job.job_id,), view.sums.gained)] if view.sums.lost else (),
    ),
    JobMetric(
        MetricSpec(
            "ofu_job_energy_joules",
            "counter",
            ("job_id",),
            "Energy of the job's GPUs on this node in the observed time, by the cards' own counters.",
        ),
        lambda view: [
            ((view.job.job_id,), energy)
            for energy in [view.sums.energy_joules]
            if energy is not None
        ],
    ),
    JobMetric(
        MetricSpec(
            "ofu_job_held_gpu_seconds",
            "counter",
            ("job_id",),
            "GPU-seconds for which the job had GPUs of this node, measured or not: time x share.",
        ),
        lambda view: [((view.job.job_id,), view.held_seconds)],
    ),
    JobMetric(
        MetricSpec(
            "ofu_job_waiting_gpu_seconds",
            "counter",
            ("job_id",),
            "Part of the held GPU-seconds in which no program of the job had started (image pull, volumes), so that "
            "they are no part of its OFU; absent where the scheduler does not say.",
        ),
        lambda view: [
            ((view.job.job_id,), seconds)
            for seconds in [view.waiting_seconds]
            if seconds is not None
        ],
    ),
)
