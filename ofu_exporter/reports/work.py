"""Bounds the CPU time that reports may cost: of a job, of an address, and of all together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ofu_exporter.errors import ReportError
from ofu_exporter.support.rate_limit import RateLimit
from ofu_exporter.values.reasons import ReportRejection

JOB, ADDRESS, ALL = "the job", "this address", "all jobs together"
SHARES = {JOB: 0.05, ADDRESS: 0.15, ALL: 0.3}
"""Shares of a core. A model is counted once, mostly in about 30 ms, and a divergence explained in as much."""
AT_ONCE_SECONDS = {JOB: 1.0, ADDRESS: 2.0, ALL: 4.0}
"""How much of its time each may use at once."""


class WorkBudget:
    """Any thread may call it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._used = {
            kind: RateLimit[str](1e6 * share, int(1e6 * AT_ONCE_SECONDS[kind]))  # in microseconds
            for kind, share in SHARES.items()
        }

    def check(self, job: str = "", address: str = "") -> None:
        """Raise ReportError (too_many) where one of them has used up its time; "" is nobody in particular."""
        with self._lock:
            now = self._clock()
            waits = {kind: self._used[kind].ask(key, now, 1) for kind, key in _keys(job, address)}
        kind = max(waits, key=lambda each: waits[each])
        if waits[kind]:
            detail = f"what {kind} had the agent count takes more time than it gives"
            raise ReportError(ReportRejection.TOO_MANY, "", detail, retry_after=waits[kind])

    def has_time(self, job: str) -> bool:
        """Whether work for a job may begin."""
        try:
            self.check(job)
        except ReportError:
            return False
        return True

    def spend(self, seconds: float, job: str = "", address: str = "") -> None:
        """Note CPU time that was used. It is known afterwards only, so it may make debts."""
        with self._lock:
            for kind, key in _keys(job, address):
                self._used[kind].take(key, self._clock(), round(1e6 * seconds))

    @contextmanager
    def measured(self, job: str = "", address: str = "") -> Iterator[None]:
        """Note the CPU time that this thread uses meanwhile."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.spend(time.thread_time() - began, job, address)


def _keys(job: str, address: str) -> Iterator[tuple[str, str]]:
    yield ALL, ""
    if job:
        yield JOB, job
    if address:
        yield ADDRESS, address
