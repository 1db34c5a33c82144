"""Defines what a metric is: its name, type, labels and meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, ParamSpec

SubjectP = ParamSpec("SubjectP")
GPU_LABELS = ("gpu", "uuid", "gpu_instance")
Value = float | tuple[float, float]
"""Of a summary how many there were, and their sum."""
Rows = Iterable[tuple[tuple[str, ...], Value]]
"""The values of the labels, and of the metric."""


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


@dataclass(frozen=True, slots=True)
class Metric(Generic[SubjectP]):
    """A metric of one kind of subject, and what makes its rows of such a subject."""

    spec: MetricSpec
    rows: Callable[SubjectP, Rows]


def gauge(name: str, help_: str, rows: Callable[SubjectP, Rows], *labels: str) -> Metric[SubjectP]:
    return Metric(MetricSpec(name, "gauge", labels, help_), rows)


def counter(
    name: str, help_: str, rows: Callable[SubjectP, Rows], *labels: str
) -> Metric[SubjectP]:
    return Metric(MetricSpec(name, "counter", labels, help_), rows)


def summary(
    name: str, help_: str, rows: Callable[SubjectP, Rows], *labels: str
) -> Metric[SubjectP]:
    return Metric(MetricSpec(name, "summary", labels, help_), rows)


def by_label(values: Mapping[str, float]) -> Rows:
    """One row per entry."""
    return [((label,), value) for label, value in values.items()]


def single(value: float | None) -> Rows:
    """One row without further labels; none where there is no value."""
    return () if value is None else (((), value),)
