"""Runs the agent of one simulated node: its own counters, tick, report book and page, one window after another.

The counters are tensor activity and SM clock of each window, from the truth; never an OFU. The numbers of a window
depend only on the seed, the node and the window, so live pages and history agree.
"""

from __future__ import annotations

import hashlib
import logging
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ofu_exporter.errors import OfuError
from ofu_exporter.fleet.simulation.fleet import JobTruth, Shift, SimulatedFleet
from ofu_exporter.fleet.simulation.layout import NodeFault
from ofu_exporter.fleet.simulation.serving import served
from ofu_exporter.fleet.simulation.spec import MINUTE, FaultKind
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.entry import Policy
from ofu_exporter.reports.owner import stepped
from ofu_exporter.serving.metrics.agent import AgentCounts
from ofu_exporter.serving.page import Page
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.job import Claim, Job, Ownership
from ofu_exporter.values.reading import Activity, ClockSample, Evidence, Fault, Reading
from ofu_exporter.values.reasons import Reason, SchedulerReason
from ofu_exporter.values.served import Served
from ofu_exporter.values.snapshot import SchedulerHealth, Snapshot, SourceHealth

CARD_SPREAD = 0.006
"""Standard deviation between cards of the clock under one load, as a share of the clock."""
WINDOW_SPREAD = 0.004
"""The same of one card's mean clock from window to window."""
READ_SPREAD = 0.0237
"""The same of point reads within a window: 32 of 1,352 MHz in arXiv:2605.20799, section IV-C."""
IDLE_HZ = 345e6
PAUSE_SPREAD = 0.3
"""The same of how long a job waits in a window; noise beyond two of these is cut."""
BUSY = (0.97, 0.6)
"""Engine and power of a GPU that works, as shares."""
FROZEN_TENSOR = 0.3127


class SimulatedCounters:
    """The counters of one node, read as a source's probes are: one window after another."""

    def __init__(self, fleet: SimulatedFleet, number: int) -> None:
        self._number, self._node, spec = number, fleet.nodes[number], fleet.spec
        self._interval, self._reads = spec.interval, spec.clock_reads
        self._shifts = fleet.shifts.get(number, ())
        self._faults = fleet.faults.get(number, ())
        key = f"{spec.seed}/{self._node.name}".encode()
        self._seed = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
        chance = random.Random(self._seed)
        self._cards = [1 + CARD_SPREAD * chance.gauss(0, 1) for _ in self._node.devices]

    def read(self, window: int) -> Iterator[Reading | Fault]:
        """The readings of each GPU in a window; number 0 begins with the fleet."""
        start = float(window * self._interval)
        end = start + self._interval
        minute = int(start // MINUTE)
        faults = [fault for fault in self._faults if fault.holds(minute)]
        chance = random.Random((self._seed << 32) ^ window)
        at_work = {
            device: shift.truth
            for shift in self._shifts
            if shift.truth.job.start <= minute < shift.truth.job.end
            for device in shift.devices
        }
        for device, gpu in enumerate(self._node.devices):
            noise = [chance.gauss(0, 1) for _ in range(self._reads + 2)]
            of_device = [fault for fault in faults if device in fault.devices]
            blind = next((fault for fault in of_device if fault.kind in _REASONS), None)
            if blind is not None:
                yield Fault(gpu, end, _REASONS[blind.kind], "simulated")
                continue
            reading = self._reading(
                device, gpu, (start, end), noise, at_work.get(device), of_device
            )
            yield _spoiled(reading, of_device, noise)

    def _reading(
        self,
        device: int,
        gpu: Gpu,
        window: tuple[float, float],
        noise: Sequence[float],
        truth: JobTruth | None,
        faults: Sequence[NodeFault],
    ) -> Reading:
        start, end = window
        ofu = 0.0
        hz = IDLE_HZ
        if truth is not None and truth.is_running[int(start // MINUTE) - truth.job.start]:
            ofu = truth.mean(start, end) * truth.share_of(self._number, device)
            hz = truth.job.draft.clock_hz * self._cards[device] * (1 + WINDOW_SPREAD * noise[0])
            limits = [fault.clock_hz for fault in faults if fault.clock_hz is not None]
            hz = min(hz, truth.limit_hz(self._number, device), *limits, self._node.max_clock_hz)
        reads = self._reads + 1
        spread = READ_SPREAD * hz if ofu else 0.0
        step = (end - start) / (reads - 1)
        clocks = tuple(
            ClockSample(start + place * step, round(hz + spread * noise[1 + place], -6))
            for place in range(reads)
        )
        active = min(1.0, ofu * self._node.tensor_clock_hz / hz)
        pause = 1 + PAUSE_SPREAD * min(max(noise[1], -2.0), 2.0)
        engine, sm = truth.busy(active, pause) if truth is not None and ofu else (0.0, 0.0)
        pipes = {"hmma": active, "imma": 0.0, "dfma": 0.0}
        activity = Activity(engine=engine, sm=sm)
        if truth is not None:
            group = truth.job.draft.group
            dram = group.serves.memory if group.serves else None
            joules = None if group.watts is None else group.watts * (end - start)
            activity = activity._replace(dram=dram, energy_joules=joules)
        return Reading(gpu, start, end, active, pipes, clocks, activity=activity)


_REASONS = {"gpu_lost": Reason.LOST, "source_lost": Reason.UNREACHABLE}


def _spoiled(reading: Reading, faults: Sequence[NodeFault], noise: Sequence[float]) -> Reading:
    """The reading, with old values where the counters stand still."""
    kinds = {fault.kind for fault in faults}
    if not reading.tensor_active or kinds.isdisjoint({"counters_dead", "counters_frozen"}):
        return reading
    active = 0.0 if "counters_dead" in kinds else FROZEN_TENSOR
    engine, power = BUSY
    engine -= 0.1 * min(abs(noise[0]), 3.0)
    evidence = Evidence(graphics_active=engine, other_active=active and engine, power=power)
    pipes = {"hmma": active, "imma": 0.0, "dfma": 0.0}
    return replace(reading, tensor_active=active, pipes=pipes, evidence=evidence)


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
        began = self.at
        self.page = Page(
            lambda: self.at, lambda: AgentCounts(served=self._served(began)), process=False
        )
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
            stepped=stepped(self._snapshot) if self._snapshot else frozenset(),
        )
        self._state, self._snapshot = step(self._state, tick)
        if now % MINUTE == 0:
            self._report(int(now // MINUTE))
        self._snapshot = self._book.reviewed(self._snapshot)

    def _served(self, began: float) -> Mapping[str, Served]:
        """What the engines of the jobs that are shown have served on this node since the agent began."""
        shown = {view.job.job_id for view in self._snapshot.jobs} if self._snapshot else frozenset()
        shares = self._fleet.nodes[self._number].shares
        served_by_job = {
            shift.truth.job.draft.job_id: served(
                shift.truth, began, self.at, math.fsum(shares[each] for each in shift.devices)
            )
            for shift in self._shifts
        }
        return {
            key: each for key, each in served_by_job.items() if each is not None and key in shown
        }

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
