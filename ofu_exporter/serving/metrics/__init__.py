"""Names every metric of this program, in one file per subject."""

from __future__ import annotations

from ofu_exporter.serving.metrics import agent, gpu, job
from ofu_exporter.serving.metrics.spec import Metric


def every_metric() -> tuple[Metric[...], ...]:
    """Every metric of our own that the page can have, in its order."""
    of_gpus: list[Metric[...]] = [*gpu.GPU_METRICS, *gpu.MODEL_METRICS, gpu.GPU_SHARED]
    of_jobs: list[Metric[...]] = [*job.JOB_METRICS, *job.REPORT_METRICS]
    of_agent: list[Metric[...]] = [
        *agent.SOURCE_METRICS,
        *agent.NODE_METRICS,
        *agent.SCHEDULER_METRICS,
    ]
    times: list[Metric[...]] = [gpu.SAMPLE_TIMESTAMP, *agent.TIME_METRICS]
    return (*of_gpus, *of_jobs, *of_agent, *times, *agent.COUNT_METRICS)
