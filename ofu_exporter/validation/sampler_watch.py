"""Runs the agent's own sampler in this process, on the configured source, as the watch of a validation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from ofu_exporter.agent.sampler import Sampler
from ofu_exporter.errors import GpuError, OfuError, SourceError
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot, SourceHealth

AnswerT = TypeVar("AnswerT")

PATIENCE_SECONDS = 15.0
"""Seconds to wait in addition to two windows, until the source is open and a counter has its first value."""


class SamplerWatch:
    """A sampler whose readings are kept until they are requested."""

    def __init__(
        self, build: Callable[[Callable[[Snapshot], None]], Sampler], window_seconds: float
    ) -> None:
        """`window_seconds` is the longest that a source takes for one reading."""
        self._news = threading.Condition()
        self._events: list[Reading | Fault] = []
        self._problem: OfuError | None = None
        self._health = SourceHealth("")
        self._patience = 2 * window_seconds + PATIENCE_SECONDS
        self._sampler = build(self._publish)
        self._sampler.tap = self._keep
        self._sampler.start()

    @property
    def source(self) -> str:
        return self._health.name

    @property
    def simulated(self) -> bool:
        return self._health.simulated

    def gpu(self, uuid: str) -> Gpu:
        def first_read() -> Gpu | None:
            events = [each for each in self._events if each.gpu.uuid == uuid]
            if events and all(isinstance(each, Fault) for each in events):
                self._fail(events[-1])
            return next((each.gpu for each in events if isinstance(each, Reading)), None)

        gpu_ = self._until(first_read)
        if gpu_ is None:
            others = sorted({each.gpu.uuid for each in self._events})
            has_others = f"; it has {', '.join(others)}" if others else ""
            raise GpuError(Reason.NO_GPU, f"the source has no GPU {uuid}{has_others}")
        return gpu_

    def readings(self, uuid: str, since: float, until: float) -> Sequence[Reading]:
        def complete() -> bool:
            mine = [each for each in self._events if each.gpu.uuid == uuid]
            for each in mine:
                if isinstance(each, Fault) and each.at > since:
                    self._fail(each)
            return any(isinstance(each, Reading) and each.end >= until for each in mine)

        if not self._until(complete):
            raise GpuError(Reason.STALE, f"no window of GPU {uuid} ended in time")
        with self._news:
            mine = [
                each for each in self._events if isinstance(each, Reading) and each.gpu.uuid == uuid
            ]
            self._events.clear()
        return [each for each in mine if each.end > since and each.start < until]

    def close(self) -> None:
        self._sampler.stop()

    def _until(self, wanted: Callable[[], AnswerT]) -> AnswerT:
        """Wait for a true answer; returns the last answer if none is true in time."""

        def answer() -> AnswerT:
            if self._problem is not None:
                raise self._problem
            return wanted()

        with self._news:
            return self._news.wait_for(answer, self._patience)

    def _fail(self, event: Reading | Fault) -> None:
        assert isinstance(event, Fault)
        raise GpuError(event.reason, f"GPU {event.gpu.uuid}: {event.detail or event.reason.value}")

    def _keep(self, events: Sequence[Reading | Fault], health: SourceHealth) -> None:
        with self._news:
            self._health = health
            self._events += events
            self._news.notify_all()

    def _publish(self, snapshot: Snapshot) -> None:
        """Note a source that cannot be opened; this ends every wait with its reason."""
        health = snapshot.source
        if health.reason not in (None, Reason.STARTING) and not snapshot.gpus:
            with self._news:
                self._problem = SourceError(health.reason, health.detail)
                self._news.notify_all()
