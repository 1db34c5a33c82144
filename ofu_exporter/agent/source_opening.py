"""Opens a source on a thread of its own, so that a library that hangs blocks nothing else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ofu_exporter.errors import SourceError
from ofu_exporter.sources import Clock, Probe, Source
from ofu_exporter.values.reasons import Reason

log = logging.getLogger(__name__)

Candidate = tuple[str, Callable[[], Source]]
"""The name of a source, and how it is built."""


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
    def __init__(self, candidate: Candidate, clock: Clock) -> None:
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
            opened.close()

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


def _opened(candidate: Candidate) -> OpenProbes:
    """Build and open a source. Raises SourceError, and nothing else."""
    name, build = candidate
    try:
        source = build()
        probes = source.open()
    except SourceError:
        raise
    except Exception as error:  # after any error of a source, the next one is tried
        log.exception("unexpected error while opening source %s", name)
        raise SourceError(Reason.FAILED, f"{type(error).__name__}: {error}") from error
    if not probes:
        raise SourceError(Reason.NO_GPU)
    return OpenProbes(source, probes)
