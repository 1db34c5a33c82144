"""Makes the metrics of a snapshot, and of counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.metrics.agent import (
    CLOCK_STEPS,
    PAUSED,
    RELEASED,
    SCHEDULER_METRICS,
    SCHEDULER_TIMESTAMP,
    SNAPSHOT_TIMESTAMP,
    SOURCE_METRICS,
    SourceMetric,
)
from ofu_exporter.serving.metrics.gpu import GPU_METRICS, SAMPLE_TIMESTAMP
from ofu_exporter.serving.metrics.job import GPU_SHARED, JOB_METRICS
from ofu_exporter.serving.metrics.model import MODEL_METRICS, once
from ofu_exporter.serving.metrics.report import REPORT_METRICS
from ofu_exporter.serving.metrics.spec import MetricSpec, Rows
from ofu_exporter.serving.text_format import MetricFamily
from ofu_exporter.values.snapshot import GpuView, Snapshot


def families(snapshot: Snapshot, faults: Faults) -> Iterator[MetricFamily]:
    """The metrics of a snapshot, of which nothing has become too old."""
    gpus = [(_gpu_labels(view), view) for view in snapshot.gpus]
    for metric in GPU_METRICS:
        family = MetricFamily(metric.spec)
        for labels, view in gpus:
            for extra, value in faults.rows(metric.spec.name, metric.rows, view, snapshot):
                family.add_metric(labels + extra, value)
        yield family
    models = _of_each_model(snapshot)
    for model_metric in MODEL_METRICS:
        spec = model_metric.spec
        made = (faults.rows(spec.name, model_metric.rows, view) for view in models)
        yield filled(spec, once(chain.from_iterable(made)))
    yield filled(GPU_SHARED, _sharing(snapshot))
    for job_metric in JOB_METRICS:
        spec = job_metric.spec
        made = (faults.rows(spec.name, job_metric.rows, view) for view in snapshot.jobs)
        yield filled(spec, chain.from_iterable(made))
    reports = [
        *((view.job.job_id, view.reports) for view in snapshot.jobs if view.reports),
        *snapshot.unowned_reports,
    ]
    for report_metric in REPORT_METRICS:
        spec = report_metric.spec
        made = (faults.rows(spec.name, report_metric.rows, *report) for report in reports)
        yield filled(spec, chain.from_iterable(made))
    for source_metric in SOURCE_METRICS:
        yield _source_family(source_metric, snapshot)
    yield filled(CLOCK_STEPS, [((), float(snapshot.clock_steps))])
    yield filled(PAUSED, [((), float(snapshot.paused))])
    if snapshot.paused or snapshot.released:
        yield filled(RELEASED, [((), float(snapshot.released))])
    for scheduler_metric in SCHEDULER_METRICS:
        rows = (row for health in snapshot.schedulers for row in scheduler_metric.rows(health))
        yield filled(scheduler_metric.spec, rows)


def filled(spec: MetricSpec, rows: Rows) -> MetricFamily:
    family = MetricFamily(spec)
    for labels, value in rows:
        family.add_metric(labels, value)
    return family


def _of_each_model(snapshot: Snapshot) -> list[GpuView]:
    """One GPU of each model and rating: the others would say the same."""
    found: list[GpuView] = []
    for view in snapshot.gpus:
        if not any(
            known.gpu.name == view.gpu.name and known.rating == view.rating for known in found
        ):
            found.append(view)
    return found


def _sharing(snapshot: Snapshot) -> Rows:
    """Which jobs have a GPU that several have."""
    shared = (view for view in snapshot.gpus if len(view.holders) > 1)
    return [((*_gpu_labels(view), job.job_id), 1.0) for view in shared for job in view.holders]


def _source_family(metric: SourceMetric, snapshot: Snapshot) -> MetricFamily:
    """A metric of every source; one without the label `source` is the first source's."""
    spec = metric.spec
    others = snapshot.other_sources if "source" in spec.labels else ()
    healths = (snapshot.source, *others)
    if spec.kind == "summary":
        summary = MetricFamily(spec)
        for health in healths:
            for labels, seconds in metric.rows(health):
                summary.add_summary(labels, health.reads, seconds)
        return summary
    return filled(spec, (row for health in healths for row in metric.rows(health)))


def _gpu_labels(view: GpuView) -> tuple[str, ...]:
    return (view.gpu.index, view.gpu.uuid, view.gpu.instance)


def counted(spec: MetricSpec, counts: Mapping[Any, int]) -> MetricFamily:
    family = MetricFamily(spec)
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def timestamps(snapshot: Snapshot) -> Iterator[MetricFamily]:
    """When each GPU's last window ended, when the snapshot was made and when each scheduler last answered."""
    windows = ((_gpu_labels(view), view.sampled_at) for view in snapshot.gpus)
    answers = (((health.name,), health.answered_at) for health in snapshot.schedulers)
    yield _dated_family(SAMPLE_TIMESTAMP, snapshot, windows)
    yield _dated_family(SNAPSHOT_TIMESTAMP, snapshot, [((), snapshot.at)])
    yield _dated_family(SCHEDULER_TIMESTAMP, snapshot, answers)


def _dated_family(
    spec: MetricSpec, snapshot: Snapshot, rows: Iterable[tuple[tuple[str, ...], float | None]]
) -> MetricFamily:
    """A family of Unix times from monotonic ones; a row whose time is not known is left out."""
    dated = ((labels, None if at is None else snapshot.unix_at(at)) for labels, at in rows)
    return filled(spec, ((labels, unix) for labels, unix in dated if unix is not None))
