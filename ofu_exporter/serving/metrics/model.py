"""Names the metrics of GPU models: what is the same for all GPUs of a node that are rated alike."""

from __future__ import annotations

from ofu_exporter.serving.metrics.spec import Metric, Rows, Subject, Value
from ofu_exporter.values.gpu import Rating
from ofu_exporter.values.snapshot import GpuView


def _rating(view: GpuView) -> Rating | None:
    """What the GPU is rated at, if that has a name."""
    return view.rating if view.rating and view.rating.rated_as else None


MODEL = Subject[[GpuView]](
    ("model", "rated_as"),
    lambda view: (view.gpu.name, view.rating.rated_as if view.rating else ""),
)


def once(rows: Rows) -> Rows:
    """Rows of many GPUs, each once. What two GPUs contradict each other about is left out."""
    values: dict[tuple[str, ...], set[Value]] = {}
    for labels, value in rows:
        values.setdefault(labels, set()).add(value)
    return [(labels, value) for labels, (value, *others) in values.items() if not others]


MODEL_METRICS: tuple[Metric[[GpuView]], ...] = (
    MODEL.gauge(
        "ofu_model_tensor_clock_hertz",
        "Clock that OFU is measured against: the one the published dense peak implies, by clock domain.",
        lambda view: rating.tensor_clock_hz if (rating := _rating(view)) else None,
        "domain",
    ),
    MODEL.gauge(
        "ofu_model_peak_flops",
        "Dense peak of one GPU in FLOP/s by precision.",
        lambda view: rating.peak_flops if (rating := _rating(view)) else None,
        "precision",
    ),
)
