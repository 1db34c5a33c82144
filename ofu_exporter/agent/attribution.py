"""Finds out who owns the GPUs: asks every scheduler on a thread of its own, and merges the answers."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers import Scheduler
from ofu_exporter.sources import Clock
from ofu_exporter.values.job import Claim, Job, Ownership
from ofu_exporter.values.reasons import SchedulerReason
from ofu_exporter.values.snapshot import SchedulerHealth

log = logging.getLogger(__name__)

ABSENT_RETRY_SECONDS = 15.0
"""Time between two searches for a scheduler that this node does not have."""
FIRST_RETRY_SECONDS = 1.0
"""First pause before another try to build a scheduler. Each further pause is twice as long."""
SLOWEST_RETRY_SECONDS = 5.0
"""Longest pause between two questions to a scheduler that does not answer."""
HUNG_SECONDS = 20.0
"""After this time without a return, a call counts as not answered; kubelet and the API server have 5 s each."""

_UNSEEN = (SchedulerReason.STARTING, SchedulerReason.ABSENT, SchedulerReason.NO_JOB_YET)


class SchedulerPoller:
    """The thread of one scheduler. A scheduler that hangs or fails does not affect the others' answers."""

    def __init__(
        self, name: str, build: Callable[[], Scheduler], clock: Clock, heard: Callable[[], None]
    ) -> None:
        self._build = build
        self._scheduler: Scheduler | None = None
        """None until it could be built."""
        self._clock = clock
        self._heard = heard
        self._stop = threading.Event()
        self._failures: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name=f"ofu-{name}", daemon=True)
        self._health = SchedulerHealth(name)
        self._asked_at: float | None = None
        """When the call that has not returned began."""
        self.claims: tuple[Claim, ...] = ()

    @property
    def health(self) -> SchedulerHealth:
        asked_at, health = self._asked_at, self._health
        if asked_at is None or self._clock() - asked_at < HUNG_SECONDS:
            return health
        reason, detail = SchedulerReason.UNREACHABLE, "a call does not return"
        return replace(health, up=False, reason=reason, detail=detail)

    def go_on_from(self, earlier: SchedulerPoller) -> None:
        """Believe the last answer of an earlier poller of this scheduler until it answers again."""
        self.claims = earlier.claims
        self._health = replace(self._health, answered_at=earlier.health.answered_at)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def join(self, timeout: float) -> None:
        self._thread.join(max(0.0, timeout))

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.is_set():
            pause = self._ask(pause)
            self._stop.wait(pause)
        if self._scheduler is not None:
            self._scheduler.close()

    def _ask(self, pause: float) -> float:
        """Ask once; returns how long to wait before the next question."""
        started = self._asked_at = self._clock()
        try:
            if self._scheduler is None:
                self._scheduler = self._build()
            claims = tuple(self._scheduler.claims())
        except SchedulerError as error:
            self._note(started, error.reason, error.detail)
        except Exception as error:  # an error of a scheduler never ends its thread
            log.exception("unexpected error in scheduler %s", self.health.name)
            self._note(started, SchedulerReason.FAILED, f"{type(error).__name__}: {error}")
        else:
            if claims != self.claims:
                self.claims = claims  # before the health, which makes the claims sure
            self._note(started, None, "")
            self._heard()
            return self._scheduler.poll_seconds
        self._heard()
        if self.health.reason is SchedulerReason.ABSENT:
            return ABSENT_RETRY_SECONDS
        shortest = self._scheduler.poll_seconds if self._scheduler else FIRST_RETRY_SECONDS
        if self.health.reason in (SchedulerReason.NO_JOB_YET, SchedulerReason.SETTLING):
            return shortest  # so that neither the first job waits, nor those of a scheduler that is back
        return min(max(2 * pause, shortest), SLOWEST_RETRY_SECONDS)

    def _note(self, started: float, reason: SchedulerReason | None, detail: str) -> None:
        now = self._clock()
        if reason not in (None, SchedulerReason.NO_JOB_YET):
            self._failures[reason.value] += 1
        self._health = replace(
            self._health,
            up=reason is None,
            reason=reason,
            detail=detail,
            polls=self._health.polls + 1,
            poll_seconds=self._health.poll_seconds + now - started,
            failures=dict(self._failures),
            rejected=dict(self._scheduler.rejected) if self._scheduler else {},
            answered_at=now if reason is None else self._health.answered_at,
        )
        self._asked_at = None


class Attribution:
    """The merged answers of all schedulers, as a sequence of changes."""

    def __init__(
        self,
        schedulers: Sequence[tuple[str, Callable[[], Scheduler]]],
        max_age: float,
        clock: Clock,
        optional: bool = False,
        cycles: Callable[[Job], int | None] = lambda _: None,
    ) -> None:
        """`schedulers` are names, and how each is built. The last answer of one is believed for `max_age` seconds.

        With `optional`, `health` leaves out schedulers that are absent or have not had a job. `cycles` is how often
        NVRx has started a job again; None = not known.
        """
        self._cycles = cycles
        self._max_age = max_age
        self._optional = optional
        self._clock = clock
        self._lock = threading.Lock()
        self._changes: list[Ownership] = []
        self._last = Ownership(0.0, ())
        self._pollers = [
            SchedulerPoller(name, build, clock, self._heard) for name, build in schedulers
        ]
        self._changed: Callable[[], None] = lambda: None

    def go_on_from(self, earlier: Attribution, taken: Ownership) -> None:
        """Believe the last answers of an earlier attribution, but for those of schedulers that are asked no more.

        `taken` is the last change that the tick took.
        """
        self._last = taken
        pollers = {poller.health.name: poller for poller in earlier._pollers}
        for poller in self._pollers:
            if before := pollers.get(poller.health.name):
                poller.go_on_from(before)

    def start(self, changed: Callable[[], None] = lambda: None) -> None:
        """Begin to ask. `changed` is called when GPUs get other owners, on the thread of whoever hears of it first."""
        self._changed = changed
        for poller in self._pollers:
            poller.start()

    def stop(self, timeout: float = 0.5) -> None:
        """Release every scheduler; one that hangs ends with the process."""
        deadline = self._clock() + timeout
        for poller in self._pollers:
            poller.stop()
        for poller in self._pollers:
            poller.join(deadline - self._clock())

    def take_changes(self) -> Sequence[Ownership]:
        """Every change since the last call, oldest first."""
        with self._lock:
            changed = self._merge()
            taken, self._changes = self._changes, []
        if changed:
            self._changed()
        return taken

    def health(self) -> tuple[SchedulerHealth, ...]:
        """The health of the schedulers; with `optional`, without those that start, are absent or have had no job."""
        hidden = _UNSEEN if self._optional else ()
        healths = [poller.health for poller in self._pollers]
        return tuple(health for health in healths if health.reason not in hidden)

    def _with_cycles(self, claim: Claim) -> Claim:
        cycles = self._cycles(claim.job)
        return claim if cycles is None else replace(claim, job=replace(claim.job, cycles=cycles))

    def _heard(self) -> None:
        with self._lock:
            changed = self._merge()
        if changed:
            self._changed()

    def _merge(self) -> bool:
        """Note the merged answers if they have changed; returns whether GPUs have other owners.

        The last answer of a scheduler that fails is unsure, and one that is too old does not count.
        """
        now = self._clock()
        healths = [(poller.health, poller.claims) for poller in self._pollers]
        believed = [
            (health, claims)
            for health, claims in healths
            if health.answered_at is not None and now - health.answered_at <= self._max_age
        ]
        claims = tuple(self._with_cycles(claim) for _, claims in believed for claim in claims)
        unsure = frozenset(health.name for health, _ in believed if health.reason is not None)
        last, self._last = self._last, Ownership(now, claims, unsure)
        if (claims, unsure) != (last.claims, last.unsure):
            self._changes.append(self._last)
        return claims != last.claims
