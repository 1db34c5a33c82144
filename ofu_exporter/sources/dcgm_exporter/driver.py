"""Reads another exporter's page: NVIDIA's dcgm-exporter, old and new names and units, MIG rows too.

The page holds the mean tensor activity over dcgm-exporter's own collection interval (30 s unless
configured) and one point read of the clock, with no time stamp. So a value counts as new when it
changed, or when a whole collection interval has passed. It then stands for the time since the last new
one, at most one collection interval. A GPU none of whose rows changed for `unchanged_limit` is not
believed any more: a live GPU's power and energy always move.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from ofu_exporter.errors import GpuError, PageError, SourceError
from ofu_exporter.sources import Clock
from ofu_exporter.sources.dcgm_exporter.page import ExporterPage, PageRow, parse
from ofu_exporter.support.durations import Seconds
from ofu_exporter.support.page_client import PageClient
from ofu_exporter.values.gpu import Gpu, GpuKey
from ofu_exporter.values.reading import (
    LONGEST_WINDOW_SECONDS,
    SHORTEST_WINDOW_SECONDS,
    ClockSample,
    Fault,
    Reading,
)
from ofu_exporter.values.reasons import Reason

AUTO_RANK = 2

MAX_PAGE_BYTES = 64 << 20


class Options(BaseModel):
    """Where the page is, and how dcgm-exporter makes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(
        default="http://localhost:9400/metrics",
        pattern=r"^https?://[^/]+",
        description="Page of the dcgm-exporter to read.",
        examples=["URL"],
    )
    collect_interval: Seconds = Field(
        default=30.0,
        gt=0,
        le=LONGEST_WINDOW_SECONDS,
        description="Collection interval of that dcgm-exporter (its -c flag).",
        examples=["30s"],
    )
    unchanged_limit: Seconds = Field(
        default=300.0,
        gt=0,
        description="A GPU none of whose values moved for so long is not believed.",
        examples=["5m"],
    )
    timeout: Seconds = Field(
        default=5.0, gt=0, description="Time to wait for the page.", examples=["5s"]
    )


@dataclass(slots=True)
class _Track:
    """What earlier pages said of one GPU."""

    values: tuple[object, ...]
    liveness: int
    moved_at: float
    end: float


class Probe:
    """One page: a problem with the page is a problem of all its GPUs."""

    def __init__(self, options: Options, clock: Clock, rejected: Counter[str]) -> None:
        self._options = options
        self._clock = clock
        self._rejected = rejected
        self._client = PageClient(options.url, options.timeout, clock)
        self._tracks: dict[tuple[str, GpuKey], _Track] = {}
        self._gpus: Sequence[Gpu] = ()

    def gpus(self) -> Sequence[Gpu]:
        return self._gpus

    def poll(self) -> None:
        """Nothing to do: the page has one clock read per collection."""

    def read(self) -> Sequence[Reading | Fault]:
        try:
            page = self._page()
        except GpuError:
            self._gap(self._tracks)
            raise
        now = self._clock()
        self._gpus = [row.gpu for row in page.rows]
        self._gap(self._tracks.keys() - {_track_key(gpu) for gpu in self._gpus})
        self._forget(now)
        events = (self._event(row, page.liveness.get(row.gpu.uuid, 0), now) for row in page.rows)
        return [event for event in events if event is not None]

    def _page(self) -> ExporterPage:
        page = parse(self._fetch())
        self._rejected.update(page.rejected)
        if not page.rows:
            raise GpuError(Reason.NO_GPU, f"no row of a GPU at {self._client.shown_url}")
        return page

    def _gap(self, keys: Iterable[tuple[str, GpuKey]]) -> None:
        """Note a gap: the first page after it is new, whatever its values."""
        for key in keys:
            self._tracks[key].values = ()

    def _forget(self, now: float) -> None:
        """Forget GPUs that have been gone for a collection: no window of theirs can overlap when they come back."""
        present = {_track_key(gpu) for gpu in self._gpus}
        gone_at = now - self._options.collect_interval
        self._tracks = {
            key: track
            for key, track in self._tracks.items()
            if key in present or track.end > gone_at
        }

    def close(self) -> None:
        self._client.close()

    def _event(self, row: PageRow, liveness: int, now: float) -> Reading | Fault | None:
        key = _track_key(row.gpu)
        track = self._tracks.get(key)
        if _is_waiting(row):
            if track is not None:
                track.values = ()
            return Fault(row.gpu, now, Reason.BLANK)
        collect = self._options.collect_interval
        if track is None:
            self._tracks[key] = _Track(row.values(), liveness, now, now)
            return _reading(row, now - collect, now, collect)
        if track.liveness != liveness:
            track.liveness, track.moved_at = liveness, now
        elif now - track.moved_at > self._options.unchanged_limit:
            return Fault(row.gpu, now, Reason.UNCHANGED)
        if now - track.end < SHORTEST_WINDOW_SECONDS:
            return None  # a late read and a timely one: the next read takes the change
        end = now
        if track.values == row.values():
            if now - track.end < collect:
                return None
            if now - track.end < 2 * collect:
                end = track.end + collect  # the rest belongs to the next window
        start = max(track.end, end - collect)
        track.values, track.end = row.values(), end
        return _reading(row, start, end, collect)

    def _fetch(self) -> str:
        try:
            return self._client.fetch(MAX_PAGE_BYTES)
        except PageError as error:
            raise GpuError(error.reason, error.detail) from error


class Source:
    """The GPUs of one dcgm-exporter."""

    simulated = False

    def __init__(self, options: Options, clock: Clock = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._rejected: Counter[str] = Counter()

    @property
    def rejected(self) -> Mapping[str, int]:
        return dict(self._rejected)

    def open(self) -> Sequence[Probe]:
        trial = Probe(self._options, self._clock, Counter())
        try:
            trial.read()
        except GpuError as error:
            raise SourceError(error.reason, error.detail) from error
        finally:
            trial.close()
        return [Probe(self._options, self._clock, self._rejected)]

    def close(self) -> None:
        """Nothing to do: the probe holds the connection."""


def _track_key(gpu: Gpu) -> tuple[str, GpuKey]:
    """The part of a GPU's description that stays the same, however much a page says of it."""
    return (gpu.index, gpu.key)


def _is_waiting(row: PageRow) -> bool:
    """Whether both counters are there and one has no value yet."""
    tensor = row.tensor_active is not None or "tensor" in row.blank
    clock = row.clock_hz is not None or "clock" in row.blank
    return tensor and clock and (row.tensor_active is None or row.clock_hz is None)


def _reading(row: PageRow, start: float, end: float, pace: float) -> Reading:
    clocks = () if row.clock_hz is None else (ClockSample(end, row.clock_hz),)
    return Reading(row.gpu, start, end, row.tensor_active, row.pipes, clocks, pace=pace)
