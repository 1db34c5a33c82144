"""Runs the agent of one simulated node: its own tick, report book and page, one window after another."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ofu_exporter.errors import OfuError
from ofu_exporter.fleet.simulation.counters import SimulatedCounters
from ofu_exporter.fleet.simulation.fleet import Shift, SimulatedFleet
from ofu_exporter.fleet.simulation.spec import MINUTE, FaultKind
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.entry import Policy
from ofu_exporter.serving.page import Page
from ofu_exporter.values.job import Claim, Job, Ownership
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason, SchedulerReason
from ofu_exporter.values.snapshot import SchedulerHealth, Snapshot, SourceHealth

log = logging.getLogger(__name__)

SCHEDULER = SOURCE = "simulate"
READ_SECONDS = 0.002
"""The stated duration of a read of all GPUs of a node."""


class SimulatedAgent:
    """The agent of one node, at a time of the fleet that the caller advances."""

    def __init__(self, fleet: SimulatedFleet, number: int, begin_unix: float, at: float) -> None:
        """`begin_unix` is the Unix time at which the fleet begins. The agent starts `at` this second of the fleet."""
        self._fleet = fleet
        self._number = number
        self._begin = begin_unix
        self._counters = SimulatedCounters(fleet, number)
        self._shifts = fleet.shifts.get(number, ())
        self._faults = fleet.faults.get(number, ())
        self._interval = fleet.spec.interval
        self._start(int(at // self._interval))

    def _start(self, window: int) -> None:
        """Start the agent again, at the beginning of a window."""
        self._window = window
        self._state = State()
        self._claims: tuple[Claim, ...] | None = None
        self._unsure = False
        self._reads = self._failures = self._polls = self._silent = 0
        self._answered_at: float | None = None
        self._snapshot: Snapshot | None = None
        self._published: Snapshot | None = None
        self._book = ReportBook(
            lambda: self._snapshot, Policy(), lambda: self.at, lambda: self._begin + self.at
        )
        self.page = Page(lambda: self.at, process=False)
        self._tick([])

    @property
    def at(self) -> float:
        """The second of the fleet up to which the agent has measured."""
        return float(self._window * self._interval)

    def _has(self, kind: FaultKind) -> bool:
        minute = self.at / MINUTE
        return any(fault.kind == kind and fault.holds(minute) for fault in self._faults)

    @property
    def is_missing(self) -> bool:
        """Whether no agent runs on the node now."""
        return self._has("agent_missing")

    def advance(self, at: float) -> None:
        """Measure every window that is over at this second of the fleet."""
        last = int(at // self._interval)
        while self._window < last:
            was_missing = self.is_missing
            events = [] if was_missing else list(self._counters.read(self._window))
            self._window += 1
            if self.is_missing:
                continue
            if was_missing:
                self._start(self._window)
            else:
                self._reads += 1
                self._failures += self._has("source_lost")
                self._tick(events)
        if self._snapshot is not None and self._snapshot is not self._published:
            self._published = self._snapshot
            self.page.publish(self._snapshot)

    def _tick(self, events: Sequence[Reading | Fault]) -> None:
        now = self.at
        self._polls += 1
        tick = Tick(
            now=now,
            interval=float(self._interval),
            present=self._fleet.nodes[self._number].devices,
            events=events,
            source=self._source_health(),
            unix=self._begin + now,
            owners=self._changes(now),
            schedulers=(self._scheduler_health(now),),
        )
        self._state, self._snapshot = step(self._state, tick)
        if now % MINUTE == 0:
            self._report(int(now // MINUTE))
        self._snapshot = self._book.reviewed(self._snapshot)

    def _source_health(self) -> SourceHealth:
        lost = self._has("source_lost")
        reason = Reason.UNREACHABLE if lost else None if self._reads else Reason.STARTING
        return SourceHealth(
            SOURCE,
            up=reason is None,
            reason=reason,
            simulated=True,
            reads=self._reads,
            read_seconds=self._reads * READ_SECONDS,
            failures={Reason.UNREACHABLE.value: self._failures} if self._failures else {},
        )

    def _scheduler_health(self, now: float) -> SchedulerHealth:
        silent = self._has("scheduler_lost")
        self._silent += silent
        self._answered_at = self._answered_at if silent else now
        failures = {SchedulerReason.UNREACHABLE.value: self._silent} if self._silent else {}
        return SchedulerHealth(
            SCHEDULER,
            up=not silent,
            reason=SchedulerReason.UNREACHABLE if silent else None,
            polls=self._polls,
            poll_seconds=self._polls * READ_SECONDS,
            failures=failures,
            answered_at=self._answered_at,
        )

    def _changes(self, now: float) -> Sequence[Ownership]:
        """What the scheduler says, if that has changed; nothing if it has not, or if the scheduler does not answer."""
        unsure = self._has("scheduler_lost")
        if now % MINUTE and self._claims is not None and unsure == self._unsure:
            return ()
        claims_before = self._claims or ()
        claimed = (self._claim(shift, int(now // MINUTE)) for shift in self._shifts)
        claims = claims_before if unsure else tuple(filter(None, claimed))
        if claims == self._claims and unsure == self._unsure:
            return ()
        self._claims, self._unsure = claims, unsure
        return [Ownership(now, claims, frozenset({SCHEDULER} if unsure else ()))]

    def _claim(self, shift: Shift, minute: int) -> Claim | None:
        job = shift.truth.job
        run = next((run for run in job.runs if run[0] <= minute < run[1]), None)
        if run is None:
            return None
        draft = job.draft
        described = Job(
            scheduler=SCHEDULER,
            job_id=draft.job_id,
            name=draft.group.name,
            user=draft.user,
            account=draft.group.account,
            partition=draft.group.partition,
            namespace=draft.group.namespace,
            started=self._begin + MINUTE * run[0],
            uid=f"{draft.job_id}.{job.runs.index(run)}",
        )
        gpus = self._fleet.nodes[self._number].devices
        devices = (gpus[device].mig_uuid or gpus[device].uuid for device in sorted(shift.devices))
        return Claim(described, tuple(devices))

    def _report(self, minute: int) -> None:
        """Report for every job that reports now, as one of its processes on this node does."""
        for shift in self._shifts:
            body = shift.truth.report_body(minute, self._fleet.spec, self._begin)
            if body is None:
                continue
            try:
                self._book.submit(body)
            except OfuError as error:
                log.warning("simulated report of job %s: %s", shift.truth.job.draft.job_id, error)
