"""Keeps one source that is open: its lanes, and its health."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from ofu_exporter.agent.lane_threads import LaneThreads
from ofu_exporter.agent.lanes import Delivery, Lane, SamplingPace
from ofu_exporter.sources import Clock, Source
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Fault
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import SourceHealth

log = logging.getLogger(__name__)


class OpenedSource:
    """An open source. A call that hangs stops its own probe only."""

    def __init__(
        self, name: str, source: Source, lanes: Sequence[Lane], pace: SamplingPace, clock: Clock
    ) -> None:
        self.name = name
        self._source = source
        self.lanes = list(lanes)
        self._pace = pace
        self._clock = clock
        self._failures: Counter[str] = Counter()
        self._reads = self._missed = 0
        self._read_seconds = 0.0
        self._threads = LaneThreads(self.lanes, pace, clock)
        self._threads.start()

    @property
    def gpus(self) -> list[Gpu]:
        return [gpu for lane in self.lanes for gpu in lane.gpus]

    def note(self, delivery: Delivery) -> None:
        if delivery.failure is not None:
            self.count_failure(delivery.failure)
        self._reads += 1
        self._read_seconds += delivery.seconds
        self._missed += delivery.missed

    def count_failure(self, reason: Reason) -> None:
        self._failures[reason.value] += 1

    def health(self, now: float) -> SourceHealth:
        """The source's health now. It counts as readable while one of its lanes can be read."""
        failures = [Reason.HUNG if self._hangs(lane, now) else lane.failure for lane in self.lanes]
        up = None in failures
        replaced = Reason.DRIVER_REPLACED in failures
        reason = Reason.DRIVER_REPLACED if replaced else failures[0]
        return SourceHealth(
            self.name,
            up=up,
            reason=None if up else reason,
            simulated=self._source.simulated,
            recorded=self._source.recorded,
            reads=self._reads,
            read_seconds=self._read_seconds,
            failures=dict(self._failures),
            missed_deadlines=self._missed,
            rejected=dict(self._source.rejected),
        )

    def hung(self, now: float) -> list[Fault]:
        """A fault for each GPU of a call that has not returned for too long."""
        faults = []
        for lane in self.lanes:
            since = lane.busy_since
            if since is not None and self._hangs(lane, now):
                detail = f"a call has not returned for {now - since:.0f} s"
                faults += [Fault(gpu, now, Reason.HUNG, detail) for gpu in lane.gpus]
        return faults

    def _hangs(self, lane: Lane, now: float) -> bool:
        since = lane.busy_since
        return since is not None and now - since > self._pace.hung_after

    def cut(self) -> None:
        self._threads.cut()

    def stop(self) -> None:
        """Tell every lane to end; `close` waits for them."""
        self._threads.stop()

    def close(self, deadline: float) -> bool:
        """Release everything; False when a call hangs, because a library must not be shut down during a call."""
        self.stop()
        ended = self._threads.join(deadline - self._clock())
        if ended:
            self._source.close()
        return ended
