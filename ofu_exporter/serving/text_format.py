"""Writes metrics in the two text formats that Prometheus reads: its own, and OpenMetrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

from ofu_exporter.serving.metrics.spec import MetricSpec

END = b"# EOF\n"
"""Ends a page of OpenMetrics."""
MOST_REMEMBERED = 2048
"""Most sets of labels that are kept as text: those of 72 GPUs and as many jobs."""
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


class TextFormat(NamedTuple):
    """One of the formats."""

    content_type: str
    is_openmetrics: bool


TEXT = TextFormat("text/plain; version=0.0.4; charset=utf-8", False)
OPENMETRICS = TextFormat("application/openmetrics-text; version=1.0.0; charset=utf-8", True)
FORMATS = (TEXT, OPENMETRICS)


def chosen_format(accept: str) -> TextFormat:
    """OpenMetrics for who takes version 1 or later, or says no version; else the text format, which everybody reads."""
    for each in accept.split(","):
        kind, *parameters = (part.strip() for part in each.split(";"))
        if kind == "application/openmetrics-text":
            versions = [one.partition("=")[2] for one in parameters if one.startswith("version=")]
            if not versions or versions[0].partition(".")[0] not in ("", "0"):
                return OPENMETRICS
    return TEXT


SampleLine = tuple[str, tuple[str, ...], float]
"""One line: what the metric's name ends with, the values of the labels in the order of the spec, and the value."""


class MetricFamily:
    """One metric with its samples."""

    def __init__(self, spec: MetricSpec) -> None:
        self.spec = spec
        self.samples: list[SampleLine] = []
        self._suffix = "_total" if spec.kind == "counter" else ""

    def add_metric(self, labels: tuple[str, ...], value: float) -> None:
        self.samples.append((self._suffix, labels, value))

    def add_summary(self, labels: tuple[str, ...], count: float, total: float) -> None:
        self.samples += (("_count", labels, count), ("_sum", labels, total))


@cache
def _heads(spec: MetricSpec) -> tuple[str, str]:
    """Help and type, in the text format and in OpenMetrics."""
    help_ = spec.help.translate(_HELP_ESCAPES), spec.help.translate(_ESCAPES)
    return (
        f"# HELP {spec.shown_name} {help_[0]}\n# TYPE {spec.shown_name} {spec.kind}\n",
        f"# HELP {spec.name} {help_[1]}\n# TYPE {spec.name} {spec.kind}\n",
    )


def written(
    family: MetricFamily, form: TextFormat, refuse: Callable[[str, Exception], object]
) -> bytes:
    """A metric as text, b"" without a sample. A sample that cannot be written is given to `refuse`."""
    if not family.samples:
        return b""
    head = _heads(family.spec)[form.is_openmetrics]
    try:
        lines = [_line(family.spec, sample) for sample in family.samples]
        return (head + "".join(lines)).encode()
    except Exception:  # noqa: BLE001 - which sample is at fault is looked for
        lines = _writable(family, refuse)
        return (head + "".join(lines)).encode() if lines else b""


def _writable(family: MetricFamily, refuse: Callable[[str, Exception], object]) -> list[str]:
    """The lines of those samples that can be written."""
    lines = []
    for sample in family.samples:
        try:
            line = _line(family.spec, sample)
            line.encode()
            lines.append(line)
        except Exception as error:  # noqa: BLE001 - given on
            refuse(family.spec.name, error)
    return lines


def _line(spec: MetricSpec, sample: SampleLine) -> str:
    suffix, values, value = sample
    return f"{spec.name}{suffix}{_labels(spec.labels, values)} {number(value)}\n"


@lru_cache(maxsize=MOST_REMEMBERED)
def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """The labels of a line in the order of their names; they are the same in every snapshot and in many metrics."""
    pairs = [
        f'{name}="{value.translate(_ESCAPES)}"'
        for name, value in sorted(zip(names, values, strict=True))
    ]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def number(value: float) -> str:
    """A number as Go writes it, which goes over to exponents sooner than Python."""
    value = float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    point = text.find(".")
    if value > 0 and point > 6:
        digits = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{digits}e+{point - 1:02d}"
    return text
