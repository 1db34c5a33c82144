"""Names the metrics of a job: what it is, and its totals on this node."""

from __future__ import annotations

from operator import attrgetter

from ofu_exporter.serving.metrics.spec import Metric, Subject
from ofu_exporter.values.snapshot import JobView

JOB = Subject[[JobView]](("job_id",), lambda view: (view.job.job_id,))


_identity = attrgetter(
    *("name", "user", "account", "partition", "namespace", "scheduler"),
    *("array_job_id", "array_task_id"),
)


def _job_info(view: JobView) -> dict[tuple[str, ...], float]:
    framework = view.reports.framework if view.reports else ""
    return {(*_identity(view.job), framework): 1.0}


JOB_METRICS: tuple[Metric[[JobView]], ...] = (
    JOB.gauge(
        "ofu_job_info",
        "1; what the scheduler says of the job, and the name of the framework that its reports say it uses.",
        _job_info,
        *("job_name", "user", "account", "partition", "namespace", "scheduler"),
        *("array_job_id", "array_task_id", "framework"),
    ),
    JOB.counter(
        "ofu_job_utilization_seconds",
        "Integral of OFU over the observed GPU-seconds of the job on this node; the sum of its "
        "rates over the nodes, divided by that of ofu_job_gpu_seconds_total, is the job's OFU.",
        lambda view: view.utilization_seconds,
    ),
    JOB.counter(
        "ofu_job_gpu_seconds",
        "GPU-seconds of the job on this node in which OFU was measured: time x share of the GPU.",
        lambda view: view.observed_seconds,
    ),
    JOB.counter(
        "ofu_job_lost_seconds",
        "Observed GPU-seconds of the job on this node in which the peak was not used, by part, as "
        "ofu_gpu_lost_seconds_total.",
        lambda view: {loss.value: lost for loss, lost in view.sums.lost.items()},
        "part",
    ),
    JOB.counter(
        "ofu_job_gained_seconds",
        "What the tensor pipes gained for the job by running above the tensor clock, in observed GPU-seconds.",
        lambda view: view.sums.gained if view.sums.lost else None,
    ),
    JOB.counter(
        "ofu_job_energy_joules",
        "Energy of the job's GPUs on this node in the observed time, by the cards' own counters.",
        lambda view: view.sums.energy_joules,
    ),
    JOB.counter(
        "ofu_job_held_gpu_seconds",
        "GPU-seconds for which the job had GPUs of this node, measured or not: time x share.",
        lambda view: view.held_seconds,
    ),
    JOB.counter(
        "ofu_job_waiting_gpu_seconds",
        "Part of the held GPU-seconds in which no program of the job had started (image pull, volumes), so that "
        "they are no part of its OFU; absent where the scheduler does not say.",
        lambda view: view.waiting_seconds,
    ),
)
