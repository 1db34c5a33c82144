"""Reads GPUs and MIG instances through NVIDIA's DCGM: a host engine of this node, or one that it starts itself.

The host engine samples all counters at one interval; every sample since the last read is taken and
weighted with its time. It must run on this node, because its samples carry the time of the node's clock. A host
engine is started only on request, and never if one already runs.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from ofu_exporter import sources
from ofu_exporter.errors import GpuError, SourceError
from ofu_exporter.sources import Clock
from ofu_exporter.sources.dcgm.host_engine import EMBEDDED, HostEngine, Wall, running
from ofu_exporter.sources.dcgm.library import DcgmError, Library, RefusedError
from ofu_exporter.sources.dcgm.options import Options as Options
from ofu_exporter.sources.dcgm.samples import Anchor
from ofu_exporter.sources.dcgm.session import Session
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason

log = logging.getLogger(__name__)


class Source(sources.Source):
    """The GPUs that a host engine sees."""

    def __init__(
        self, options: Options, clock: Clock = time.monotonic, wall: Wall = time.time
    ) -> None:
        self._options = options
        self._clock = clock
        self._wall = wall
        self._library: Library | None = None
        self._rejected: Counter[str] = Counter()

    @property
    def rejected(self) -> Mapping[str, int]:
        return dict(self._rejected)

    def open(self) -> Sequence[Probe]:
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            try:
                library = self._library = Library()
                if self._options.dcgm_address == EMBEDDED:
                    _refuse_second(library)
                probe = Probe(library, self._options, (self._clock, self._wall), self._rejected)
                undo.callback(probe.close)
                probe.connect()
            except DcgmError as error:
                raise SourceError(error.reason, _described(self._options, error)) from error
            if not probe.gpus():
                raise SourceError(Reason.NO_GPU, f"{_described(self._options)} sees no GPU")
            undo.pop_all()
        return [probe]

    def close(self) -> None:
        library, self._library = self._library, None
        if library is not None:
            library.close()


class Probe(sources.Probe):
    """One host engine. If it ends, none of its GPUs is measured. The probe reconnects by itself."""

    def __init__(
        self, library: Library, options: Options, clocks: tuple[Clock, Wall], rejected: Counter[str]
    ) -> None:
        self._library = library
        self._options = options
        self._clock, self._wall = clocks
        self._rejected = rejected
        self._session: Session | None = None
        self._gpus: Sequence[Gpu] = ()

    def gpus(self) -> Sequence[Gpu]:
        return self._gpus

    def connect(self) -> None:
        """Connect and start again; samples from before are never read. Raises DcgmError."""
        self.close()
        options = self._options
        engine = HostEngine(self._library, options.dcgm_address, self._wall)
        try:
            choices = options.dcgm_interval, options.dcgm_pre_hopper
            self._session = Session(engine, *choices, self._now, self._rejected)
        except DcgmError:
            engine.close()
            raise
        self._gpus = self._session.gpus()
        log.info("reading the DCGM host engine at %s", options.dcgm_address)

    def read(self) -> Sequence[Reading | Fault]:
        was_connected = self._session is not None
        try:
            if self._session is None:
                self.connect()
            assert self._session is not None
            events = self._session.events()
            self._gpus = self._session.gpus()
        except DcgmError as error:
            if not isinstance(error, RefusedError):
                self._reconnect(was_connected)
            raise GpuError(error.reason, _described(self._options, error)) from error
        return events

    def _reconnect(self, was_connected: bool) -> None:
        """If the host engine is already back, set the watches again at once, so that the next window is complete."""
        self.close()
        if was_connected:
            with contextlib.suppress(DcgmError):
                self.connect()

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _now(self) -> Anchor:
        """Both clocks at one instant. They are read again if this thread was delayed between the two reads."""
        for _ in range(5):
            before, wall, after = self._clock(), self._wall(), self._clock()
            if after - before < 0.002:
                break
        return Anchor(round(wall * 1e6), (before + after) / 2)


def _refuse_second(library: Library) -> None:
    """Raise SourceError when a host engine runs: two would take the counters from each other."""
    address = running(library)
    if address is not None:
        detail = f"a host engine already runs at {address}: no second one is started"
        raise SourceError(Reason.COUNTER_BUSY, detail)


def _described(options: Options, error: DcgmError | None = None) -> str:
    where = f"DCGM at {options.dcgm_address}"
    return f"{where}: {error}" if error else where
