"""Every metric name, and the page made of a snapshot; the only importer of prometheus_client."""

from __future__ import annotations

import gzip
import platform
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)

from ofu_exporter import __version__
from ofu_exporter.errors import Reason
from ofu_exporter.records import GpuKey, GpuView, Snapshot, SourceHealth, Window

GPU_LABELS = ("gpu", "uuid", "gpu_instance")
GZIP_FROM_BYTES = 1024

Rows = Iterable[tuple[tuple[str, ...], float]]
"""Label values beyond those of the GPU, and the value."""


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric: its name without `_total`, its type, its labels and what it means."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str

    @property
    def shown_name(self) -> str:
        return f"{self.name}_total" if self.kind == "counter" else self.name

    def family(self) -> GaugeMetricFamily | CounterMetricFamily:
        make: type[GaugeMetricFamily | CounterMetricFamily]
        make = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}[self.kind]
        return make(self.name, self.help, labels=self.labels)


class GpuMetric(NamedTuple):
    """A metric with one row, or some, per GPU, and where its values come from."""

    spec: MetricSpec
    rows: Callable[[GpuView, Snapshot], Rows]


def _gpu_metric(
    name: str,
    kind: str,
    extra: tuple[str, ...],
    help_: str,
    rows: Callable[[GpuView, Snapshot], Rows],
) -> GpuMetric:
    return GpuMetric(MetricSpec(name, kind, (*GPU_LABELS, *extra), help_), rows)


def _value(value: float | None) -> Rows:
    return () if value is None else (((), value),)


def _by_label(values: Mapping[str, float]) -> Rows:
    return [((label,), value) for label, value in values.items()]


def _info(view: GpuView, snapshot: Snapshot) -> Rows:
    gpu, rating = view.gpu, view.rating
    labels = (
        gpu.name,
        gpu.pci_bus_id,
        gpu.driver,
        snapshot.source.name,
        view.window.clock_method if view.window else "",
        rating.origin if rating else "",
        gpu.profile,
    )
    return ((labels, 1.0),)


def _window(read: Callable[[Window], float | None]) -> Callable[[GpuView, Snapshot], Rows]:
    return lambda view, _: _value(read(view.window)) if view.window else ()


GPU_METRICS: tuple[GpuMetric, ...] = (
    _gpu_metric(
        "ofu_gpu_info",
        "gauge",
        ("model", "pci_bus_id", "driver", "source", "clock_method", "rating", "mig_profile"),
        "1; what the GPU is, how its clock is read (cycles, polled, point) and what it is rated "
        "against (published, configured, estimated).",
        _info,
    ),
    _gpu_metric(
        "ofu_gpu_up",
        "gauge",
        (),
        "Whether OFU is being measured on this GPU.",
        lambda view, _: _value(float(view.reason is None)),
    ),
    _gpu_metric(
        "ofu_gpu_unavailable",
        "gauge",
        ("reason",),
        "1 while OFU is not measured on this GPU, with the reason.",
        lambda view, _: [((view.reason.value,), 1.0)] if view.reason else (),
    ),
    _gpu_metric(
        "ofu_gpu_utilization_ratio",
        "gauge",
        (),
        "OFU of the last complete window: tensor activity x SM clock / tensor clock.",
        _window(lambda window: window.utilization),
    ),
    _gpu_metric(
        "ofu_gpu_utilization_seconds",
        "counter",
        (),
        "Integral of OFU over the observed time; its rate divided by that of "
        "ofu_gpu_observed_seconds_total is the mean OFU of any range.",
        lambda view, _: _value(view.utilization_seconds if view.sampled_at is not None else None),
    ),
    _gpu_metric(
        "ofu_gpu_observed_seconds",
        "counter",
        (),
        "Time in which OFU was measured.",
        lambda view, _: _value(view.observed_seconds if view.sampled_at is not None else None),
    ),
    _gpu_metric(
        "ofu_gpu_tensor_active_ratio",
        "gauge",
        (),
        "Share of SM cycles of the last window in which a tensor pipe was active.",
        _window(lambda window: window.tensor_active),
    ),
    _gpu_metric(
        "ofu_gpu_pipe_active_ratio",
        "gauge",
        ("pipe",),
        "Tensor activity of the last window by pipe, where the GPU tells.",
        lambda view, _: _by_label(view.window.pipes) if view.window else (),
    ),
    _gpu_metric(
        "ofu_gpu_sm_clock_hertz",
        "gauge",
        (),
        "Mean SM clock over the last window.",
        _window(lambda window: window.sm_clock_hz),
    ),
    _gpu_metric(
        "ofu_gpu_tensor_clock_hertz",
        "gauge",
        ("domain",),
        "Clock that OFU is measured against: the one the published dense peak implies, "
        "by clock domain.",
        lambda view, _: _by_label(view.rating.tensor_clock_hz) if view.rating else (),
    ),
    _gpu_metric(
        "ofu_gpu_peak_flops",
        "gauge",
        ("precision",),
        "Dense peak of the GPU in FLOP/s by precision.",
        lambda view, _: _by_label(view.rating.peak_flops) if view.rating else (),
    ),
    _gpu_metric(
        "ofu_gpu_utilization_stderr_ratio",
        "gauge",
        (),
        "Standard error of the last window's OFU from the clock reads; 0 with cycle counters.",
        _window(lambda window: window.stderr),
    ),
    _gpu_metric(
        "ofu_gpu_window_seconds",
        "gauge",
        (),
        "Length of the last window.",
        _window(lambda window: window.seconds),
    ),
    _gpu_metric(
        "ofu_gpu_rejected_samples",
        "counter",
        ("reason",),
        "Samples that could not be true and were not used.",
        lambda view, _: _by_label(view.rejected),
    ),
)

SAMPLE_AGE = MetricSpec(
    "ofu_gpu_sample_age_seconds",
    "gauge",
    GPU_LABELS,
    "Time since the end of the last complete window.",
)


class SourceMetric(NamedTuple):
    """A metric about the counter source."""

    spec: MetricSpec
    rows: Callable[[SourceHealth], Rows]


SOURCE_METRICS: tuple[SourceMetric, ...] = (
    SourceMetric(
        MetricSpec(
            "ofu_exporter_simulated",
            "gauge",
            (),
            "1 when the values on this page are simulated and no GPU was measured.",
        ),
        lambda health: _value(float(health.simulated)),
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_source_up",
            "gauge",
            ("source",),
            "Whether the counter source can be read.",
        ),
        lambda health: [((health.name,), float(health.up))],
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_source_unavailable",
            "gauge",
            ("source", "reason"),
            "1 while the counter source cannot be read, with the reason.",
        ),
        lambda health: [((health.name, health.reason.value), 1.0)] if health.reason else (),
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_read_seconds",
            "summary",
            ("source",),
            "Time spent in reads of the counter source, one read per GPU or page and window.",
        ),
        lambda health: [((health.name,), health.read_seconds)],
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_read_failures",
            "counter",
            ("source", "reason"),
            "Reads of the counter source that failed.",
        ),
        lambda health: [((health.name, why), count) for why, count in health.failures.items()],
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_rejected_rows",
            "counter",
            ("source", "reason"),
            "Rows of the counter source that could not be read and belong to no GPU.",
        ),
        lambda health: [((health.name, why), count) for why, count in health.rejected.items()],
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_missed_deadlines",
            "counter",
            (),
            "Deadlines of the sampler that passed before it came to them.",
        ),
        lambda health: _value(health.missed_deadlines),
    ),
)

BUILD_INFO = MetricSpec("ofu_exporter_build_info", "gauge", ("version", "python"), "1; what runs.")
SNAPSHOT_AGE = MetricSpec(
    "ofu_exporter_snapshot_age_seconds",
    "gauge",
    (),
    "Time since the sampler last made a snapshot.",
)
RELOADS = MetricSpec(
    "ofu_exporter_config_reloads",
    "counter",
    ("outcome",),
    "Times the configuration was read anew; a failed one leaves the last good settings in force.",
)
REQUESTS = MetricSpec(
    "ofu_exporter_http_requests", "counter", ("path", "code"), "HTTP requests answered."
)
AGENT_METRICS = (BUILD_INFO, SNAPSHOT_AGE, RELOADS, REQUESTS)


def specs() -> list[MetricSpec]:
    """Every metric of our own that the page can have, in its order."""
    gpu = [metric.spec for metric in GPU_METRICS]
    return [*gpu, *(metric.spec for metric in SOURCE_METRICS), SAMPLE_AGE, *AGENT_METRICS]


def gpu_families(snapshot: Snapshot) -> Iterator[Metric]:
    """What a snapshot says, as long as none of it has become too old."""
    for metric in GPU_METRICS:
        family = metric.spec.family()
        for view in snapshot.gpus:
            labels = _gpu_labels(view)
            for extra, value in metric.rows(view, snapshot):
                family.add_metric([*labels, *extra], value)
        yield family
    for source_metric in SOURCE_METRICS:
        yield _source_family(source_metric, snapshot.source)


def _source_family(metric: SourceMetric, health: SourceHealth) -> Metric:
    spec = metric.spec
    if spec.kind == "summary":
        summary = SummaryMetricFamily(spec.name, spec.help, labels=spec.labels)
        for labels, seconds in metric.rows(health):
            summary.add_metric(labels, count_value=health.reads, sum_value=seconds)
        return summary
    family = spec.family()
    for labels, value in metric.rows(health):
        family.add_metric(labels, value)
    return family


def _gpu_labels(view: GpuView) -> tuple[str, ...]:
    return (view.gpu.index, view.gpu.uuid, view.gpu.instance)


class _Families:
    """Anything that has families, in the shape that the encoders take."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return (family for family in self._families if family.samples)


class Rendered(NamedTuple):
    """A body and what it is."""

    body: bytes
    content_type: str
    encoding: str | None


class Page:
    """The last snapshot, rendered once per format and completed at each scrape with what ages.

    A scrape touches no driver, no disk of the node's and no lock that the sampler holds for long.
    """

    def __init__(self, clock: Callable[[], float], process: bool = True) -> None:
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._cache: dict[str, bytes] = {}
        self._cached_for: tuple[Snapshot, frozenset[GpuKey]] | None = None
        self._encoders: dict[str, Callable[..., bytes]] = {}
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._reloads: Counter[str] = Counter({"applied": 0, "failed": 0})
        self._process = ProcessCollector(registry=CollectorRegistry()) if process else None

    def publish(self, snapshot: Snapshot) -> None:
        """Show a snapshot from now on; formats asked for before are rendered here, ahead of the scrape."""
        self._snapshot = snapshot
        for content_type, encode in list(self._encoders.items()):
            self._of_snapshot(encode, content_type, self._clock())

    def snapshot(self) -> Snapshot | None:
        """The last snapshot, without the windows that have become too old since."""
        snapshot = self._snapshot
        return None if snapshot is None else fresh(snapshot, self._clock())

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
        body = self._of_snapshot(encode, content_type, now) + encode(_Families(self._live(now)))
        if "gzip" in accept_encoding and len(body) >= GZIP_FROM_BYTES:
            return Rendered(gzip.compress(body, 1, mtime=0), content_type, "gzip")
        return Rendered(body, content_type, None)

    def _of_snapshot(self, encode: Callable[..., bytes], content_type: str, now: float) -> bytes:
        snapshot = self._snapshot
        if snapshot is None:
            return b""
        old = stale(snapshot, now)
        with self._lock:
            held = self._cached_for
            if held is None or held[0] is not snapshot or held[1] != old:
                self._cached_for, self._cache = (snapshot, old), {}
            cache = self._cache
        if content_type not in cache:
            body = encode(_Families(gpu_families(fresh(snapshot, now))))
            cache[content_type] = body.removesuffix(b"# EOF\n")
        return cache[content_type]

    def _live(self, now: float) -> Iterator[Metric]:
        """What is different at every scrape."""
        if self._snapshot is not None:
            yield sample_ages(self._snapshot, now)
            age = SNAPSHOT_AGE.family()
            age.add_metric((), now - self._snapshot.at)
            yield age
        build = BUILD_INFO.family()
        build.add_metric((__version__, platform.python_version()), 1)
        yield build
        with self._lock:
            reloads, requests = dict(self._reloads), dict(self._requests)
        yield _counted(RELOADS, {(outcome,): count for outcome, count in reloads.items()})
        yield _counted(REQUESTS, requests)
        if self._process is not None:
            yield from self._process.collect()


def _counted(spec: MetricSpec, counts: Mapping[Any, int]) -> Metric:
    family = spec.family()
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def sample_ages(snapshot: Snapshot, now: float) -> Metric:
    """How old each GPU's last complete window is."""
    family = SAMPLE_AGE.family()
    for view in snapshot.gpus:
        if view.sampled_at is not None:
            family.add_metric(_gpu_labels(view), now - view.sampled_at)
    return family


def stale(snapshot: Snapshot, now: float) -> frozenset[GpuKey]:
    """The GPUs whose window has become too old since the snapshot was made."""
    return frozenset(
        view.gpu.key for view in snapshot.gpus if view.window and now > view.fresh_until
    )


def fresh(snapshot: Snapshot, now: float) -> Snapshot:
    """The snapshot without the windows that have become too old."""
    old = stale(snapshot, now)
    if not old:
        return snapshot
    views = tuple(
        replace(view, window=None, reason=Reason.STALE) if view.gpu.key in old else view
        for view in snapshot.gpus
    )
    return replace(snapshot, gpus=views)
