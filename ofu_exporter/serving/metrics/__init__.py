"""Names every metric of this program, in one file per subject."""

from __future__ import annotations

from ofu_exporter.serving.metrics.agent import AGENT_METRICS, SCHEDULER_METRICS, SOURCE_METRICS
from ofu_exporter.serving.metrics.gpu import GPU_METRICS, SAMPLE_TIMESTAMP
from ofu_exporter.serving.metrics.job import GPU_SHARED, JOB_METRICS
from ofu_exporter.serving.metrics.model import MODEL_METRICS
from ofu_exporter.serving.metrics.report import REPORT_METRICS
from ofu_exporter.serving.metrics.spec import MetricSpec


def specs() -> list[MetricSpec]:
    """Every metric of our own that the page can have, in its order."""
    gpu = [metric.spec for metric in GPU_METRICS]
    model = [metric.spec for metric in MODEL_METRICS]
    job = [metric.spec for metric in JOB_METRICS]
    report = [metric.spec for metric in REPORT_METRICS]
    source = [metric.spec for metric in SOURCE_METRICS]
    scheduler = [metric.spec for metric in SCHEDULER_METRICS]
    about_jobs = [GPU_SHARED, *job, *report]
    return [*gpu, *model, *about_jobs, *source, *scheduler, SAMPLE_TIMESTAMP, *AGENT_METRICS]
