"""Names every metric of this program, in one file per subject."""

from __future__ import annotations

from ofu_exporter.serving.metrics.agent import AGENT_METRICS, SCHEDULER_METRICS, SOURCE_METRICS
from ofu_exporter.serving.metrics.gpu import GPU_METRICS, SAMPLE_TIMESTAMP
from ofu_exporter.serving.metrics.job import GPU_SHARED, JOB_GPU, JOB_METRICS
from ofu_exporter.serving.metrics.report import REPORT_METRICS
from ofu_exporter.serving.metrics.spec import MetricSpec


def specs() -> list[MetricSpec]:
    """Every metric of our own that the page can have, in its order."""
    tables = (GPU_METRICS, JOB_METRICS, REPORT_METRICS, SOURCE_METRICS, SCHEDULER_METRICS)
    gpu, job, report, source, scheduler = ([metric.spec for metric in table] for table in tables)
    jobs = [*job, JOB_GPU, *report]
    return [*gpu, GPU_SHARED, *jobs, *source, *scheduler, SAMPLE_TIMESTAMP, *AGENT_METRICS]
