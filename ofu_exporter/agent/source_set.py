"""Keeps the open sources: combines what they measure, and decides when another one is opened or closed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ofu_exporter.agent.lanes import Delivery, Inbox, Lane, SamplingPace
from ofu_exporter.agent.source_choice import Named, SourceChoice, chosen, identified
from ofu_exporter.agent.source_opening import OpenedSource, SourceBuilder, SourceOpening
from ofu_exporter.errors import SourceError
from ofu_exporter.sources import Clock
from ofu_exporter.values.gpu import Gpu, GpuKey
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import SourceHealth

log = logging.getLogger(__name__)

USELESS_PAUSES = 10
"""A source that measured nothing new is tried again after this number of pauses. One that did not open is tried after
one."""
QUICK_SECONDS = 0.2
"""How long the windows of open sources wait for another to open. A source that exists opens within this time."""
NOT_OPENED = "it does not finish opening"
CLOSE_SECONDS = 1.0
"""How long closing a source that is not needed may take."""

Events = Sequence[Reading | Fault]
SourceEvent = tuple[str, Reading | Fault]
"""A source's name, and one of its events."""


@dataclass(frozen=True, slots=True)
class SourceView:
    """What the open sources say together at one instant."""

    gpus: Sequence[Gpu]
    """The GPUs, each as described by the source that reads it."""
    readers: Mapping[str, str]
    """The source that reads each uuid."""
    hung: Events
    health: SourceHealth
    """Health of the best source that reads a GPU."""
    others: tuple[SourceHealth, ...]

    def believed(self, events: Sequence[SourceEvent]) -> list[Reading | Fault]:
        """The events of each GPU from the source that reads it. Events of a second source would count its time
        twice."""
        return [event for name, event in events if self.readers.get(event.gpu.uuid) == name]


class SourceSet:
    """Opens the first candidate that can be opened, and others for the GPUs that it cannot measure."""

    def __init__(
        self, candidates: Sequence[SourceBuilder], pace: SamplingPace, inbox: Inbox, clock: Clock
    ) -> None:
        self._candidates = list(candidates)
        self._pace = pace
        self._inbox = inbox
        self._clock = clock
        self._lock = threading.Lock()
        """Guards what the sampler's thread opens from the thread that stops it."""
        self._stopped = False
        self._choice = SourceChoice()
        self._open: list[OpenedSource] = []
        self._left: list[OpenedSource] = []
        """Sources that are not needed, and cannot be closed before a call returns."""
        self._try_at: dict[str, float] = {}
        self._opening: dict[str, SourceOpening] = {}
        """Attempts that are not over."""
        self._unusable: dict[str, SourceHealth] = {}
        self._none = SourceHealth(self._candidates[0].name)
        self._missed_before = 0
        """Deadlines that sources missed which were closed: a sum that falls would count again in Prometheus."""

    @property
    def lane_count(self) -> int:
        return sum(len(source.lanes) for source in self._open)

    @property
    def holds(self) -> bool:
        """Whether a source is open, or may be."""
        return bool(self._open or self._opening or self._left)

    @property
    def choosing(self) -> bool:
        """Whether a source that has not been tried yet may measure a GPU that is not measured."""
        if self._choice.waits(self._named()):
            return True
        untried = [name for name, _ in self._candidates if name not in self._try_at]
        untried += [
            name for name, opening in list(self._opening.items()) if not self._hangs(opening)
        ]
        return bool(untried) and bool(self._choice.unmeasured(self._named()))

    def open_first(self) -> bool:
        """Open a source if none is open. If none can be opened, note the reasons and return False."""
        if self._open:
            return True
        errors: dict[str, SourceError] = {}
        for candidate in self._candidates:
            try:
                if self._begin(candidate, self._pace.hung_after):
                    return True
                errors[candidate.name] = SourceError(Reason.HUNG, NOT_OPENED)
            except SourceError as error:
                errors[candidate.name] = error
                if error.reason is Reason.DRIVER_REPLACED:
                    break  # a new process reads it, and no other source has to take its place
        if not self._stopped:
            self._note_unusable(errors)
        return False

    def take(self, delivery: Delivery) -> Sequence[SourceEvent]:
        """Count a delivery and learn from it. A delivery of a closed lane is dropped."""
        for source in self._open:
            if delivery.lane in source.lanes:
                source.note(delivery)
                self._choice.take(source.name, delivery.events)
                return [(source.name, event) for event in delivery.events]
        return ()

    def view(self, now: float) -> SourceView:
        named = self._named()
        readers = self._choice.readers(named)
        healths = [source.health(now) for source in self._open]
        in_use = [health for health in healths if health.name in readers.values()]
        first = next(iter(in_use or healths), self._none)
        missed = self._missed_before + sum(health.missed_deadlines for health in healths)
        hung = [(s.name, fault) for s in self._open for fault in s.hung(now)]
        return SourceView(
            gpus=chosen(named, readers),
            readers=readers,
            hung=[fault for name, fault in hung if readers.get(fault.gpu.uuid) == name],
            health=replace(first, missed_deadlines=missed) if healths else first,
            others=(
                *(health for health in healths if health.name != first.name),
                *self._unusable.values(),
            ),
        )

    def adjust(self) -> None:
        """Open a source that may measure a GPU that is not measured; close one that turned out to measure none."""
        self._left = [source for source in self._left if not source.close(self._clock())]
        self._drop_useless()
        lacks = bool(self._choice.unmeasured(self._named()))
        is_open = {source.name for source in self._open}
        now = self._clock()
        for candidate in self._candidates:
            name = candidate.name
            # What is being opened is taken in any case: the first source may have hung until now.
            is_due = name in self._opening or (lacks and self._try_at.get(name, now) <= now)
            if name not in is_open and is_due and self._try_further(candidate):
                return

    def cut(self) -> None:
        for source in list(self._open):
            source.cut()

    def divide(self, gpus: frozenset[GpuKey]) -> None:
        for source in list(self._open):
            source.divide(gpus)

    def count_failure(self, reason: Reason) -> None:
        """Count a failure outside of a read."""
        if self._open:
            self._open[0].count_failure(reason)

    def stop(self) -> None:
        """Open nothing any more and tell every lane to end; `close` waits for them."""
        with self._lock:
            self._stopped = True
        for opening in list(self._opening.values()):
            opening.give_up()
        for source in list(self._open):
            source.stop()

    def close(self, deadline: float) -> bool:
        """Release everything, after `stop`; False when a call hangs. Then it may be called again."""
        openings = list(self._opening.values())
        ended = [opening.join(deadline - self._clock()) for opening in openings]
        return all([*ended, *[source.close(deadline) for source in [*self._open, *self._left]]])

    def _named(self) -> Named:
        return identified({source.name: source.gpus for source in self._open})

    def _begin(self, candidate: SourceBuilder, patience: float) -> bool:
        """Begin to read a source; False when it is not open yet. Raises SourceError."""
        name = candidate.name
        opening = self._attempt(candidate)
        if opening is None:
            return False
        try:
            opening.result(0.0 if self._hangs(opening) else patience)
            return self._adopt(name, opening)
        except SourceError:
            del self._opening[name]
            raise

    def _attempt(self, candidate: SourceBuilder) -> SourceOpening | None:
        """The attempt to open a source that is under way, or a new one; None after `stop`."""
        name = candidate.name
        with self._lock:
            if not self._stopped and name not in self._opening:
                self._try_at[name] = self._clock() + self._pace.reprobe
                self._opening[name] = SourceOpening(candidate, self._clock)
            return None if self._stopped else self._opening[name]

    def _adopt(self, name: str, opening: SourceOpening) -> bool:
        """Begin to read an opened source; False if it is not open yet, or after `stop`, which closes it."""
        with self._lock:
            opened = None if self._stopped else opening.result(0.0)
            if opened is None:
                return False
            del self._opening[name]
            lanes = [Lane(probe, self._pace, self._inbox, self._clock) for probe in opened.probes]
            source = OpenedSource(name, opened.source, lanes, self._pace, self._clock)
            order = [each for each, _ in self._candidates]
            self._open = sorted([*self._open, source], key=lambda each: order.index(each.name))
        log.info("reading source %s", name)
        self._unusable.pop(name, None)
        return True

    def _hangs(self, opening: SourceOpening) -> bool:
        return opening.seconds > self._pace.hung_after

    def _try_further(self, candidate: SourceBuilder) -> bool:
        """Try another candidate; returns whether the next one has to wait. It does not when this one hangs."""
        name = candidate.name
        try:
            is_open = self._begin(candidate, QUICK_SECONDS)
            opening = self._opening.get(name)
            if is_open or opening is None or not self._hangs(opening):
                return True
            self._note_further(name, SourceError(Reason.HUNG, NOT_OPENED))
        except SourceError as error:
            self._note_further(name, error)
            return True
        return False

    def _note_further(self, name: str, error: SourceError) -> None:
        before = self._unusable.get(name) or SourceHealth(name)
        failures = dict(before.failures)
        if before.reason is not error.reason:
            text = "source %s cannot measure the GPUs that the other sources cannot measure: %s"
            log.info(text, name, error)
        # An attempt that hangs is counted as one failure.
        if before.reason is not error.reason or error.reason is not Reason.HUNG:
            failures[error.reason.value] = failures.get(error.reason.value, 0) + 1
        self._unusable[name] = replace(
            before, reason=error.reason, detail=error.detail, failures=failures
        )

    def _drop_useless(self) -> None:
        """Close sources that read no GPU. The best one stays open: its reasons are shown, and it may measure a GPU
        later."""
        for source in self._open[1:]:
            named = self._named()
            used = self._choice.readers(named).values()
            if source.name in used or not self._choice.has_answered(
                source.name, named[source.name]
            ):
                continue
            log.info("closing source %s: it measures no additional GPU", source.name)
            self._open.remove(source)
            self._choice.forget(source.name)
            self._try_at[source.name] = self._clock() + USELESS_PAUSES * self._pace.reprobe
            health = source.health(self._clock())
            self._missed_before += health.missed_deadlines
            self._unusable[source.name] = replace(health, up=False, reason=Reason.NOT_SUPPORTED)
            if not source.close(self._clock() + CLOSE_SECONDS):
                self._left.append(source)

    def _note_unusable(self, errors: Mapping[str, SourceError]) -> None:
        """Note why no source can be used: the first candidate's reason, with a detail of every candidate's."""
        reason = next(iter(errors.values())).reason
        detail = "; ".join(
            f"{name}: {each.detail or each.reason.value}" for name, each in errors.items()
        )
        if (reason, detail) != (self._none.reason, self._none.detail):
            log.warning("no source can be used: %s. %s", detail, reason.advice)
        failures = dict(self._none.failures)
        failures[reason.value] = failures.get(reason.value, 0) + 1
        self._none = replace(self._none, reason=reason, detail=detail, failures=failures)
