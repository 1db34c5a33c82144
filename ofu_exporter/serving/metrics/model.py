"""Names the metrics of GPU models: what is the same for all GPUs of a node that are rated alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ofu_exporter.serving.metrics.spec import MetricSpec, Rows, gauge
from ofu_exporter.values.gpu import Rating
from ofu_exporter.values.snapshot import GpuView

MODEL_LABELS = ("model", "rated_as")


class ModelMetric(NamedTuple):
    """A metric with rows per rating, and where its values come from."""

    spec: MetricSpec
    values: Callable[[Rating], Mapping[str, float]]
    """The values of a rating, by the metric's last label."""

    def rows(self, view: GpuView) -> Rows:
        """The rows of the model that a GPU is."""
        rating = view.rating
        if rating is None or not rating.rated_as:
            return ()
        name = (view.gpu.name, rating.rated_as)
        return [((*name, label), value) for label, value in self.values(rating).items()]


def once(rows: Rows) -> Rows:
    """Rows of many GPUs, each once. What two GPUs contradict each other about is left out."""
    found: dict[tuple[str, ...], set[float]] = {}
    for labels, value in rows:
        found.setdefault(labels, set()).add(value)
    return [(labels, value) for labels, (value, *others) in found.items() if not others]


MODEL_METRICS: tuple[ModelMetric, ...] = (
    ModelMetric(
        gauge(
            "ofu_model_tensor_clock_hertz",
            "Clock that OFU is measured against: the one the published dense peak implies, by clock domain.",
            *MODEL_LABELS,
            "domain",
        ),
        lambda rating: rating.tensor_clock_hz,
    ),
    ModelMetric(
        gauge(
            "ofu_model_peak_flops",
            "Dense peak of one GPU in FLOP/s by precision.",
            *MODEL_LABELS,
            "precision",
        ),
        lambda rating: rating.peak_flops,
    ),
)
