"""The sampler: opens a source, gathers what its lanes measure, and publishes a snapshot after each window."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from ofu_exporter.errors import Reason, SourceError
from ofu_exporter.gpus import Row
from ofu_exporter.lanes import Delivery, Inbox, Lane, Pace
from ofu_exporter.notices import log_changes
from ofu_exporter.pipeline import State, Tick, step
from ofu_exporter.records import (
    Fault,
    Ownership,
    Reading,
    SchedulerHealth,
    Snapshot,
    SourceHealth,
)
from ofu_exporter.sources import Clock, Probe, Source

log = logging.getLogger(__name__)

RETRY_SECONDS = (2.0, 60.0)
"""First and longest pause before a source that could not be opened is tried again."""


class Opened(NamedTuple):
    """A source that could be opened."""

    name: str
    source: Source
    probes: Sequence[Probe]


Candidate = tuple[str, Callable[[], Source]]
"""A source by name, and how it is built."""


class Owners(Protocol):
    """Whoever knows which job owns which GPU."""

    def changes(self) -> Sequence[Ownership]:
        """Every change since the last call, oldest first."""

    def health(self) -> tuple[SchedulerHealth, ...]:
        """How the schedulers that were asked fare."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sampled, and how.

    The candidates are tried in order. One that opens but whose GPUs all lack the counters gives
    way to the next that opens; when none does, the first stays, so that its reasons are seen.
    """

    candidates: Sequence[Candidate]
    pace: Pace
    rows: Sequence[Row] = ()
    """The user's own GPU rows."""


class Sampler:
    """Reads a source window by window and publishes a snapshot after each."""

    def __init__(
        self,
        plan: Plan,
        publish: Callable[[Snapshot], None],
        clock: Clock,
        owners: Owners | None = None,
        state: State | None = None,
    ) -> None:
        self._candidates = list(plan.candidates)
        self._passed: set[str] = set()
        self._settled = len(plan.candidates) < 2
        self._pace = plan.pace
        self._rows = tuple(plan.rows)
        self._publish = publish
        self._clock = clock
        self._owners = owners
        self._inbox: Inbox = queue.SimpleQueue()
        self._lanes: list[Lane] = []
        self._opened: Opened | None = None
        self._health = SourceHealth(plan.candidates[0][0])
        self._snapshot: Snapshot | None = None
        self._failures: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ofu-sampler", daemon=True)
        self.tap: Callable[[Sequence[Reading | Fault], SourceHealth], None] | None = None
        """Called with every batch of readings and faults before it is taken in."""
        self.state = state or State()

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 0.5) -> bool:
        """Release every handle; False when a call that hangs kept one past `timeout` seconds."""
        deadline = self._clock() + timeout
        self._stop.set()
        self._inbox.put(None)
        for lane in list(self._lanes):
            lane.stop()
        ended = [lane.join(deadline - self._clock()) for lane in list(self._lanes)]
        self._thread.join(max(0.0, deadline - self._clock()))
        released = all(ended) and not self._thread.is_alive()
        if released and self._opened is not None:
            self._opened.source.close()
        return released

    def cut(self) -> None:
        """End every window now, so that none belongs to two jobs."""
        for lane in list(self._lanes):
            lane.cut()

    def _run(self) -> None:
        pause = RETRY_SECONDS[0]
        while not self._stop.is_set():
            try:
                going = self._turn()
            except Exception:  # one bad tick must not be the last one
                log.exception("unexpected error in the sampler")
                self._failures[Reason.FAILED.value] += 1
                going = False
            if going:
                pause = RETRY_SECONDS[0]
            else:
                self._stop.wait(pause)
                pause = min(2 * pause, RETRY_SECONDS[1])

    def _turn(self) -> bool:
        """One window; False when no source can be read."""
        if self._opened is None and not self._open():
            self._tick([])
            return False
        self._tick(self._gather())
        if self.choosing:
            self._pass_on()
        return True

    @property
    def choosing(self) -> bool:
        """Whether the source that is read now is about to give way to the next candidate."""
        return not self._settled and self._unsupported()

    def _open(self) -> bool:
        """Open the first candidate that opens; else remember why each could not be."""
        errors: list[tuple[str, SourceError]] = []
        for name, build in self._candidates:
            if name in self._passed:
                continue
            try:
                source = build()
                probes = source.open()
                if not probes:
                    raise SourceError(Reason.NO_GPU)
            except SourceError as error:
                errors.append((name, error))
                continue
            except Exception as error:  # whatever one source does, the next is tried
                log.exception("unexpected error while opening source %s", name)
                detail = f"{type(error).__name__}: {error}"
                errors.append((name, SourceError(Reason.FAILED, detail)))
                continue
            self._begin(Opened(name, source, probes))
            return True
        if errors:
            self._note_unusable(errors)
        return False

    def _begin(self, opened: Opened) -> None:
        log.info("reading source %s", opened.name)
        self._opened = opened
        self._health = SourceHealth(opened.name, simulated=opened.source.simulated)
        self._failures.clear()
        lanes = [Lane(probe, self._pace, self._inbox, self._clock) for probe in opened.probes]
        self._lanes = lanes
        for lane in lanes:
            lane.start()

    def _note_unusable(self, errors: Sequence[tuple[str, SourceError]]) -> None:
        """The first candidate's reason is the reason; the detail names each candidate's."""
        reason = errors[0][1].reason
        detail = "; ".join(
            f"{name}: {error.detail or error.reason.value}" for name, error in errors
        )
        if (reason, detail) != (self._health.reason, self._health.detail):
            log.warning("no source can be used: %s. %s", detail, reason.advice)
        self._failures[reason.value] += 1
        self._health = replace(
            self._health,
            up=False,
            reason=reason,
            detail=detail,
            failures=dict(self._failures),
        )

    def _gather(self) -> list[Reading | Fault]:
        """Wait for one delivery, then a little for the other lanes, which are on the same beat."""
        events: list[Reading | Fault] = []
        heard: set[int] = set()
        wait = self._pace.interval
        deadline = self._clock() + wait
        while not self._stop.is_set() and len(heard) < len(self._lanes):
            try:
                delivery = self._inbox.get(timeout=max(0.0, min(wait, deadline - self._clock())))
            except queue.Empty:
                break
            if delivery is None:
                break
            if not heard:
                deadline = self._clock() + min(0.2, self._pace.interval / 4)
            if delivery.lane in self._lanes:
                heard.add(id(delivery.lane))
                events.extend(delivery.events)
                self._note(delivery)
        return events

    def _note(self, delivery: Delivery) -> None:
        if delivery.failure is not None:
            self._failures[delivery.failure.value] += 1
        self._health = replace(
            self._health,
            reads=self._health.reads + 1,
            read_seconds=self._health.read_seconds + delivery.seconds,
            failures=dict(self._failures),
            missed_deadlines=self._health.missed_deadlines + delivery.missed,
        )

    def _tick(self, events: list[Reading | Fault]) -> None:
        now = self._clock()
        events += self._hung(now)
        if self._opened is not None:
            failures = [lane.failure for lane in self._lanes]
            up = None in failures
            self._health = replace(
                self._health,
                up=up,
                reason=None if up else failures[0],
                rejected=dict(self._opened.source.rejected),
            )
        if events and self.tap is not None:
            self.tap(events, self._health)
        tick = Tick(
            now=now,
            interval=self._pace.interval,
            present=[gpu for lane in self._lanes for gpu in lane.gpus],
            events=events,
            source=self._health,
            rows=self._rows,
            unix=time.time(),
            owners=self._owners.changes() if self._owners else (),
            schedulers=self._owners.health() if self._owners else (),
        )
        self.state, snapshot = step(self.state, tick)
        log_changes(self._snapshot, snapshot)
        self._snapshot = snapshot
        self._publish(snapshot)

    def _hung(self, now: float) -> list[Fault]:
        faults = []
        for lane in self._lanes:
            since = lane.busy_since
            if since is not None and now - since > self._pace.hung_after:
                detail = f"a call has not returned for {now - since:.0f} s"
                faults += [Fault(gpu, now, Reason.HUNG, detail) for gpu in lane.gpus]
        return faults

    def _unsupported(self) -> bool:
        views = self._snapshot.gpus if self._snapshot else ()
        return bool(views) and all(view.reason is Reason.NOT_SUPPORTED for view in views)

    def _pass_on(self) -> None:
        """Try what comes after a source none of whose GPUs has the counters; else keep it."""
        kept = self._opened
        assert kept is not None
        log.info("no GPU of source %s has the counters: trying the next source", kept.name)
        if self._close_lanes():
            kept.source.close()
        self._opened = None
        self._passed.add(kept.name)
        if not self._open():
            self._passed.clear()
            self._settled = True
            self._open()

    def _close_lanes(self) -> bool:
        """Whether all of them ended: a library must not be shut under a call that hangs in it."""
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            lane.stop()
        return all([lane.join(1.0) for lane in lanes])
