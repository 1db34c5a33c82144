"""Names the metrics of GPU models: what is the same for all GPUs of a node that are rated alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ofu_exporter.serving.metrics.spec import Metric, Rows, Value, gauge
from ofu_exporter.values.gpu import Rating
from ofu_exporter.values.snapshot import GpuView

ModelMetric = Metric[[GpuView]]


def _of_rating(
    name: str, help_: str, label: str, values: Callable[[Rating], Mapping[str, float]]
) -> ModelMetric:
    """A metric of the rating that a GPU has, with its values by a label."""

    def rows(view: GpuView) -> Rows:
        rating = view.rating
        if rating is None or not rating.rated_as:
            return ()
        of = (view.gpu.name, rating.rated_as)
        return [((*of, key), value) for key, value in values(rating).items()]

    return gauge(
        name,
        help_,
        rows,
        "model",
        "rated_as",
        label,
    )


def once(rows: Rows) -> Rows:
    """Rows of many GPUs, each once. What two GPUs contradict each other about is left out."""
    found: dict[tuple[str, ...], set[Value]] = {}
    for labels, value in rows:
        found.setdefault(labels, set()).add(value)
    return [(labels, value) for labels, (value, *others) in found.items() if not others]


MODEL_METRICS: tuple[ModelMetric, ...] = (
    _of_rating(
        "ofu_model_tensor_clock_hertz",
        "Clock that OFU is measured against: the one the published dense peak implies, by clock domain.",
        "domain",
        lambda rating: rating.tensor_clock_hz,
    ),
    _of_rating(
        "ofu_model_peak_flops",
        "Dense peak of one GPU in FLOP/s by precision.",
        "precision",
        lambda rating: rating.peak_flops,
    ),
)
