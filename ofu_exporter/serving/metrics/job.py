"""Names the metrics of a job: what it is, its totals on this node, its reports and how these compare with OFU."""

from __future__ import annotations

from operator import attrgetter

from ofu_exporter.serving.metrics.spec import Metric, Subject
from ofu_exporter.values.progress import Progress
from ofu_exporter.values.reported import ReportsView, Verdict
from ofu_exporter.values.snapshot import JobView

JOB = Subject[[JobView]](("job_id",), lambda view: (view.job.job_id,))
_TEXTS = ("user", "account", "partition", "namespace", "scheduler", "array_job_id", "array_task_id")
_identity = attrgetter("name", *_TEXTS)


def _job_info(view: JobView) -> dict[tuple[str, ...], float]:
    framework = view.reports.framework if view.reports else ""
    return {(*_identity(view.job), framework): 1.0}


def _progress(view: JobView) -> Progress:
    return (view.reports and view.reports.progress) or Progress()


def _restarts(view: JobView) -> int:
    """Of Slurm's restarts none is a fall of steps too, for each begins another run; of a pod's, each may be."""
    counted, stated = view.restarts, _progress(view).restarts
    return max(counted, stated) if view.job.namespace else counted + stated


def _lost_progress(view: JobView) -> dict[str, float]:
    stated = _progress(view)
    reasons = {
        "starting": view.start.seconds,
        "done_again": stated.done_again_seconds,
        "evaluation": stated.evaluation_seconds,
        "checkpoint": stated.checkpoint_seconds,
    }
    return {reason: seconds for reason, seconds in reasons.items() if seconds is not None}


JOB_METRICS: tuple[Metric[[JobView]], ...] = (
    JOB.gauge(
        "ofu_job_info",
        "1, for the labels: what the scheduler says of the job, and the framework that its reports name.",
        _job_info,
        *("job_name", *_TEXTS, "framework"),
    ),
    JOB.counter(
        "ofu_job_utilization_seconds",
        "Integral of OFU over the observed GPU-seconds of the job on this node; the sum of its "
        "rates over the nodes / that of ofu_job_gpu_seconds_total is the job's OFU.",
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
        "ofu_job_memory_busy_seconds",
        "Integral of the share of cycles in which memory moved data, over the GPU-seconds of the job on this node.",
        lambda view: view.sums.memory and view.sums.memory.busy_seconds,
    ),
    JOB.counter(
        "ofu_job_memory_gpu_seconds",
        "GPU-seconds of the job on this node in which memory activity was measured.",
        lambda view: view.sums.memory and view.sums.memory.seconds,
    ),
    JOB.counter(
        "ofu_job_held_gpu_seconds",
        "GPU-seconds for which the job had GPUs of this node, measured or not: time x share; of a GPU that n "
        "jobs have, 1/n.",
        lambda view: view.held_seconds,
    ),
    JOB.counter(
        "ofu_job_waiting_gpu_seconds",
        "Part of the held GPU-seconds in which no program of the job had started (image pull, volumes); absent where "
        "the scheduler does not say.",
        lambda view: view.waiting_seconds,
    ),
    JOB.counter(
        "ofu_job_shared_gpu_seconds",
        "Part of the held GPU-seconds in which other jobs had the GPU too, so that its OFU is nobody's; of n jobs each "
        "holds 1/n. Absent until a GPU is shared.",
        lambda view: view.shared_seconds,
    ),
    JOB.counter(
        "ofu_job_restarts",
        "How often the job was started again, as its scheduler, this agent and the steps of its reports tell.",
        _restarts,
    ),
    JOB.counter(
        "ofu_job_lost_progress_gpu_seconds",
        "Held GPU-seconds of the job on this node that were no progress, by reason, each once: starting (before its "
        "first lasting tensor work or stated step), done_again (steps that it had reached before a restart), and "
        "evaluation and checkpoint as it reports them; absent where not known.",
        _lost_progress,
        "reason",
    ),
)


REPORTS = Subject[[str, ReportsView]](("job_id",), lambda job_id, _: (job_id,))
"""The id of a job, and its reports."""
NO_CAUSE = "no_known_cause"
"""Stands in the place of a cause where none fits."""


def _difference(_: str, reports: ReportsView) -> float | None:
    mfu, ofu = reports.horizon.mfu, reports.horizon.ofu
    return None if mfu is None or ofu is None else mfu - ofu


def _cause(_: str, reports: ReportsView) -> dict[str, float]:
    if not reports.recent_verdict.diverged or reports.causes is None:
        return {}
    first = reports.causes.first
    return {first.cause if first else NO_CAUSE: 1.0}


REPORT_METRICS: tuple[Metric[[str, ReportsView]], ...] = (
    REPORTS.gauge(
        "ofu_job_reported_mfu_ratio",
        "MFU that the job reported over the last minutes, against the dense peak of its precision.",
        lambda _, reports: reports.recent_mfu_ratio,
    ),
    REPORTS.counter(
        "ofu_job_compared_mfu_seconds",
        "Integral of the reported MFU over the GPU-seconds that a report and OFU both cover.",
        lambda _, reports: reports.settled.mfu_seconds,
    ),
    REPORTS.counter(
        "ofu_job_compared_utilization_seconds",
        "Integral of OFU over the GPU-seconds that a report and OFU both cover.",
        lambda _, reports: reports.settled.utilization_seconds,
    ),
    REPORTS.counter(
        "ofu_job_compared_gpu_seconds",
        "GPU-seconds that a report and OFU both cover, a minute late; summed rates of "
        "ofu_job_compared_mfu_seconds_total and ofu_job_compared_utilization_seconds_total / those of this one are "
        "MFU and OFU of the same seconds.",
        lambda _, reports: reports.settled.gpu_seconds,
    ),
    REPORTS.counter(
        "ofu_job_reports",
        "Reports of the job: accepted, or why not.",
        lambda _, reports: reports.outcomes,
        "outcome",
    ),
    REPORTS.gauge(
        "ofu_job_report_timestamp_seconds",
        "Unix time up to which the job has reported.",
        lambda _, reports: reports.last,
    ),
    REPORTS.gauge(
        "ofu_job_step",
        "Highest step that the job's run, or one that it continues, has stated; absent until this run states one.",
        lambda _, reports: reports.progress.step_of_run if reports.progress else None,
    ),
    REPORTS.gauge(
        "ofu_job_report_peak_flops",
        "Dense peak of one GPU in FLOP/s, effective over the precisions in use, by which the reported MFU is "
        "divided.",
        lambda _, reports: reports.peak_flops,
    ),
    REPORTS.gauge(
        "ofu_job_divergence_ratio",
        "Reported MFU minus OFU over the same seconds of the last minutes; above 0 the report over-counts.",
        _difference,
    ),
    REPORTS.gauge(
        "ofu_job_tile_overhead_ratio",
        "What tiles add to the job's FLOPs, as the agent was told: executed / theoretical - 1.",
        lambda _, reports: reports.adjusted.tile_overhead if reports.adjusted else None,
    ),
    REPORTS.gauge(
        "ofu_job_tile_overhead_bound",
        "1 for what the tile overhead is: exact, or lower, so that the adjusted OFU is an upper bound; absent where "
        "the job does not say.",
        lambda _, reports: (
            {reports.adjusted.bound: 1.0} if reports.adjusted and reports.adjusted.bound else None
        ),
        "bound",
    ),
    REPORTS.counter(
        "ofu_job_adjusted_utilization_seconds",
        "Integral of OFU / (1 + tile overhead) over the time since that overhead is known.",
        lambda _, reports: reports.adjusted.utilization_seconds if reports.adjusted else None,
    ),
    REPORTS.counter(
        "ofu_job_adjusted_gpu_seconds",
        "GPU-seconds observed since the tile overhead is known; summed rates of "
        "ofu_job_adjusted_utilization_seconds_total / those of this one are OFU without tiles.",
        lambda _, reports: reports.adjusted.gpu_seconds if reports.adjusted else None,
    ),
    REPORTS.counter(
        "ofu_job_finding_seconds",
        "Seconds of the job's traced ranks that each finding cost at most.",
        lambda _, reports: reports.finding_seconds,
        "finding",
    ),
    REPORTS.counter(
        "ofu_job_traced_seconds",
        "Seconds of the job's traced ranks; those of ofu_job_finding_seconds_total are a share of them.",
        lambda _, reports: reports.traced_seconds or None,
    ),
    REPORTS.gauge(
        "ofu_job_divergence_verdict",
        f"1 for what the comparison says: {', '.join(verdict.value for verdict in Verdict)}.",
        lambda _, reports: {reports.recent_verdict.value: 1.0},
        "verdict",
    ),
    REPORTS.gauge(
        "ofu_job_divergence_cause",
        f"1 for the likeliest cause of a divergence; undecided where several fit, {NO_CAUSE} where none does.",
        _cause,
        "cause",
    ),
)
