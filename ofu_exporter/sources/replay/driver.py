"""Replays a recording at the pace at which it was made; used only on request."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ofu_exporter import recordings, sources
from ofu_exporter.errors import GpuError, SourceError
from ofu_exporter.recordings import recording
from ofu_exporter.recordings.jobs import read_jobs
from ofu_exporter.sources import Clock
from ofu_exporter.sources.replay.options import Options as Options
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import ClockSample, Fault, Reading
from ofu_exporter.values.reasons import Reason

DATE_LENGTH = len("2026-01-31")


class Probe(sources.Probe):
    """A whole recording: all of its GPUs are in one file, in the order in which they were written."""

    def __init__(self, path: Path, first: recording.Recording, loop: bool, clock: Clock) -> None:
        self._path = path
        self._recording = first
        self._loop = loop
        self._clock = clock
        self._opened = clock()
        self._epoch = _round_began(path, loop, clock)
        self._length = 0.0
        self._next: Reading | Fault | None = None
        self._gpus: dict[Gpu, None] = {}

    @property
    def damaged(self) -> Sequence[str]:
        return self._recording.damaged

    def gpus(self) -> Sequence[Gpu]:
        """The GPUs in the node's order. Their order in the recording is random, because a thread per GPU wrote them."""
        return sorted(self._gpus, key=lambda gpu: (_numbered(gpu.index), _numbered(gpu.instance)))

    def read(self) -> Sequence[Reading | Fault]:
        now = self._clock()
        due: list[Reading | Fault] = []
        while (event := self._peek()) is not None and self._epoch + _end(event) <= now:
            due.append(_shifted(event, self._epoch))
            self._length = max(self._length, _end(event))
            self._gpus[event.gpu] = None
            self._next = None
        if not due and self._next is None:
            self._end_reached()
        return due

    def _peek(self) -> Reading | Fault | None:
        while self._next is None:
            self._next = next(self._recording.events, None)
            if self._next is None:
                break
            if self._epoch + _start(self._next) < self._opened:  # nobody was there to read it
                self._length = max(self._length, _end(self._next))
                self._gpus[self._next.gpu] = None  # they are told of all the same
                self._next = None
        return self._next

    def _end_reached(self) -> None:
        if not self._loop or self._length <= 0:
            raise GpuError(Reason.RECORDING_ENDED, f"{self._path} is over")
        try:
            next_round = recording.read(self._path)
        except SourceError as error:
            raise GpuError(error.reason, error.detail) from error
        self._epoch += self._length
        self._recording = next_round


class Source(sources.Source):
    """A recording as a source."""

    simulated = False
    recorded = ""

    def __init__(self, options: Options, clock: Clock = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._probe: Probe | None = None

    @property
    def rejected(self) -> Mapping[str, int]:
        damaged = len(self._probe.damaged) if self._probe else 0
        return {"damaged_line": damaged} if damaged else {}

    def open(self) -> Sequence[Probe]:
        path = self._options.path
        first = recording.read(path)
        self.simulated = first.header.simulated
        self.recorded = str(first.header.created)[:DATE_LENGTH]
        self._probe = Probe(path, first, self._options.loop, self._clock)
        return [self._probe]


def _round_began(path: Path, loop: bool, clock: Clock) -> float:
    """When the recording began, or the round of a loop that it is in now."""
    began = recordings.began(path, clock)
    elapsed = clock() - began
    seconds = read_jobs(path).seconds if loop and elapsed > 0 else 0.0
    return began + (elapsed // seconds * seconds if seconds > 0 else 0.0)


def _numbered(name: str) -> tuple[int, str]:
    """Sort key: numbers as numbers, before all other names."""
    return (int(name), "") if name.isdecimal() else (sys.maxsize, name)


def _end(event: Reading | Fault) -> float:
    return event.at if isinstance(event, Fault) else event.end


def _start(event: Reading | Fault) -> float:
    return event.at if isinstance(event, Fault) else event.start


def _shifted(event: Reading | Fault, by: float) -> Reading | Fault:
    if isinstance(event, Fault):
        return replace(event, at=event.at + by)
    clocks = tuple(ClockSample(sample.at + by, sample.hz) for sample in event.clocks)
    samples = tuple(
        sample._replace(start=sample.start + by, end=sample.end + by) for sample in event.samples
    )
    return replace(
        event, start=event.start + by, end=event.end + by, clocks=clocks, samples=samples
    )
