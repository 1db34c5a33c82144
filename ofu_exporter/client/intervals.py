"""Turns calls at points in time into reports over intervals: time-weighted means. Pure: no clock, no I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

GAP_SHARE = 0.05
"""A gap that no call covers ends an interval when it is more than this share of a usual interval."""
SET_BACK_SECONDS = 60.0
"""A call that is more than this before the last one comes after somebody has set the clock back. Of two threads, or of
the lines of two hosts in one log, the earlier one may come a little later."""


class NotUsable(ValueError):
    """A call that cannot be reported. The text says why, and quotes no value."""


class Call(NamedTuple):
    """One call of the training loop."""

    at: float
    """Unix seconds."""
    values: Mapping[str, float]
    """Rates, which are averaged over time; empty where the call has a step alone."""
    step: int | None = None
    start: float | None = None
    """Unix seconds from which the call's values hold; None = from the call before."""


class IntervalReport(NamedTuple):
    """The report on one interval: each value is the mean over its calls, weighted by the time that each call covers.

    Without values it is about the steps up to the one that was reached at its end, or about an event; where it is not
    known when these steps were begun, it starts at its end.
    """

    start: float
    end: float
    values: Mapping[str, float]
    step: int | None
    event: str = ""
    run: str = ""
    """Where it is not the one of the job's facts."""

    def fields(self) -> dict[str, object]:
        """The fields of the report's body."""
        body: dict[str, object] = {**self.values, "end": self.end}
        if self.start < self.end:
            body["start"] = self.start
        if self.step is not None:
            body["step"] = self.step
        named = {"event": self.event, "run": self.run}
        return body | {name: text for name, text in named.items() if text}


@dataclass(slots=True)
class _OpenInterval:
    start: float
    end: float
    seconds: float
    """Time that calls cover: the length of the interval without its small gaps."""
    sums: dict[str, float]
    """Value times seconds."""
    step: int | None

    def add(self, call: Call, seconds: float) -> None:
        for name, value in call.values.items():
            self.sums[name] += value * seconds
        self.seconds += seconds
        self.end = call.at
        self.step = call.step if call.step is not None else self.step

    def report(self) -> IntervalReport:
        means = {name: total / self.seconds for name, total in self.sums.items()}
        return IntervalReport(self.start, self.end, means, self.step)


class Intervals:
    """Makes reports of calls. Reports do not overlap. Each ends at a call, at least `every` seconds after the one
    before."""

    def __init__(self, every: float) -> None:
        self.dropped = 0
        """Intervals that were cut too soon after a report, and were left out."""
        self._every = every
        self._gap = every * GAP_SHARE
        self._begin()

    def _begin(self) -> None:
        """Know of no call, at first and where the clock was set back: calls are not compared with those before."""
        self._latest = -math.inf
        self._last: float | None = None
        self._reported = -math.inf
        self._open: _OpenInterval | None = None
        self._stepped = -math.inf
        self._before: Call | None = None
        """The last call with a step alone."""
        self._alone: IntervalReport | None = None
        """A step without a rate that is not reported yet."""

    def add(self, call: Call) -> list[IntervalReport]:
        """Add a call; returns the reports that it completes. Raises NotUsable for a call that is not later than the
        last, unless the clock was set back."""
        if call.at < self._latest - SET_BACK_SECONDS:
            self.dropped += self._open is not None
            self._begin()
        self._latest = max(self._latest, call.at)
        if not call.values:
            return self._add_step(call)
        start = self._start(call)
        if self._last is not None and call.at <= self._last:
            raise NotUsable("the clock did not advance since the call before")
        if start is not None and start >= call.at:
            raise NotUsable("start lies after the call")
        self._last = call.at
        if start is None:
            return []
        done = self._cut() if self._breaks(call, start) else []
        self._extend(call, start)
        assert self._open is not None
        if self._open.end - self._open.start >= self._every:
            done += self._cut()
        return done

    def take_rest(self) -> list[IntervalReport]:
        """The report on all calls since the last report, of any length; empty if there are none."""
        left, self._open = self._open, None
        alone, self._alone = self._alone, None
        return ([left.report()] if left else []) + ([alone] if alone else [])

    def _add_step(self, call: Call) -> list[IntervalReport]:
        """Report a step that has no rate, at most once in `every` seconds; it was begun at the step before."""
        start = self._begun(call)
        alone = IntervalReport(start, call.at, {}, call.step)
        if call.at - self._stepped < self._every:
            self._alone = alone
            return []
        self._stepped, self._alone = call.at, None
        return [alone]

    def _begun(self, call: Call) -> float:
        """When the steps of a call without a rate were begun; its own time where that is not known."""
        before, self._before = self._before, call
        start = call.at if call.start is None else min(call.start, call.at)
        if before is None or before.at > call.at or (before.step or 0) >= (call.step or 0):
            return start
        start = before.at if call.start is None else max(start, before.at)
        waits = self._alone is not None and start - before.at < self._gap
        return self._alone.start if waits and self._alone else start

    def _start(self, call: Call) -> float | None:
        """The moment from which a call's values hold: never earlier than the call before it."""
        moments = [moment for moment in (self._last, call.start) if moment is not None]
        return max(moments) if moments else None

    def _breaks(self, call: Call, start: float) -> bool:
        running = self._open
        if running is None:
            return False
        return start - running.end > self._gap or running.sums.keys() != call.values.keys()

    def _extend(self, call: Call, start: float) -> None:
        if self._open is None:
            self._open = _OpenInterval(start, start, 0.0, dict.fromkeys(call.values, 0.0), None)
        self._open.add(call, call.at - start)

    def _cut(self) -> list[IntervalReport]:
        assert self._open is not None
        done, self._open = self._open.report(), None
        if done.end - self._reported < self._every:
            self.dropped += 1
            return []
        self._reported = done.end
        return [done]


def finite_number(value: object) -> float:
    """A finite number that is not negative, as a float. Raises NotUsable, or whatever the value itself raises.

    A number on a GPU is refused: to read it, the caller would wait for all queued work of the GPU.
    """
    if type(value) is not float:
        value = _host_number(value)
    if not 0.0 <= value < math.inf:
        raise NotUsable("is not a finite number of 0 or more")
    return value


def _host_number(value: object) -> float:
    if isinstance(value, bool | str | bytes | bytearray) or not hasattr(value, "__float__"):
        raise NotUsable("is not a number")
    device = getattr(
        value, "device", None
    )  # a tensor's device: its kind is in `type`, in `platform` or in its text
    where = getattr(device, "type", None) or getattr(device, "platform", None) or device
    if where not in (None, "cpu"):
        raise NotUsable("is on a GPU: give a number on the host, which can be read without waiting")
    return float(value)
