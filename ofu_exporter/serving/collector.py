"""Collects the metrics of a snapshot, and of counts, as the families that prometheus_client writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.metrics import agent, gpu, job
from ofu_exporter.serving.metrics.spec import Metric as OfuMetric
from ofu_exporter.serving.metrics.spec import MetricRows, Value
from ofu_exporter.values.snapshot import GpuView, Snapshot

Subjects = Sequence[tuple[Any, ...]]
"""What the rows of a metric are made of, in turn."""


def of_snapshot(snapshot: Snapshot, faults: Faults) -> Iterator[Metric]:
    """The metrics of a snapshot, of which nothing has become too old. What cannot be shown costs itself."""

    def add(metrics: Iterable[OfuMetric[...]], subjects: Subjects) -> Iterator[Metric]:
        return (filled(each, _rows(each, subjects, faults), faults) for each in metrics)

    gpus = [(view, snapshot) for view in snapshot.gpus]
    reports = [(view.job.job_id, view.reports) for view in snapshot.jobs if view.reports]
    sources = [(health,) for health in (snapshot.source, *snapshot.other_sources)]
    yield from add(gpu.GPU_METRICS, gpus)
    for metric in gpu.MODEL_METRICS:
        yield filled(metric, once(_rows(metric, _of_each_model(snapshot), faults)), faults)
    yield from add([gpu.GPU_SHARED], gpus)
    yield from add(job.JOB_METRICS, [(view,) for view in snapshot.jobs])
    yield from add(job.REPORT_METRICS, [*reports, *snapshot.unowned_reports])
    for each in agent.SOURCE_METRICS:  # one without the label is the first source's
        yield from add([each], sources if "source" in each.labels else sources[:1])
    yield from add(agent.NODE_METRICS, [(snapshot,)])
    yield from add(agent.SCHEDULER_METRICS, [(health,) for health in snapshot.schedulers])
    yield from add([gpu.SAMPLE_TIMESTAMP], gpus)
    yield from add(agent.TIME_METRICS, [(snapshot,)])


def of_counts(counts: agent.AgentCounts, faults: Faults) -> Iterator[Metric]:
    """The metrics of what has happened to the agent itself."""
    return (filled(each, _rows(each, [(counts,)], faults), faults) for each in agent.COUNT_METRICS)


def _rows(metric: OfuMetric[...], subjects: Subjects, faults: Faults) -> MetricRows:
    """The rows of all subjects; one of which none can be made is left out."""
    rows = faults.made(metric.name, lambda subject: [*metric.rows(*subject)], subjects)
    return chain.from_iterable(rows)


def once(rows: MetricRows) -> MetricRows:
    """Rows of many GPUs, each once. What two GPUs contradict each other about is left out."""
    values: dict[tuple[str, ...], set[Value]] = {}
    for labels, value in rows:
        values.setdefault(labels, set()).add(value)
    return [(labels, value) for labels, (value, *others) in values.items() if not others]


_Family = GaugeMetricFamily | CounterMetricFamily | SummaryMetricFamily
_KINDS: dict[str, Callable[..., _Family]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "summary": SummaryMetricFamily,
}


def filled(metric: OfuMetric[...], rows: MetricRows, faults: Faults) -> Metric:
    """The family of these rows. A row that could not be written costs itself."""
    family: _Family = _KINDS[metric.kind](metric.name, metric.help, labels=metric.labels)
    for labels, value in rows:
        try:
            numbers = value if isinstance(value, tuple) else (float(value),)
            family.add_metric(_writable(metric, labels), *numbers)
        except Exception as error:  # noqa: BLE001 - noted; the other rows are worth more than its trace
            faults.note(metric.name, error)
    return family


def _writable(metric: OfuMetric[...], labels: tuple[str, ...]) -> tuple[str, ...]:
    """The values of the labels. Raises ValueError for what no page could hold."""
    if len(labels) != len(metric.labels):
        raise ValueError(f"{len(labels)} values for the labels {metric.labels}")
    "".join(labels).encode()
    return labels


def _of_each_model(snapshot: Snapshot) -> list[tuple[GpuView]]:
    """One GPU of each model and rating: the others would say the same."""
    alike: list[GpuView] = []
    for view in snapshot.gpus:
        if not any(
            view.gpu.name == other.gpu.name and view.rating == other.rating for other in alike
        ):
            alike.append(view)
    return [(view,) for view in alike]
