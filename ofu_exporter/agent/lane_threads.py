"""Drives the lanes of one source at a common beat with few threads. A call that hangs stops one GPU only.

Two threads take turns. While one drives the lanes of a beat, one after the other, the other sleeps until the next
beat. If the first is still in a call then, the second drives all other lanes, and a third thread sleeps until the
beat after that. So a call that hangs delays the other GPUs once, by a step at most, and a beat costs one wake-up.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from ofu_exporter.agent.lanes import Deadlines, Lane, SamplingPace
from ofu_exporter.sources import Clock

log = logging.getLogger(__name__)

MOST_ASLEEP = 2
"""One thread that sleeps until the next beat, and one that sleeps until the one after."""


class LaneThreads:
    def __init__(self, lanes: Sequence[Lane], pace: SamplingPace, clock: Clock) -> None:
        self._lanes = list(lanes)
        self._clock = clock
        self._deadlines = Deadlines(clock(), pace.step_seconds, pace.reads_per_window)
        self._number = -1
        self._due: deque[Lane] = deque()
        self._busy: set[Lane] = set()
        self._open = set(self._lanes)
        self._asleep = 0
        self._stopping = False
        self._changed = threading.Condition()
        """Guards all of these. It is not held while a lane is driven."""

    def start(self) -> None:
        self._begin(self._run)

    def cut(self) -> None:
        with self._changed:
            for lane in self._lanes:
                lane.cut()
            self._changed.notify_all()

    def stop(self) -> None:
        """Close every lane as soon as it is not in a call."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, timeout: float) -> bool:
        """Wait until every lane is closed; False when one is still in a call."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, max(0.0, timeout))

    def _run(self) -> None:
        while (lane := self._next()) is not None:
            closes = self._stopping
            try:
                if closes:
                    lane.close()
                else:
                    lane.drive(self._number)
            except Exception:  # one bad lane must not end the thread, which drives the others
                log.exception("unexpected error in a lane")
            self._let_go(lane, closes)

    def _run_later(self) -> None:
        """Begin with the next beat."""
        with self._changed:
            if not self._stopping:
                self._sleep()
        self._run()

    def _next(self) -> Lane | None:
        """The next lane, once it is due; None when this thread is no longer needed."""
        with self._changed:
            while True:
                lane = self._take_due(self._clock())
                if lane is not None:
                    self._busy.add(lane)
                    self._leave_somebody_asleep()
                    return lane
                if self._stopping or self._asleep >= min(MOST_ASLEEP, len(self._lanes)):
                    return None
                self._sleep()

    def _take_due(self, now: float) -> Lane | None:
        if self._stopping:
            self._due = deque(self._open)
        elif now >= self._deadlines.next_at:
            self._number = self._deadlines.beat(now)
            self._due = deque(self._lanes)
        elif not self._due:
            self._due.extend(lane for lane in self._lanes if lane.cut_at <= now)
        while self._due:
            lane = self._due.popleft()
            if lane not in self._busy:
                return lane
        return None

    def _leave_somebody_asleep(self) -> None:
        """Start a thread if all others may hang and there is a lane that it could drive."""
        if not self._asleep and len(self._busy) < len(self._lanes):
            # Where no thread can be started, this one continues alone.
            with contextlib.suppress(RuntimeError):
                self._begin(self._run if self._stopping else self._run_later)

    def _sleep(self) -> None:
        """Sleep until the next beat or cut; if another thread already sleeps until then, until the beat after."""
        beats = self._deadlines
        beat_at = beats.following_at if self._asleep else beats.next_at
        cuts = (lane.cut_at for lane in self._lanes if lane not in self._busy)
        self._asleep += 1
        self._changed.wait(max(0.0, min([beat_at, *cuts]) - self._clock()))
        self._asleep -= 1

    def _let_go(self, lane: Lane, is_closed: bool) -> None:
        """Give a lane back after a call. A beat that it missed meanwhile is taken at once."""
        with self._changed:
            self._busy.discard(lane)
            if is_closed:
                self._open.discard(lane)
                self._changed.notify_all()
            elif lane.number < self._number:
                self._due.append(lane)

    @staticmethod
    def _begin(run: Callable[[], None]) -> None:
        threading.Thread(target=run, name="ofu-lane", daemon=True).start()
