"""Defines what a metric is: its name, type, labels and meaning, and what makes its rows."""

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
class Metric(Generic[SubjectP]):
    """One metric of one kind of subject: its name is without `_total`."""

    kind: str
    name: str
    help: str
    rows: Callable[SubjectP, Rows]
    labels: tuple[str, ...]

    @property
    def shown_name(self) -> str:
        return f"{self.name}_total" if self.kind == "counter" else self.name


def gauge(name: str, help_: str, rows: Callable[SubjectP, Rows], *labels: str) -> Metric[SubjectP]:
    return Metric("gauge", name, help_, rows, labels)


def counter(
    name: str, help_: str, rows: Callable[SubjectP, Rows], *labels: str
) -> Metric[SubjectP]:
    return Metric("counter", name, help_, rows, labels)


def summary(
    name: str, help_: str, rows: Callable[SubjectP, Rows], *labels: str
) -> Metric[SubjectP]:
    return Metric("summary", name, help_, rows, labels)


def by_label(values: Mapping[str, float]) -> Rows:
    """One row per entry."""
    return [((label,), value) for label, value in values.items()]


def single(value: float | None) -> Rows:
    """One row without further labels; none where there is no value."""
    return () if value is None else (((), value),)
