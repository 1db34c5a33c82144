"""Collects what the lanes of all open sources measure, and publishes a snapshot after each window."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ofu_exporter.agent.lanes import Inbox, SamplingPace
from ofu_exporter.agent.source_opening import SourceBuilder
from ofu_exporter.agent.source_set import SourceEvent, SourceSet, SourceView
from ofu_exporter.hardware.gpu_models import GpuModel
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.sources import Clock
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import JobKey, Ownership
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import SchedulerHealth, Snapshot, SourceHealth

log = logging.getLogger(__name__)

RETRY_SECONDS = (2.0, 60.0)
"""First and longest pause before the sources are tried again after none could be opened."""
SHUTDOWN_SECONDS = 0.2
"""How long a stop waits at least for the sources: another may be opened next, and DCGM's shutdown is for both."""
LET_GO_SECONDS = 1.0
"""How long a pause waits for calls that have not returned, before it reports them and waits again."""


class Owners(Protocol):
    """The part of the agent that knows which job owns which GPU."""

    def take_changes(self) -> Sequence[Ownership]:
        """Every change since the last call, oldest first."""

    def health(self) -> tuple[SchedulerHealth, ...]:
        """The health of the schedulers."""


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """What is sampled, and how.

    Each GPU is read by the first candidate that can measure it. The next candidate is opened only
    while some GPU cannot be measured by those that are open.
    """

    candidates: Sequence[SourceBuilder]
    pace: SamplingPace
    rows: Sequence[GpuModel] = ()
    """The user's own GPU rows."""


class Sampler:
    """Reads sources window by window and publishes a snapshot after each."""

    def __init__(
        self,
        plan: SamplingPlan,
        publish: Callable[[Snapshot], None],
        clock: Clock,
        owners: Owners | None = None,
        state: State | None = None,
    ) -> None:
        self._pace = plan.pace
        self._rows = tuple(plan.rows)
        self._publish = publish
        self._clock = clock
        self._owners = owners
        self._inbox: Inbox = queue.SimpleQueue()
        self._candidates = list(plan.candidates)
        self._sources = self._fresh_sources()
        self._left: list[SourceSet] = []
        """Sources that a pause or a reload closes, and that are not closed yet."""
        self._paused = threading.Event()
        self._wake = threading.Event()
        self._view = self._sources.view(clock())
        self._is_shown_paused = False
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._silent = False
        """Stopped: a thread that still runs changes and publishes nothing."""
        self._thread = threading.Thread(target=self._run, name="ofu-sampler", daemon=True)
        self.tap: Callable[[Sequence[Reading | Fault], SourceHealth], None] | None = None
        """Called with every batch of readings and faults before the tick takes it in."""
        self.state = state or State()
        self.stepped: frozenset[tuple[JobKey, str]] = frozenset()
        """The jobs that start and whose run, by its uid, has stated a step."""

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 0.5) -> bool:
        """Release every handle; False when a call that hangs held one for longer than `timeout` seconds.

        After this has returned, nothing is published and `state` does not change, even if a call hangs.
        """
        deadline = self._clock() + timeout
        self._stop.set()
        self._wake_up()
        self._sources.stop()
        self._thread.join(max(0.0, deadline - self._clock()))
        deadline = max(deadline, self._clock() + SHUTDOWN_SECONDS)
        released = all([sources.close(deadline) for sources in [self._sources, *self._left]])
        with self._lock:
            self._silent = True
        return released and not self._thread.is_alive()

    def close_left_of(self, earlier: Sampler) -> None:
        """Close at a pause what the stop of an earlier sampler could not: nothing is released before."""
        now = self._clock()
        left = [earlier._sources, *earlier._left]
        self._left = [sources for sources in left if not sources.close(now)]

    def set_paused(self, paused: bool) -> None:
        """Let go of every GPU and driver, or take them again. This happens soon, on the sampler's thread."""
        if paused == self._paused.is_set():
            return
        if paused:
            self._paused.set()
        else:
            self._paused.clear()
        self._wake_up()

    def _wake_up(self) -> None:
        self._wake.set()
        self._inbox.put(None)

    def _fresh_sources(self) -> SourceSet:
        return SourceSet(self._candidates, self._pace, self._inbox, self._clock)

    def cut(self) -> None:
        """End every window now, so that none belongs to two jobs."""
        self._sources.cut()

    def divide(self, gpus: frozenset[GpuKey]) -> None:
        """Have sources tell how the activity of these GPUs lies inside their windows: reports will cut them."""
        self._sources.divide(gpus)

    @property
    def choosing(self) -> bool:
        """Whether a source that has not been tried yet may measure a GPU that is not measured."""
        return self._sources.choosing

    def _run(self) -> None:
        pause = RETRY_SECONDS[0]
        while not self._stop.is_set():
            try:
                going = self._turn()
            except Exception:  # one bad tick must not be the last one
                log.exception("unexpected error in the sampler")
                self._sources.count_failure(Reason.FAILED)
                going = False
            if going:
                pause = RETRY_SECONDS[0]
            else:
                self._wake.wait(pause)
                pause = min(2 * pause, RETRY_SECONDS[1])
            self._wake.clear()

    def _turn(self) -> bool:
        """One window; False when no source can be read."""
        if self._paused.is_set():
            self._pass_pause()
            return True
        if self._is_shown_paused:  # not before: something may be held again by then
            health = replace(self._view.health, reason=Reason.STARTING, detail="")
            self._show(health, Reason.STALE)
        if not self._sources.open_first():
            self._tick([])
            return False
        self._tick(self._gather())
        if not self._stop.is_set():
            self._sources.adjust()
        return True

    def _pass_pause(self) -> None:
        """Let go of everything and publish that, then wait until the next window is due or something changes."""
        if self._sources.holds:
            self._sources.stop()
            self._left.append(self._sources)
            self._sources = self._fresh_sources()
        deadline = self._clock() + LET_GO_SECONDS
        self._left = [sources for sources in self._left if not sources.close(deadline)]
        detail = "" if not self._left else "a call does not return, so not everything is released"
        reason = Reason.HUNG if self._left else Reason.PAUSED
        health = replace(self._view.health, up=False, reason=reason, detail=detail)
        self._show(health, Reason.PAUSED)
        self._wake.wait(self._pace.interval)

    def _gather(self) -> list[SourceEvent]:
        """Wait for one delivery, and then briefly for the other lanes, which have the same deadlines."""
        events: list[SourceEvent] = []
        lanes: set[int] = set()
        wait = self._pace.interval
        deadline = self._clock() + wait
        while not self._stop.is_set() and len(lanes) < self._sources.lane_count:
            try:
                delivery = self._inbox.get(timeout=max(0.0, min(wait, deadline - self._clock())))
            except queue.Empty:
                break
            if delivery is None:
                break
            if not lanes:
                deadline = self._clock() + min(0.2, self._pace.interval / 4)
            lanes.add(id(delivery.lane))
            events.extend(self._sources.take(delivery))
        return events

    def _tick(self, heard: Sequence[SourceEvent]) -> None:
        view = self._sources.view(self._clock())
        events = [*view.believed(heard), *view.hung]
        if events and self.tap is not None:
            self.tap(events, view.health)
        self._view = view
        self._publish_tick(view, events)

    def _show(self, health: SourceHealth, reason: Reason) -> None:
        """Publish that none of the GPUs is measured, and why."""
        now = self._clock()
        view = replace(self._view, hung=(), health=health, others=())
        self._is_shown_paused = reason is Reason.PAUSED
        self._publish_tick(view, [Fault(gpu, now, reason) for gpu in view.gpus])

    def _publish_tick(self, view: SourceView, events: Sequence[Reading | Fault]) -> None:
        tick = Tick(
            now=self._clock(),
            interval=self._pace.interval,
            present=view.gpus,
            events=events,
            source=view.health,
            rows=self._rows,
            unix=time.time(),
            owners=self._owners.take_changes() if self._owners else (),
            schedulers=self._owners.health() if self._owners else (),
            other_sources=view.others,
            readers=view.readers,
            stepped=self.stepped,
        )
        state, snapshot = step(self.state, tick)
        if self._is_shown_paused:
            snapshot = replace(snapshot, paused=True, released=not self._left)
        with self._lock:
            if self._silent:
                return
            self.state = state
            self._publish(snapshot)
