"""Opens a source on a thread of its own, so that a library that hangs blocks nothing else, and keeps it open."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ofu_exporter.agent.lanes import Delivery, Lane, LaneThreads, SamplingPace
from ofu_exporter.errors import SourceError
from ofu_exporter.sources import Clock, Probe, Source
from ofu_exporter.values.gpu import Gpu, GpuKey
from ofu_exporter.values.reading import Fault
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import SourceHealth

log = logging.getLogger(__name__)


class SourceBuilder(NamedTuple):
    """A source, and how it is built."""

    name: str
    build: Callable[[], Source]


class OpenProbes(NamedTuple):
    """A source that is open, with its probes."""

    source: Source
    probes: Sequence[Probe]

    def close(self) -> None:
        """Release everything. Never raises."""
        for probe in self.probes:
            probe.close()
        self.source.close()


class SourceOpening:
    def __init__(self, candidate: SourceBuilder, clock: Clock) -> None:
        self._candidate = candidate
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._opened: OpenProbes | None = None
        self._error: SourceError | None = None
        self._given_up = False
        self._over = threading.Event()
        """Set when nobody has to wait any longer: the attempt has ended or was given up."""
        self._thread = threading.Thread(target=self._run, name="ofu-opening", daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    def result(self, patience: float) -> OpenProbes | None:
        """The open source; None if it is not open within `patience` seconds or was given up. Raises SourceError."""
        self._over.wait(patience)
        if self._error is not None:
            raise self._error
        return self._opened

    def give_up(self) -> None:
        """Give the attempt up. A source that it has opened, or opens later, is closed."""
        with self._lock:
            self._given_up = True
            opened, self._opened = self._opened, None
        self._over.set()
        if opened is not None:
            self._thread = threading.Thread(target=opened.close, name="ofu-opening", daemon=True)
            self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the thread; False when the call has not returned."""
        self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._open()
        finally:
            self._over.set()

    def _open(self) -> None:
        try:
            opened = _opened(self._candidate)
        except SourceError as error:
            self._error = error
            return
        with self._lock:
            if not self._given_up:
                self._opened = opened
                return
        opened.close()


def _opened(candidate: SourceBuilder) -> OpenProbes:
    """Build and open a source. Raises SourceError, and nothing else."""
    try:
        source = candidate.build()
        probes = source.open()
    except SourceError:
        raise
    except Exception as error:  # after any error of a source, the next one is tried
        log.exception("unexpected error while opening source %s", candidate.name)
        raise SourceError(Reason.FAILED, f"{type(error).__name__}: {error}") from error
    if not probes:
        raise SourceError(Reason.NO_GPU)
    return OpenProbes(source, probes)


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
        self._closing: threading.Thread | None = None

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

    def divide(self, gpus: frozenset[GpuKey]) -> None:
        for lane in self.lanes:
            lane.divide(gpus)

    def stop(self) -> None:
        """Tell every lane to end; `close` waits for them."""
        self._threads.stop()

    def close(self, deadline: float) -> bool:
        """Release everything; False when a call hangs, because a library must not be shut down during a call.

        The shutdown itself may hang, so it has a thread of its own too. Another `close` goes on waiting for it.
        """
        self.stop()
        if not self._threads.join(deadline - self._clock()):
            return False
        if self._closing is None:
            self._closing = threading.Thread(
                target=self._source.close, name="ofu-closing", daemon=True
            )
            self._closing.start()
        self._closing.join(max(0.0, deadline - self._clock()))
        return not self._closing.is_alive()
