"""Reads one probe, beat by beat. A lane never makes two calls at once, and delivers the result of each read."""

from __future__ import annotations

import logging
import math
import queue
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ofu_exporter.errors import GpuError
from ofu_exporter.sources import Clock, Probe
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import SHORTEST_WINDOW_SECONDS, Fault, Reading
from ofu_exporter.values.reasons import Reason

log = logging.getLogger(__name__)

WITHOUT_COUNTERS = frozenset(
    {Reason.NOT_SUPPORTED, Reason.DRIVER_TOO_OLD, Reason.VGPU, Reason.NO_TENSOR_PIPES}
)
"""Reasons for missing counters that seldom go away."""


@dataclass(frozen=True, slots=True)
class SamplingPace:
    """How often GPUs and clocks are read."""

    interval: float
    """Seconds of one window."""
    clock_interval: float
    """Seconds between two clock reads, as configured."""
    reprobe: float = 60.0
    """Seconds between two tries to measure a GPU that had no counters."""

    @property
    def reads_per_window(self) -> int:
        return max(1, round(self.interval / self.clock_interval))

    @property
    def step_seconds(self) -> float:
        return self.interval / self.reads_per_window

    @property
    def hung_after(self) -> float:
        """Seconds after which a call counts as hung."""
        return 2 * self.interval + 1.0


class Deadlines:
    """Deadlines on a grid: no drift, and a missed one is never caught up in a burst.

    Windows end on the grid. The deadlines in between are moved by a random part of up to half a step. Otherwise a
    load with the period of the step would look the same at each of them (stratified sampling).
    """

    def __init__(self, start: float, step_seconds: float, per_window: int = 1) -> None:
        self._start = start
        self._step = step_seconds
        self._per_window = per_window
        self._number = -1
        self.next_at = start
        self.following_at = self._at(1)
        """The deadline after the next one."""

    def beat(self, now: float) -> int:
        """Take the latest deadline that has passed by `now`; returns its number since the start."""
        latest = max(self._number + 1, int((now - self._start) / self._step))
        is_next = latest == self._number + 1
        self._number = latest
        self.next_at = self.following_at if is_next else self._at(latest + 1)
        self.following_at = self._at(latest + 2)
        return latest

    def _at(self, number: int) -> float:
        off = random.uniform(-0.5, 0.5) if number % self._per_window else 0.0
        return self._start + (number + off) * self._step


class Delivery(NamedTuple):
    """The result of one read, which a lane hands to the sampler."""

    lane: Lane
    events: Sequence[Reading | Fault]
    seconds: float
    failure: Reason | None
    missed: int


Inbox = queue.SimpleQueue["Delivery | None"]
"""The queue from the lanes to the sampler; None wakes the sampler so that it stops."""


class Lane:
    """One probe, and the results of its calls. One thread at a time drives the lane; other threads read its fields."""

    def __init__(self, probe: Probe, pace: SamplingPace, inbox: Inbox, clock: Clock) -> None:
        self._probe = probe
        self._pace = pace
        self._inbox = inbox
        self._clock = clock
        self._cut = False
        self._window = -1
        self._read_at = -math.inf
        self._was_cut = False
        self._missed = 0
        self.number = -1
        """Number of the last beat that was taken."""
        self.gpus: Sequence[Gpu] = list(probe.gpus())
        self.busy_since: float | None = None
        self.failure: Reason | None = Reason.STARTING

    def cut(self) -> None:
        """End the window as soon as it may end: a job came or went."""
        self._cut = True

    @property
    def cut_at(self) -> float:
        """When the window that was cut ends; infinite if none was cut."""
        return self._read_at + SHORTEST_WINDOW_SECONDS if self._cut else math.inf

    def drive(self, number: int) -> None:
        """Do the work of a beat unless that is done already, and end the window if it was cut."""
        now = self._clock()
        if self._is_resting(now):
            self._cut = False
        if now >= self.cut_at:
            self._was_cut = True
            self._read(now)
        if number > self.number:
            self._missed += number - self.number - 1
            self.number = number
            self._take_beat(now)

    def close(self) -> None:
        self._probe.close()

    def _take_beat(self, now: float) -> None:
        """Read when a window is over, else poll. A read after a cut waits for the shortest window."""
        window = self.number // self._pace.reads_per_window
        too_soon = self._was_cut and now < self._read_at + SHORTEST_WINDOW_SECONDS
        if window > self._window and not too_soon and not self._is_resting(now):
            self._window = window
            self._was_cut = False
            self._read(now)
        elif self.failure is None:
            self._call(self._probe.poll)

    def _is_resting(self, now: float) -> bool:
        """Whether the GPU has no counters, which seldom changes, and is not due for another try yet."""
        return self.failure in WITHOUT_COUNTERS and now < self._read_at + self._pace.reprobe

    def _read(self, now: float) -> None:
        self._cut = False
        self._read_at = now
        self._call(self._probe.read)

    def _call(self, call: Callable[[], Sequence[Reading | Fault] | None]) -> None:
        """Make one call of the probe, and deliver the result of a read or a failure."""
        started = self._clock()
        self.busy_since = started
        failure: Reason | None = None
        detail = ""
        events: Sequence[Reading | Fault] | None = None
        try:
            events = call()
        except GpuError as error:
            failure, detail = error.reason, error.detail
        except Exception as error:  # after any error of a driver, the next window is tried
            failure, detail = Reason.FAILED, f"{type(error).__name__}: {error}"
            log.exception("unexpected error while reading")
        ended = self._clock()
        self.busy_since = None
        self.failure = failure
        if failure is None and events is None:
            return  # a clock read, which is delivered with its window
        self.gpus = list(self._probe.gpus())
        if failure is not None or events is None:
            events = [Fault(gpu, ended, failure or Reason.FAILED, detail) for gpu in self.gpus]
        self._inbox.put(Delivery(self, events, ended - started, failure, self._missed))
        self._missed = 0
