"""Names every metric of this program, in one file per subject."""

from __future__ import annotations

from ofu_exporter.serving.metrics.agent import (
    COUNT_METRICS,
    NODE_METRICS,
    SCHEDULER_METRICS,
    SOURCE_METRICS,
    TIME_METRICS,
)
from ofu_exporter.serving.metrics.gpu import GPU_METRICS, GPU_SHARED, SAMPLE_TIMESTAMP
from ofu_exporter.serving.metrics.job import JOB_METRICS
from ofu_exporter.serving.metrics.model import MODEL_METRICS
from ofu_exporter.serving.metrics.report import REPORT_METRICS
from ofu_exporter.serving.metrics.spec import Metric


def every_metric() -> tuple[Metric[...], ...]:
    """Every metric of our own that the page can have, in its order."""
    of_gpus: list[Metric[...]] = [*GPU_METRICS, *MODEL_METRICS, GPU_SHARED]
    of_jobs: list[Metric[...]] = [*JOB_METRICS, *REPORT_METRICS]
    of_agent: list[Metric[...]] = [*SOURCE_METRICS, *NODE_METRICS, *SCHEDULER_METRICS]
    times: list[Metric[...]] = [SAMPLE_TIMESTAMP, *TIME_METRICS]
    return (*of_gpus, *of_jobs, *of_agent, *times, *COUNT_METRICS)
