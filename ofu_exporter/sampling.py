"""The pace: one thread per probe on monotonic deadlines, one that makes snapshots of what they measure."""

from __future__ import annotations

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ofu_exporter.errors import GpuError, Reason, SourceError
from ofu_exporter.gpus import Row
from ofu_exporter.pipeline import State, Tick, step
from ofu_exporter.records import Fault, Gpu, Reading, Snapshot, SourceHealth
from ofu_exporter.sources import Clock, Probe, Source

log = logging.getLogger(__name__)

RETRY_SECONDS = (2.0, 60.0)
"""First and longest pause before a source that could not be opened is tried again."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often is read what."""

    interval: float
    """Seconds of one window."""
    clock_interval: float
    """Seconds between two clock reads, as asked for."""

    @property
    def reads_per_window(self) -> int:
        return max(1, round(self.interval / self.clock_interval))

    @property
    def step_seconds(self) -> float:
        return self.interval / self.reads_per_window

    @property
    def hung_after(self) -> float:
        """A call that takes longer than this is reported as hung."""
        return 2 * self.interval + 1.0


class Beat(NamedTuple):
    """One deadline: its number since the start, and how many before it were missed."""

    number: int
    missed: int


class Deadlines:
    """Deadlines on a fixed grid: no drift, and a missed one is counted, never caught up in a burst."""

    def __init__(self, start: float, step_seconds: float) -> None:
        self._start = start
        self._step = step_seconds
        self._number = -1

    @property
    def next_at(self) -> float:
        return self._start + (self._number + 1) * self._step

    def beat(self, now: float) -> Beat:
        """Take the latest deadline that has passed by `now`."""
        latest = max(self._number + 1, int((now - self._start) / self._step))
        missed = latest - self._number - 1
        self._number = latest
        return Beat(latest, missed)


class Delivery(NamedTuple):
    """What one lane hands over after one read."""

    lane: Lane
    events: Sequence[Reading | Fault]
    seconds: float
    failure: Reason | None
    missed: int


Inbox = queue.SimpleQueue["Delivery | None"]
"""What the lanes hand over; None wakes the sampler so that it sees it must stop."""


class Lane:
    """The thread of one probe. A driver call that hangs stops this thread and no other."""

    def __init__(self, probe: Probe, pace: Pace, inbox: Inbox, clock: Clock) -> None:
        self._probe = probe
        self._pace = pace
        self._inbox = inbox
        self._clock = clock
        self._stop = threading.Event()
        self._missed = 0
        self.gpus: Sequence[Gpu] = list(probe.gpus())
        self.busy_since: float | None = None
        self.failure: Reason | None = Reason.STARTING
        self._thread = threading.Thread(target=self._run, name="ofu-lane", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def join(self, timeout: float) -> bool:
        """Wait for the thread; False when it is still in a call."""
        self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    def _run(self) -> None:
        deadlines = Deadlines(self._clock(), self._pace.step_seconds)
        windows = -1
        while not self._stop.wait(max(0.0, deadlines.next_at - self._clock())):
            beat = deadlines.beat(self._clock())
            self._missed += beat.missed
            window = beat.number // self._pace.reads_per_window
            if window > windows:
                windows = window
                self._call(self._probe.read)
            elif self.failure is None:
                self._call(self._probe.poll)
        self._probe.close()

    def _call(self, call: Callable[[], Sequence[Reading | Fault] | None]) -> None:
        """Make one call of the probe, and deliver what a read or a failure brought."""
        started = self._clock()
        self.busy_since = started
        failure: Reason | None = None
        detail = ""
        events: Sequence[Reading | Fault] | None = None
        try:
            events = call()
        except GpuError as error:
            failure, detail = error.reason, error.detail
        except Exception as error:  # whatever a driver does, the next window is tried
            failure, detail = Reason.FAILED, f"{type(error).__name__}: {error}"
            log.exception("unexpected error while reading")
        ended = self._clock()
        self.busy_since = None
        self.failure = failure
        if failure is None and events is None:
            return  # a clock read: it is delivered with the window it belongs to
        self.gpus = list(self._probe.gpus())
        if failure is not None or events is None:
            events = [Fault(gpu, ended, failure or Reason.FAILED, detail) for gpu in self.gpus]
        self._inbox.put(Delivery(self, events, ended - started, failure, self._missed))
        self._missed = 0


class Opened(NamedTuple):
    """A source that could be opened."""

    name: str
    source: Source
    probes: Sequence[Probe]


Candidate = tuple[str, Callable[[], Source]]
"""A source by name, and how it is built."""


class Sampler:
    """Reads a source window by window and publishes a snapshot after each.

    `candidates` are tried in order. One that opens but whose GPUs all lack the counters gives way
    to the next that opens; when none does, the first stays, so that its reasons are seen.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        pace: Pace,
        publish: Callable[[Snapshot], None],
        clock: Clock,
        rows: Sequence[Row] = (),
        state: State | None = None,
    ) -> None:
        self._candidates = list(candidates)
        self._passed: set[str] = set()
        self._settled = len(candidates) < 2
        self._pace = pace
        self._publish = publish
        self._clock = clock
        self._rows = tuple(rows)
        self._inbox: Inbox = queue.SimpleQueue()
        self._lanes: list[Lane] = []
        self._opened: Opened | None = None
        self._health = SourceHealth(candidates[0][0])
        self._snapshot: Snapshot | None = None
        self._failures: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ofu-sampler", daemon=True)
        self.tap: Callable[[Sequence[Reading | Fault], SourceHealth], None] | None = None
        """Called with every batch of readings and faults before it is taken in."""
        self.state: State = state or {}

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


def log_changes(before: Snapshot | None, after: Snapshot) -> None:
    """One line for every GPU that began or ceased to be measured, and for one measured by estimate."""
    known = {view.gpu.key: view for view in before.gpus} if before else {}
    for view in after.gpus:
        old = known.get(view.gpu.key)
        if old is not None and old.reason == view.reason:
            continue
        name = (
            f"GPU {view.gpu.index} ({view.gpu.uuid}{view.gpu.instance and '/'}{view.gpu.instance})"
        )
        if view.reason is None:
            log.info("%s is measured", name)
            if view.rating is not None and view.rating.origin == "estimated":
                log.warning(
                    "%s: model %r is not in the table; its OFU is estimated against its own "
                    "maximum SM clock. Add a row under `gpus` in the configuration.",
                    name,
                    view.gpu.name,
                )
        elif view.reason is not Reason.STARTING:
            detail = f": {view.detail}" if view.detail else ""
            log.warning(
                "%s is not measured (%s%s). %s", name, view.reason.value, detail, view.reason.advice
            )
