"""Simulated time: what the agent waits for, what happens to it or its source meanwhile, and its clocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol

from tests.simulator.driver_servers import EPOCH, START
from tests.simulator.score import Span

LATE_SECONDS = 5e-4
"""Most seconds by which a thread wakes up late."""


class TimeKeeper(Protocol):
    """Who says what time it is: the source, where its calls take time or it samples by itself."""

    def now(self) -> float:
        """Seconds of the load."""

    def advance(self, to: float) -> None:
        """Let time pass."""


class SimulatedTime:
    """A time keeper for sources that keep none of their own."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def advance(self, to: float) -> None:
        self._now = to


class World:
    """Time that passes only when somebody waits."""

    def __init__(self, time: TimeKeeper, seed: int) -> None:
        self._time = time
        self._chance = random.Random(seed)
        self._events: list[tuple[float, Callable[[], None]]] = []
        self.stopped: Sequence[Span] = ()
        """When the agent's process does not run, in order."""

    def now(self) -> float:
        return self._time.now()

    def monotonic(self) -> float:
        return START + self.now()

    def unix(self) -> float:
        return EPOCH + self.now()

    def at(self, time: float, happens: Callable[[], None]) -> None:
        """What happens then, whoever waits."""
        self._events.append((time, happens))
        self._events.sort(key=lambda event: event[0])

    def wait(self, seconds: float) -> None:
        """The agent sleeps, and is woken up a little late, or much later where its process is stopped."""
        until = self.now() + max(0.0, seconds) + self._chance.uniform(0.0, LATE_SECONDS)
        for stop in self.stopped:
            if stop.start < until and self.now() < stop.end:
                until = max(until, stop.end)
        self._pass_until(until)

    def _pass_until(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            time, happens = self._events.pop(0)
            self._time.advance(max(time, self.now()))
            happens()
        self._time.advance(max(until, self.now()))
