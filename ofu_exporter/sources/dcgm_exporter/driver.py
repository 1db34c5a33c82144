"""Reads the page of NVIDIA's dcgm-exporter, with old or new names and units and rows of MIG instances.

The page holds the mean tensor activity over dcgm-exporter's own collection interval (30 s unless
configured) and one point read of the clock, with no time stamp. It is read twice in each collection, or in each
window if windows are shorter, so that every change is seen soon. stretch.py decides which time each value stands for.
The time before the first page does not count. If no row of a GPU has changed for `unchanged_limit`, its values are
rejected: power and energy of a live GPU always change.
"""

from __future__ import annotations

import logging
import math
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ofu_exporter import sources
from ofu_exporter.errors import GpuError, PageError, SourceError
from ofu_exporter.sources import Clock
from ofu_exporter.sources.dcgm_exporter.options import Options as Options
from ofu_exporter.sources.dcgm_exporter.page import ExporterPage, PageRow, Places, parse
from ofu_exporter.sources.dcgm_exporter.stretch import Stretch, reading
from ofu_exporter.support.page_client import PageClient
from ofu_exporter.values.gpu import Gpu, GpuKey
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason

log = logging.getLogger(__name__)

MAX_PAGE_BYTES = 16 << 20
"""A page of 128 MIG instances and all fields has less than 4 MiB."""
STEADY_CHANGES = 5
"""Number of early changes in a row after which it is certain that the other exporter collects more often than
configured."""
TOO_SLOW = (
    "%s collects every %g s and is read less often, so some values are missed: set --clock-interval to at most "
    "half of that, or make dcgm-exporter collect less often"
)
TOO_FAST = (
    "values of %s change more often than every %g s: set --collect-interval to dcgm-exporter's own (-c), "
    "or some values are missed"
)

TWO_NODES = (
    "%s is answered for %s and for %s: it must lead to one node, this one; for a Service of Kubernetes set "
    "internalTrafficPolicy: Local"
)
_HOSTNAME = re.compile(r'[{,][Hh]ostname="([^"\\]{1,255})"')
"""With a small letter since 4.8.3."""
TOO_MANY_GPUS = (
    "%s names %d GPUs and MIG instances more than are measured: those known longest and then the first %d of the page "
    "are measured; if the others are real, raise --most-gpus"
)


@dataclass(slots=True)
class _Track:
    """What earlier pages showed of one GPU."""

    stretch: Stretch
    liveness: int
    moved_at: float


class Probe(sources.Probe):
    """One page: a problem with the page is a problem of all its GPUs."""

    def __init__(self, options: Options, clock: Clock, rejected: Counter[str]) -> None:
        self._options = options
        self._clock = clock
        self._rejected = rejected
        self._client = PageClient(options.url, options.timeout, clock)
        self._pace = PagePace(options.collect_interval)
        self._tracks: dict[tuple[str, GpuKey], _Track] = {}
        self._gpus: Sequence[Gpu] = ()
        self._readings: list[Reading] = []
        """Windows found on the pages since the last read."""
        self._warned = False
        self._places = Places(options.most_gpus)
        self._is_crowded = False
        """Whether the last page named more GPUs than are measured."""
        self._hosts: set[str] = set()
        """The nodes that the pages name, until they have been said to be two."""
        self._answered = False
        """Whether a page came since the last read."""
        self._last_page = ExporterPage([], Counter())
        self._last_mark: tuple[int, int] | None = None
        """Its length and hash. The next page is often the same, and the text may be too large to keep."""

    def gpus(self) -> Sequence[Gpu]:
        return self._gpus

    def poll(self) -> None:
        """Check whether the values have changed, if a check is due. The next read reports a page that failed."""
        if not self._pace.check_due(self._clock()):
            return
        try:
            events = self._events()
        except GpuError:
            self._miss()
            return
        self._answered = True
        self._readings += [event for event in events if isinstance(event, Reading)]

    def read(self) -> Sequence[Reading | Fault]:
        """The windows found since the last read. A single failed page between others is only counted."""
        self._pace.begin_window(self._clock())
        answered, self._answered = self._answered, False
        events: Sequence[Reading | Fault] = ()
        try:
            events = self._events()
        except GpuError:
            self._miss()
            if not answered:
                self._interrupt(self._tracks)
                raise
        readings, self._readings = self._readings, []
        return [*readings, *events]

    def _miss(self) -> None:
        """Note that a page could not be read."""
        self._pace.note_failure()
        self._rejected["page_failed"] += 1
        for track in self._tracks.values():
            track.stretch.has_hole = True

    def close(self) -> None:
        self._client.close()

    def _events(self) -> list[Reading | Fault]:
        """What one more page shows."""
        page = self._page()
        now = self._clock()
        self._count_unseen(now)
        self._gpus = [row.gpu for row in page.rows]
        present = {_track_key(gpu) for gpu in self._gpus}
        self._interrupt(self._tracks.keys() - present)
        # A GPU that has been gone for a collection is forgotten: no window can overlap when it comes back.
        gone_at = now - self._options.collect_interval
        self._tracks = {
            key: track
            for key, track in self._tracks.items()
            if key in present or track.stretch.shown_at > gone_at
        }
        return [event for row in page.rows for event in self._of_gpu(row, now)]

    def _page(self) -> ExporterPage:
        try:
            text = self._client.fetch(MAX_PAGE_BYTES)
        except PageError as error:
            raise GpuError(error.reason, error.detail) from error
        mark = (len(text), hash(text))
        if mark != self._last_mark:
            self._last_mark, self._last_page = mark, parse(text, self._places)
        page = self._last_page
        self._note_host(text)
        self._rejected.update(page.rejected)
        too_many = page.rejected["too_many_gpus"]
        if too_many and not self._is_crowded:
            log.warning(TOO_MANY_GPUS, self._client.shown_url, too_many, self._places.most)
        self._is_crowded = too_many > 0
        if not page.rows:
            raise GpuError(Reason.NO_GPU, f"no row of a GPU at {self._client.shown_url}")
        return page

    def _note_host(self, text: str) -> None:
        """Say it once where pages come of two nodes: GPUs then come and go with every page."""
        host = _HOSTNAME.search(text)
        if host is None or len(self._hosts) > 1:
            return
        self._hosts.add(host[1])
        if len(self._hosts) > 1:
            log.warning(TWO_NODES, self._client.shown_url, *sorted(self._hosts))

    def _count_unseen(self, now: float) -> None:
        """Count collections that no page has shown, and log it if the settings are the cause."""
        unseen = self._pace.take_unseen(now)
        if unseen:
            self._rejected["unseen_collection"] += unseen
        if self._pace.is_too_slow:
            self._warn_once(TOO_SLOW)

    def _count_early(self, stretch: Stretch) -> None:
        """Count changes that come too often for the configured collections, and log it when that is certain."""
        if stretch.early_changes < STEADY_CHANGES:
            return
        self._warn_once(TOO_FAST)
        self._rejected["early_change"] += 1

    def _warn_once(self, words: str) -> None:
        """Log that the settings are the cause of missed values, whichever it is."""
        if not self._warned:
            self._warned = True
            log.warning(words, self._client.shown_url, self._options.collect_interval)

    def _interrupt(self, keys: Iterable[tuple[str, GpuKey]]) -> None:
        """Note a gap: the first page after it counts as new, even with the same values."""
        for key in keys:
            if key in self._tracks:
                self._tracks[key].stretch.is_news = True

    def _of_gpu(self, row: PageRow, now: float) -> Sequence[Reading | Fault]:
        track = self._tracks.get(_track_key(row.gpu))
        if row.is_waiting:
            self._interrupt([_track_key(row.gpu)])
            return [Fault(row.gpu, now, Reason.BLANK)]
        if track is None:
            return [self._first(row, now)]
        if track.liveness != row.liveness:
            track.liveness, track.moved_at = row.liveness, now
        elif now - track.moved_at > self._options.unchanged_limit:
            track.stretch.is_news = True
            return [Fault(row.gpu, now, Reason.UNCHANGED)]
        windows = list(track.stretch.take(row, now))
        if windows:
            self._count_early(track.stretch)
        return windows

    def _first(self, row: PageRow, now: float) -> Reading:
        """The reading of a GPU's first page. Its values belong to the time before it, so it does not count."""
        collect = self._options.collect_interval
        stretch = Stretch(collect, row, end=now, shown_at=now, joules=row.total_joules)
        self._tracks[_track_key(row.gpu)] = _Track(stretch, row.liveness, now)
        return reading(row, now - collect, now, collect, counts=False)


class Source(sources.Source):
    """The GPUs of one dcgm-exporter, to which its probe holds the connection."""

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


def _track_key(gpu: Gpu) -> tuple[str, GpuKey]:
    """The part of a GPU's description that does not depend on which labels a page has."""
    return (gpu.index, gpu.key)


PER_COLLECTION = 2
"""Reads of the page per collection, or per window if that is shorter."""
LATENESS = 1.05
"""Threads wake up late: a pause that is too long by up to this much counts as the intended pause."""
SETTLED_GAPS = 3
"""Number of gaps in a row, each too long to see every collection, after which the settings count as the cause."""


class PagePace:
    """When one page was read and is to be read next, and how many of its collections were missed.

    Times are monotonic seconds.
    """

    def __init__(self, collect: float) -> None:
        self._collect = collect
        self._window = collect
        self._called_at = -math.inf
        self._asked_at = -math.inf
        self._answered_at: float | None = None
        self._read_at: float | None = None
        self._failed = False
        self._long_gaps = 0
        self._unseen = 0.0

    def check_due(self, now: float) -> bool:
        """Whether the page must be read now, because the next time that this is asked would be too late."""
        next_call_at, self._called_at = 2 * now - self._called_at, now
        longest = min(self._collect, self._window) / PER_COLLECTION
        # Reads in step with the collections would never show more exactly when these end.
        if next_call_at <= self._asked_at + LATENESS * random.uniform(0.5, 1.0) * longest:
            return False
        self._asked_at = now
        return True

    def begin_window(self, now: float) -> None:
        """Note that the page is read because a window ends."""
        if self._read_at is not None:
            self._window = now - self._read_at
        self._read_at = self._called_at = self._asked_at = now

    def note_failure(self) -> None:
        """Note that the page did not come, so the settings are not the cause of the gap."""
        self._failed = True

    def take_unseen(self, now: float) -> int:
        """Note that the page came; returns how many collections before it were certainly missed."""
        gap = 0.0 if self._answered_at is None else now - self._answered_at
        failed, self._failed, self._answered_at = self._failed, False, now
        if gap <= LATENESS * self._collect:
            self._long_gaps = 0
            return 0
        self._long_gaps += 0 if failed else 1
        self._unseen += gap / self._collect - 1
        whole = int(self._unseen)
        self._unseen -= whole
        return whole

    @property
    def is_too_slow(self) -> bool:
        """Whether collections are missed because of the settings."""
        return self._long_gaps >= SETTLED_GAPS
