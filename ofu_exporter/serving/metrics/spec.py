"""Defines what a metric is: its name, type, labels and meaning, and what makes its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec

SubjectP = ParamSpec("SubjectP")
Value = float | tuple[float, float]
"""Of a summary how many there were, and their sum."""
MetricRows = Iterable[tuple[tuple[str, ...], Value]]
"""The values of the labels, and of the metric."""
RowValues = Value | Mapping[Any, float] | None
"""What a metric reads of its subject: one value, or values by the label, or tuple of labels, that it has besides the
subject's; None and an empty mapping are no row."""


@dataclass(frozen=True, slots=True)
class Metric(Generic[SubjectP]):
    """One metric of one kind of subject: its name is without `_total`."""

    kind: str
    name: str
    help: str
    rows: Callable[SubjectP, MetricRows]
    labels: tuple[str, ...]

    @property
    def shown_name(self) -> str:
        return f"{self.name}_total" if self.kind == "counter" else self.name


@dataclass(frozen=True)
class Subject(Generic[SubjectP]):
    """What metrics are about: each of their rows begins with the labels that tell one subject from another."""

    labels: tuple[str, ...]
    values: Callable[SubjectP, tuple[str, ...]]

    def gauge(
        self, name: str, help_: str, read: Callable[SubjectP, RowValues], *labels: str
    ) -> Metric[SubjectP]:
        return Metric("gauge", name, help_, self._rows(read), (*self.labels, *labels))

    def counter(
        self, name: str, help_: str, read: Callable[SubjectP, RowValues], *labels: str
    ) -> Metric[SubjectP]:
        return Metric("counter", name, help_, self._rows(read), (*self.labels, *labels))

    def summary(
        self, name: str, help_: str, read: Callable[SubjectP, RowValues], *labels: str
    ) -> Metric[SubjectP]:
        return Metric("summary", name, help_, self._rows(read), (*self.labels, *labels))

    def _rows(self, read: Callable[SubjectP, RowValues]) -> Callable[SubjectP, MetricRows]:
        def rows(*subject: SubjectP.args, **named: SubjectP.kwargs) -> MetricRows:
            row_values = read(*subject, **named)
            if row_values is None:
                return ()
            subject_labels = self.values(*subject, **named)
            if not isinstance(row_values, Mapping):
                return [(subject_labels, row_values)]
            return [
                ((*subject_labels, *((more,) if isinstance(more, str) else more)), value)
                for more, value in row_values.items()
            ]

        return rows
