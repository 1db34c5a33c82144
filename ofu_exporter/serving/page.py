"""Makes the page of metrics from a snapshot; no other module of serving/ imports prometheus_client."""

from __future__ import annotations

import gzip
import platform
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.samples import Sample

from ofu_exporter import __version__
from ofu_exporter.ofu.freshness import fresh, stale
from ofu_exporter.ofu.tick import CLOCK_STEP_SECONDS
from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.history import History
from ofu_exporter.serving.metrics.agent import (
    BUILD_INFO,
    CLOCK_STEPS,
    DROPPED_LOG_LINES,
    FAULTS,
    PAUSED,
    PULLS,
    REJECTED_REPORTS,
    RELEASED,
    RELOADS,
    REQUESTS,
    SCHEDULER_METRICS,
    SCHEDULER_TIMESTAMP,
    SNAPSHOT_TIMESTAMP,
    SOURCE_METRICS,
    STATE_SET_ASIDE,
    STATE_WRITES,
    SourceMetric,
)
from ofu_exporter.serving.metrics.gpu import GPU_METRICS, SAMPLE_TIMESTAMP
from ofu_exporter.serving.metrics.job import GPU_SHARED, JOB_METRICS
from ofu_exporter.serving.metrics.model import MODEL_METRICS, once
from ofu_exporter.serving.metrics.report import REPORT_METRICS
from ofu_exporter.serving.metrics.spec import MetricSpec, Rows
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.snapshot import GpuView, Snapshot

METRICS = "/metrics"
GZIP_FROM_BYTES = 1024

Family = GaugeMetricFamily | CounterMetricFamily


def _family(spec: MetricSpec) -> Family:
    make = GaugeMetricFamily if spec.kind == "gauge" else CounterMetricFamily
    return make(spec.name, spec.help, labels=spec.labels)


def families(snapshot: Snapshot, faults: Faults) -> Iterator[Metric]:
    """The metrics of a snapshot, of which nothing has become too old."""
    for metric in GPU_METRICS:
        family = _family(metric.spec)
        for view in snapshot.gpus:
            labels = _gpu_labels(view)
            for extra, value in faults.rows(metric.spec.name, metric.rows, view, snapshot):
                family.add_metric([*labels, *extra], value)
        yield family
    for model_metric in MODEL_METRICS:
        spec = model_metric.spec
        made = (faults.rows(spec.name, model_metric.rows, view) for view in snapshot.gpus)
        yield _filled(spec, once(chain.from_iterable(made)))
    yield _filled(GPU_SHARED, _sharing(snapshot))
    for job_metric in JOB_METRICS:
        spec = job_metric.spec
        made = (faults.rows(spec.name, job_metric.rows, view) for view in snapshot.jobs)
        yield _filled(spec, chain.from_iterable(made))
    reports = [
        *((view.job.job_id, view.reports) for view in snapshot.jobs if view.reports),
        *snapshot.unowned_reports,
    ]
    for report_metric in REPORT_METRICS:
        spec = report_metric.spec
        made = (faults.rows(spec.name, report_metric.rows, *report) for report in reports)
        yield _filled(spec, chain.from_iterable(made))
    for source_metric in SOURCE_METRICS:
        yield _source_family(source_metric, snapshot)
    yield _filled(CLOCK_STEPS, [((), float(snapshot.clock_steps))])
    yield _filled(PAUSED, [((), float(snapshot.paused))])
    if snapshot.paused or snapshot.released:
        yield _filled(RELEASED, [((), float(snapshot.released))])
    for scheduler_metric in SCHEDULER_METRICS:
        rows = (row for health in snapshot.schedulers for row in scheduler_metric.rows(health))
        yield _filled(scheduler_metric.spec, rows)


def _filled(spec: MetricSpec, rows: Rows) -> Family:
    family = _family(spec)
    for labels, value in rows:
        family.add_metric(labels, value)
    return family


def _sharing(snapshot: Snapshot) -> Rows:
    """Which jobs have a GPU that several have."""
    shared = (view for view in snapshot.gpus if len(view.holders) > 1)
    return [((*_gpu_labels(view), job.job_id), 1.0) for view in shared for job in view.holders]


def _source_family(metric: SourceMetric, snapshot: Snapshot) -> Metric:
    """A metric of every source; one without the label `source` is the first source's."""
    spec = metric.spec
    others = snapshot.other_sources if "source" in spec.labels else ()
    healths = (snapshot.source, *others)
    if spec.kind == "summary":
        summary = SummaryMetricFamily(spec.name, spec.help, labels=spec.labels)
        for health in healths:
            for labels, seconds in metric.rows(health):
                summary.add_metric(labels, count_value=health.reads, sum_value=seconds)
        return summary
    return _filled(spec, (row for health in healths for row in metric.rows(health)))


def _gpu_labels(view: GpuView) -> tuple[str, ...]:
    return (view.gpu.index, view.gpu.uuid, view.gpu.instance)


class _Families:
    """Some families in the shape that the encoders take."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return (family for family in self._families if family.samples)


class Rendered(NamedTuple):
    """A rendered page, with its content type and encoding."""

    body: bytes
    content_type: str
    encoding: str | None


class LiveCounts(NamedTuple):
    """Counts of other parts of the agent, up to now."""

    rejected_reports: Mapping[str, int] = {}
    """Refused reports by reason."""
    pulls: Mapping[tuple[str, str], int] = {}
    """Pulls of serving engines, by job and outcome."""
    state_writes: Mapping[str, int] | None = None
    """Writes of the state file by outcome; None without a file."""
    state_set_aside: int = 0
    """Damaged state files that were kept under another name."""
    dropped_log_lines: int = 0
    """Lines of the log that were not written."""


class Page:
    """The last snapshot, rendered once per format and completed at each scrape with times and counts.

    A scrape touches no driver, no disk of the node's and no lock that the sampler holds for long.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        counts: Callable[[], LiveCounts] = LiveCounts,
        process: bool = True,
        unix: Callable[[], float] | None = None,
        path: str = METRICS,
    ) -> None:
        """`counts` is called at each scrape. `process` is whether the page has the metrics of this process.

        `path` is where the page is, besides /metrics.
        `unix` is the node's clock; without it nobody notices when that is set between two snapshots.
        """
        self.path = path
        self._clock = clock
        self._unix = unix
        self._counts = counts
        self._snapshot: Snapshot | None = None
        self._cache: dict[str, bytes] = {}
        self._cached_for: tuple[Snapshot, frozenset[GpuKey]] | None = None
        self._encoders: dict[str, Callable[..., bytes]] = {}
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._reloads: Counter[str] = Counter({"applied": 0, "failed": 0})
        self._process = ProcessCollector(registry=CollectorRegistry()) if process else None
        self.faults = Faults()
        """Errors that cost a series or an answer."""
        self.history = History(self.faults)
        """The last hour of what was published."""

    def publish(self, snapshot: Snapshot) -> None:
        """Show a snapshot from now on. Formats that were asked for before are rendered here, ahead of the scrape."""
        self._snapshot = snapshot
        self.history.take(snapshot)
        for content_type, encode in list(self._encoders.items()):
            self._snapshot_body(encode, content_type, self._clock())

    def snapshot(self) -> Snapshot | None:
        """The last snapshot, without the windows that have become too old since."""
        snapshot = self._snapshot
        return None if snapshot is None else fresh(snapshot, self._clock())

    def snapshot_age(self) -> float:
        """Seconds since the last snapshot; 0 before the first."""
        snapshot = self._snapshot
        return 0.0 if snapshot is None else self._clock() - snapshot.at

    def count_request(self, path: str, code: int) -> None:
        with self._lock:
            self._requests[path, str(code)] += 1

    def count_reload(self, outcome: str) -> None:
        with self._lock:
            self._reloads[outcome] += 1

    def render(self, accept: str = "", accept_encoding: str = "") -> Rendered:
        """The page in the format and encoding that the reader asks for."""
        encode, content_type = choose_encoder(accept)
        now = self._clock()
        self._encoders.setdefault(content_type, encode)
        body = self._snapshot_body(encode, content_type, now)
        body += self._encoded(encode, self._live(now))
        if "gzip" in accept_encoding and len(body) >= GZIP_FROM_BYTES:
            return Rendered(gzip.compress(body, 1, mtime=0), content_type, "gzip")
        return Rendered(body, content_type, None)

    def _snapshot_body(self, encode: Callable[..., bytes], content_type: str, now: float) -> bytes:
        snapshot = self._snapshot
        if snapshot is None:
            return b""
        old = stale(snapshot, now)
        with self._lock:
            cached_for = self._cached_for
            if cached_for is None or cached_for[0] is not snapshot or cached_for[1] != old:
                self._cached_for, self._cache = (snapshot, old), {}
            cache = self._cache
        if content_type not in cache:
            body = self._encoded(encode, families(fresh(snapshot, now), self.faults))
            cache[content_type] = body.removesuffix(b"# EOF\n")
        return cache[content_type]

    def _encoded(self, encode: Callable[..., bytes], families: Iterable[Metric]) -> bytes:
        """Some families as text. A sample that cannot be written costs itself."""
        found = [*families]
        try:
            return encode(_Families(found))
        except Exception:  # noqa: BLE001 - what is at fault is looked for, and noted
            return encode(_Families([self._writable(encode, family) for family in found]))

    def _writable(self, encode: Callable[..., bytes], family: Metric) -> Metric:
        """A family with those of its samples that can be written."""

        def written(sample: Sample) -> Sample:
            alone = copy(family)
            alone.samples = [sample]
            encode(_Families([alone]))
            return sample

        writable = copy(family)
        writable.samples = self.faults.made(family.name, written, family.samples)
        return writable

    def _dated(self, snapshot: Snapshot, now: float) -> Snapshot:
        """The snapshot by a node's clock that was set back since: no old value may look new because of that."""
        if self._unix is None or not snapshot.unix:
            return snapshot
        unix = self._unix() - (now - snapshot.at)
        return (
            replace(snapshot, unix=unix) if unix < snapshot.unix - CLOCK_STEP_SECONDS else snapshot
        )

    def _live(self, now: float) -> Iterator[Metric]:
        """The metrics that differ at every scrape."""
        if self._snapshot is not None:
            yield from timestamps(self._dated(self._snapshot, now))
        build = _family(BUILD_INFO)
        build.add_metric((__version__, platform.python_version()), 1)
        yield build
        with self._lock:
            reloads, requests = dict(self._reloads), dict(self._requests)
        yield _counted(RELOADS, {(outcome,): count for outcome, count in reloads.items()})
        yield _counted(REQUESTS, requests)
        yield _counted(FAULTS, {(where,): count for where, count in self.faults.counts().items()})
        counts = self._counts()
        yield _counted(PULLS, counts.pulls)
        refused = counts.rejected_reports.items()
        yield _counted(REJECTED_REPORTS, {(reason,): count for reason, count in refused})
        yield _counted(DROPPED_LOG_LINES, {(): counts.dropped_log_lines})
        if counts.state_writes is not None:
            writes = dict(counts.state_writes)
            yield _counted(STATE_WRITES, {(outcome,): count for outcome, count in writes.items()})
            yield _counted(STATE_SET_ASIDE, {(): counts.state_set_aside})
        if self._process is not None:
            yield from self._process.collect()


def _counted(spec: MetricSpec, counts: Mapping[Any, int]) -> Metric:
    family = _family(spec)
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def timestamps(snapshot: Snapshot) -> Iterator[Metric]:
    """When each GPU's last window ended, when the snapshot was made and when each scheduler last answered."""
    windows = ((_gpu_labels(view), view.sampled_at) for view in snapshot.gpus)
    answers = (((health.name,), health.answered_at) for health in snapshot.schedulers)
    yield _dated_family(SAMPLE_TIMESTAMP, snapshot, windows)
    yield _dated_family(SNAPSHOT_TIMESTAMP, snapshot, [((), snapshot.at)])
    yield _dated_family(SCHEDULER_TIMESTAMP, snapshot, answers)


def _dated_family(
    spec: MetricSpec, snapshot: Snapshot, rows: Iterable[tuple[tuple[str, ...], float | None]]
) -> Metric:
    """A family of Unix times from monotonic ones; a row whose time is not known is left out."""
    dated = ((labels, None if at is None else snapshot.unix_at(at)) for labels, at in rows)
    return _filled(spec, ((labels, unix) for labels, unix in dated if unix is not None))
