"""Probes and sources that do as a test says, a sampler that reads them, and who waits for its snapshots."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.agent.sampler import Sampler, SamplingPlan
from ofu_exporter.agent.source_opening import SourceBuilder
from ofu_exporter.errors import GpuError
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import ClockSample, Fault, Reading
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot
from tests.helpers.values import gpu

PACE = SamplingPace(interval=0.1, clock_interval=0.05, reprobe=0.3)
SOON = 60.0
"""A bound on waiting that only a failing test reaches."""


class FakeProbe:
    """A GPU that answers, fails or hangs as its `behave` says."""

    def __init__(self, device: Gpu, behave: Callable[[], None] = lambda: None) -> None:
        self.device = device
        self.behave = behave
        self.polls = 0
        self.closed = threading.Event()
        self._end = time.monotonic()

    def gpus(self) -> Sequence[Gpu]:
        return [self.device]

    def poll(self) -> None:
        self.polls += 1

    def read(self) -> Sequence[Reading | Fault]:
        self.behave()
        start, self._end = self._end, time.monotonic()
        clocks = (ClockSample(self._end, 1400e6),)
        return [Reading(self.device, start, self._end, 0.5, {}, clocks)]

    def close(self) -> None:
        self.closed.set()


class FakeSource:
    simulated = False
    recorded = ""
    rejected: Mapping[str, int] = {}

    def __init__(self, *probes: FakeProbe, error: Exception | None = None) -> None:
        self.probes = probes
        self.error = error
        self.closed = threading.Event()
        self.answers = threading.Event()
        self.answers.set()
        self.opened = 0
        self.closing_seconds = 0.0

    def open(self) -> Sequence[FakeProbe]:
        self.opened += 1
        self.answers.wait(SOON)
        if self.error is not None:
            raise self.error
        return self.probes

    def close(self) -> None:
        time.sleep(self.closing_seconds)
        self.closed.set()


class Watch:
    """Waits for a snapshot that is as a test wants it."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._snapshots: list[Snapshot] = []
        self.samplers: list[Sampler] = []

    @property
    def published(self) -> int:
        return len(self._snapshots)

    def publish(self, snapshot: Snapshot) -> None:
        with self._condition:
            self._snapshots.append(snapshot)
            self._condition.notify_all()

    def until(self, wanted: Callable[[Snapshot], bool]) -> Snapshot:
        with self._condition:
            assert self._condition.wait_for(
                lambda: bool(self._snapshots) and wanted(self._snapshots[-1]), SOON
            )
            return self._snapshots[-1]


def _builder(name: str, source: Any) -> SourceBuilder:
    return SourceBuilder(name, lambda: source)


def sampler(
    watch: Watch, *candidates: tuple[str, FakeSource], pace: SamplingPace = PACE
) -> Sampler:
    built = [_builder(name, source) for name, source in candidates]
    watch.samplers.append(Sampler(SamplingPlan(built, pace), watch.publish, time.monotonic))
    return watch.samplers[-1]


def reasons(snapshot: Snapshot) -> dict[str, Reason | None]:
    return {view.gpu.index: view.reason for view in snapshot.gpus}


def fails(reason: Reason) -> Callable[[], None]:
    def behave() -> None:
        raise GpuError(reason, "as told")

    return behave


def unable(number: int) -> FakeProbe:
    return FakeProbe(gpu(number), fails(Reason.NOT_SUPPORTED))
