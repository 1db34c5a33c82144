"""Collects the metrics of a snapshot, and of counts, as the families that prometheus_client writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.metrics.agent import (
    CLOCK_STEPS,
    PAUSED,
    RELEASED,
    SCHEDULER_METRICS,
    SCHEDULER_TIMESTAMP,
    SNAPSHOT_TIMESTAMP,
    SOURCE_METRICS,
)
from ofu_exporter.serving.metrics.gpu import GPU_METRICS, SAMPLE_TIMESTAMP
from ofu_exporter.serving.metrics.job import GPU_SHARED, JOB_METRICS
from ofu_exporter.serving.metrics.model import MODEL_METRICS, once
from ofu_exporter.serving.metrics.report import REPORT_METRICS
from ofu_exporter.serving.metrics.spec import Metric as OfuMetric
from ofu_exporter.serving.metrics.spec import MetricSpec, Rows
from ofu_exporter.values.snapshot import GpuView, Snapshot, SourceHealth


def families(snapshot: Snapshot, faults: Faults) -> list[Metric]:
    """The metrics of a snapshot, of which nothing has become too old. What cannot be shown costs itself."""
    made: list[Metric] = []

    def add(spec: MetricSpec, rows: Rows) -> None:
        made.append(filled(spec, rows, faults))

    gpus = [(_gpu_labels(view), view) for view in snapshot.gpus]
    for metric in GPU_METRICS:
        spec = metric.spec
        rows = (
            (labels, faults.rows(spec.name, metric.rows, view, snapshot)) for labels, view in gpus
        )
        add(spec, ((labels + extra, value) for labels, each in rows for extra, value in each))
    models = _of_each_model(snapshot)
    for model_metric in MODEL_METRICS:
        spec = model_metric.spec
        found = (faults.rows(spec.name, model_metric.rows, view) for view in models)
        add(spec, once(chain.from_iterable(found)))
    add(GPU_SHARED, _sharing(snapshot))
    for job_metric in JOB_METRICS:
        spec = job_metric.spec
        found = (faults.rows(spec.name, job_metric.rows, view) for view in snapshot.jobs)
        add(spec, chain.from_iterable(found))
    reports = [
        *((view.job.job_id, view.reports) for view in snapshot.jobs if view.reports),
        *snapshot.unowned_reports,
    ]
    for report_metric in REPORT_METRICS:
        spec = report_metric.spec
        found = (faults.rows(spec.name, report_metric.rows, *report) for report in reports)
        add(spec, chain.from_iterable(found))
    for source_metric in SOURCE_METRICS:
        made.append(_source_family(source_metric, snapshot, faults))
    add(CLOCK_STEPS, [((), float(snapshot.clock_steps))])
    add(PAUSED, [((), float(snapshot.paused))])
    if snapshot.paused or snapshot.released:
        add(RELEASED, [((), float(snapshot.released))])
    for scheduler_metric in SCHEDULER_METRICS:
        healths = snapshot.schedulers
        add(scheduler_metric.spec, (row for each in healths for row in scheduler_metric.rows(each)))
    return made


_KINDS = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}


def filled(spec: MetricSpec, rows: Rows, faults: Faults) -> Metric:
    """A gauge or counter with these rows. A row that could not be written costs itself."""
    family: GaugeMetricFamily | CounterMetricFamily = _KINDS[spec.kind](
        spec.name, spec.help, labels=spec.labels
    )
    for labels, value in rows:
        try:
            family.add_metric(_writable(spec, labels), float(value))
        except Exception as error:  # noqa: BLE001 - noted; the other rows are worth more than its trace
            faults.note(spec.name, error)
    return family


def _writable(spec: MetricSpec, labels: tuple[str, ...]) -> tuple[str, ...]:
    """The values of the labels. Raises ValueError for what no page could hold."""
    if len(labels) != len(spec.labels):
        raise ValueError(f"{len(labels)} values for the labels {spec.labels}")
    "".join(labels).encode()
    return labels


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


def _source_family(metric: OfuMetric[[SourceHealth]], snapshot: Snapshot, faults: Faults) -> Metric:
    """A metric of every source; one without the label `source` is the first source's."""
    spec = metric.spec
    others = snapshot.other_sources if "source" in spec.labels else ()
    healths = (snapshot.source, *others)
    if spec.kind == "summary":
        summary = SummaryMetricFamily(spec.name, spec.help, labels=spec.labels)
        for health in healths:
            for labels, seconds in metric.rows(health):
                summary.add_metric(_writable(spec, labels), health.reads, seconds)
        return summary
    return filled(spec, (row for health in healths for row in metric.rows(health)), faults)


def _gpu_labels(view: GpuView) -> tuple[str, ...]:
    return (view.gpu.index, view.gpu.uuid, view.gpu.instance)


def counted(spec: MetricSpec, counts: Mapping[Any, int], faults: Faults) -> Metric:
    """Counts by the values of their labels; a word in the place of these is the value of the only one."""
    keyed = ((key if isinstance(key, tuple) else (key,), count) for key, count in counts.items())
    return filled(spec, keyed, faults)


def timestamps(snapshot: Snapshot, faults: Faults) -> list[Metric]:
    """When each GPU's last window ended, when the snapshot was made and when each scheduler last answered."""

    def dated(spec: MetricSpec, rows: Iterable[tuple[tuple[str, ...], float | None]]) -> Metric:
        """Unix times from monotonic ones; a row whose time is not known is left out."""
        unix = ((labels, None if at is None else snapshot.unix_at(at)) for labels, at in rows)
        return filled(spec, ((labels, at) for labels, at in unix if at is not None), faults)

    return [
        dated(SAMPLE_TIMESTAMP, ((_gpu_labels(view), view.sampled_at) for view in snapshot.gpus)),
        dated(SNAPSHOT_TIMESTAMP, [((), snapshot.at)]),
        dated(SCHEDULER_TIMESTAMP, (((one.name,), one.answered_at) for one in snapshot.schedulers)),
    ]
