"""A reporter that sends nothing and remembers everything."""

from __future__ import annotations

from typing import Any

from ofu_exporter.client import Reporter


class Listener(Reporter):
    """Keeps what it is told, and has the answer that a test gives it."""

    def __init__(self, **options: object) -> None:
        super().__init__(enabled=False)
        self.options = options
        self.told: list[dict[str, Any]] = []
        self.events: list[tuple[str, float, int | None]] = []
        self.answer: dict[str, Any] | None = None

    def report(self, *surplus: Any, **values: Any) -> None:
        assert not surplus
        self.told.append(values)

    def event(self, event: str, start: float, step: int | None = None) -> None:
        self.events.append((event, start, step))

    @property
    def last_answer(self) -> dict[str, Any] | None:
        return self.answer
