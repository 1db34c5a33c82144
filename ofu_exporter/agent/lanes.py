"""Reads probes, beat by beat. A lane never makes two calls at once, and delivers the result of each read."""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ofu_exporter.errors import GpuError
from ofu_exporter.sources import Clock, Probe
from ofu_exporter.values.gpu import Gpu, GpuKey
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
    clock_interval: float | None = None
    """Seconds between two clock reads, as configured; None = 0.5, or 0.25 with windows of up to 1 s, which need four
    reads: two would take the clock of work for that of a pause beside it too often."""
    reprobe: float = 60.0
    """Seconds between two tries to measure a GPU that had no counters."""

    @property
    def reads_per_window(self) -> int:
        usual = 0.5 if self.interval > 1 else 0.25
        return max(1, round(self.interval / (self.clock_interval or usual)))

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

    def take_beat(self, now: float) -> int:
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

    def divide(self, gpus: frozenset[GpuKey]) -> None:
        self._probe.divide(gpus)

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


MOST_ASLEEP = 2
"""One thread that sleeps until the next beat, and one that sleeps until the one after."""


class LaneThreads:
    """Drives the lanes of one source at a common beat with few threads. A call that hangs stops one GPU only.

    Two threads take turns. While one drives the lanes of a beat, one after the other, the other sleeps until the next
    beat. If the first is still in a call then, the second drives all other lanes, and a third thread sleeps until the
    beat after that. So a call that hangs delays the other GPUs once, by a step at most, and a beat costs one wake-up.
    """

    def __init__(self, lanes: Sequence[Lane], pace: SamplingPace, clock: Clock) -> None:
        self._lanes = list(lanes)
        self._clock = clock
        self._deadlines = Deadlines(clock(), pace.step_seconds, pace.reads_per_window)
        self._number = -1
        self._due: deque[Lane] = deque()
        self._busy: set[Lane] = set()
        self._open = set(self._lanes)
        self._asleep = 0
        self._stopping = False
        self._changed = threading.Condition()
        """Guards all of these. It is not held while a lane is driven."""

    def start(self) -> None:
        self._begin(self._run)

    def cut(self) -> None:
        with self._changed:
            for lane in self._lanes:
                lane.cut()
            self._changed.notify_all()

    def stop(self) -> None:
        """Close every lane as soon as it is not in a call."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, timeout: float) -> bool:
        """Wait until every lane is closed; False when one is still in a call."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, max(0.0, timeout))

    def _run(self) -> None:
        while (lane := self._next()) is not None:
            closes = self._stopping
            try:
                if closes:
                    lane.close()
                else:
                    lane.drive(self._number)
            except Exception:  # one bad lane must not end the thread, which drives the others
                log.exception("unexpected error in a lane")
            self._let_go(lane, closes)

    def _run_later(self) -> None:
        """Begin with the next beat."""
        with self._changed:
            if not self._stopping:
                self._sleep()
        self._run()

    def _next(self) -> Lane | None:
        """The next lane, once it is due; None when this thread is no longer needed."""
        with self._changed:
            while True:
                lane = self._take_due(self._clock())
                if lane is not None:
                    self._busy.add(lane)
                    self._leave_somebody_asleep()
                    return lane
                if self._stopping or self._asleep >= min(MOST_ASLEEP, len(self._lanes)):
                    return None
                self._sleep()

    def _take_due(self, now: float) -> Lane | None:
        if self._stopping:
            self._due = deque(self._open)
        elif now >= self._deadlines.next_at:
            self._number = self._deadlines.take_beat(now)
            self._due = deque(self._lanes)
        elif not self._due:
            self._due.extend(lane for lane in self._lanes if lane.cut_at <= now)
        while self._due:
            lane = self._due.popleft()
            if lane not in self._busy:
                return lane
        return None

    def _leave_somebody_asleep(self) -> None:
        """Start a thread if all others may hang and there is a lane that it could drive."""
        if not self._asleep and len(self._busy) < len(self._lanes):
            # Where no thread can be started, this one continues alone.
            with contextlib.suppress(RuntimeError):
                self._begin(self._run if self._stopping else self._run_later)

    def _sleep(self) -> None:
        """Sleep until the next beat or cut; if another thread already sleeps until then, until the beat after."""
        beats = self._deadlines
        beat_at = beats.following_at if self._asleep else beats.next_at
        cuts = (lane.cut_at for lane in self._lanes if lane not in self._busy)
        self._asleep += 1
        self._changed.wait(max(0.0, min([beat_at, *cuts]) - self._clock()))
        self._asleep -= 1

    def _let_go(self, lane: Lane, is_closed: bool) -> None:
        """Give a lane back after a call. A beat that it missed meanwhile is taken at once."""
        with self._changed:
            self._busy.discard(lane)
            if is_closed:
                self._open.discard(lane)
                self._changed.notify_all()
            elif lane.number < self._number:
                self._due.append(lane)

    @staticmethod
    def _begin(run: Callable[[], None]) -> None:
        threading.Thread(target=run, name="ofu-lane", daemon=True).start()
