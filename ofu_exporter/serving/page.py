"""Keeps the page of metrics: written and packed once per snapshot, so that a scrape finds its bytes there."""

from __future__ import annotations

import gzip
import math
import platform
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.registry import Collector

from ofu_exporter import __revision__, __version__
from ofu_exporter.ofu.freshness import fresh
from ofu_exporter.ofu.tick import CLOCK_STEP_SECONDS
from ofu_exporter.serving.collector import counted, families, filled, timestamps
from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.history import History
from ofu_exporter.serving.metrics.agent import (
    BUILD_INFO,
    DROPPED_LOG_LINES,
    FAULTS,
    LAST_RELOAD,
    PULLS,
    REJECTED_REPORTS,
    RELOADS,
    REQUESTS,
    STATE_SET_ASIDE,
    STATE_WRITES,
)
from ofu_exporter.serving.negotiation import Encoder, chosen_format, takes_gzip
from ofu_exporter.support.logs import LastLines
from ofu_exporter.support.rate_limit import RateLimit
from ofu_exporter.values.snapshot import Snapshot

METRICS = "/metrics"
RENEW_SECONDS = 15.0
"""A page is written anew after this time at the latest, whatever the sampler does."""
REWRITES_PER_SECOND, REWRITES_AT_ONCE = 5.0, 50
"""Pages of one snapshot that are written because something else has happened: whoever makes that happen pays little."""
FORGET_SECONDS = 300.0
"""A format that nobody has asked for in this time is not written ahead any more."""


class Rendered(NamedTuple):
    """A rendered page, with its content type and encoding."""

    body: bytes
    content_type: str
    encoding: str | None


class LiveCounts(NamedTuple):
    """Counts of other parts of the agent, up to now."""

    rejected_reports: Mapping[str, int] = {}
    """Refused reports by reason."""
    pulls: Mapping[tuple[str, str], int] = {}
    """Pulls of serving engines, by job and outcome."""
    state_writes: Mapping[str, int] | None = None
    """Writes of the state file by outcome; None without a file."""
    state_set_aside: int = 0
    """Damaged state files that were kept under another name."""
    dropped_log_lines: int = 0
    """Lines of the log that were not written."""
    last_reload_successful: bool = True
    """Whether the configuration is in force as it lies in its files."""


class Counts(NamedTuple):
    """What has happened to the agent itself."""

    live: LiveCounts
    reloads: Mapping[str, int]
    faults: Mapping[str, int]
    request_kinds: int
    """How many paths and statuses there were. The requests of each are counted, and shown with the next page."""


class _Written:
    """The pages of one moment, by content type and by whether they are packed."""

    def __init__(self, of: Snapshot | None, counts: Counts, at: float) -> None:
        self.of = of
        self.counts = counts
        self.at = at
        ends = (view.fresh_until for view in of.gpus if view.window) if of else ()
        self.good_until = min([at + RENEW_SECONDS, *(end for end in ends if end >= at)])
        """When a window becomes too old, or the page itself."""
        self._pages: dict[tuple[str, bool], bytes] = {}

    def page(self, kind: str, packed: bool, write: Callable[[], bytes]) -> bytes:
        """The page. It is written when it is first asked for."""
        found = self._pages.get((kind, packed))
        if found is None:
            plain = self._pages[kind, False] if (kind, False) in self._pages else write()
            found = gzip.compress(plain, 1, mtime=0) if packed else plain
            self._pages[kind, False], self._pages[kind, packed] = plain, found
        return found


class Page:
    """The last snapshot as the page of metrics, in every format that is asked for.

    A scrape touches no driver, no disk of the node's and no lock that the sampler holds for long. It shows how many
    requests there were when the page was written: at the last snapshot, or when something else happened to the agent.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        counts: Callable[[], LiveCounts] = LiveCounts,
        process: bool = True,
        unix: Callable[[], float] | None = None,
        path: str = METRICS,
    ) -> None:
        """`counts` is called at each scrape. `process` is whether the page has the metrics of this process.

        `path` is where the page is, besides /metrics.
        `unix` is the node's clock; without it nobody notices when that is set between two snapshots.
        """
        self.path = path
        self._clock = clock
        self._unix = unix
        self._live = counts
        self._snapshot: Snapshot | None = None
        self._asked: dict[tuple[str, bool], tuple[Encoder, float]] = {}
        """What was asked for, how it is written, and when that was."""
        self._of_snapshot: list[Metric] = []
        self._written = _Written(None, Counts(LiveCounts(), {}, {}, 0), -math.inf)
        self._rewrites: RateLimit[str] = RateLimit(REWRITES_PER_SECOND, REWRITES_AT_ONCE)
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._reloads: Counter[str] = Counter({"applied": 0, "failed": 0})
        self.faults = Faults()
        """Errors that cost a series or an answer."""
        self._registry = CollectorRegistry()
        self._registry.register(_Collector(self._collected))
        if process:
            own = ProcessCollector(registry=None)
            self._registry.register(_Collector(lambda: self.faults.rows("process", own.collect)))
        self.history = History(self.faults)
        """The last hour of what was published."""
        self.last_lines = LastLines()
        """The last lines of the loggers that it is added to."""

    def publish(self, snapshot: Snapshot) -> None:
        """Show a snapshot from now on. What was asked for before is written here, ahead of the scrape."""
        self._snapshot = snapshot
        self.history.take(snapshot)
        now = self._clock()
        for (kind, packed), (encoder, at) in list(self._asked.items()):
            if now - at > FORGET_SECONDS:
                del self._asked[kind, packed]
            else:
                self._page(kind, packed, encoder)

    def snapshot(self) -> Snapshot | None:
        """The last snapshot, without the windows that have become too old since."""
        snapshot = self._snapshot
        return None if snapshot is None else fresh(snapshot, self._clock())

    def snapshot_age(self) -> float:
        """Seconds since the last snapshot; 0 before the first."""
        snapshot = self._snapshot
        return 0.0 if snapshot is None else self._clock() - snapshot.at

    def count_request(self, path: str, code: int) -> None:
        with self._lock:
            self._requests[path, str(code)] += 1

    def count_reload(self, outcome: str) -> None:
        with self._lock:
            self._reloads[outcome] += 1

    def render(self, accept: str = "", accept_encoding: str = "") -> Rendered:
        """The page in the format and encoding that the reader asks for."""
        encoder, kind = chosen_format(accept)
        packed = takes_gzip(accept_encoding)
        self._asked[kind, packed] = encoder, self._clock()
        body = self._page(kind, packed, encoder)
        return Rendered(body, kind, "gzip" if packed else None)

    def _page(self, kind: str, packed: bool, encoder: Encoder) -> bytes:
        return self._current().page(kind, packed, lambda: encoder(self._registry))

    def _current(self) -> _Written:
        """The pages that are shown now: the last ones, unless what they are made of has changed since."""
        now, snapshot, kept = self._clock(), self._snapshot, self._written
        dated = None if snapshot is None else self._dated(snapshot, now)
        is_new = dated is not kept.of or now > kept.good_until
        if is_new:
            self._of_snapshot = [] if dated is None else self._families(dated, now)
        counts = self._counts()
        if is_new or (counts != kept.counts and not self._rewrites.wait("", now)):
            self._written = kept = _Written(dated, counts, now)
        return kept

    def _families(self, dated: Snapshot, now: float) -> list[Metric]:
        faults = self.faults
        return [*families(fresh(dated, now), faults), *timestamps(dated, faults)]

    def _dated(self, snapshot: Snapshot, now: float) -> Snapshot:
        """The snapshot, dated anew if the node's clock was set back since: that must make no old value look new."""
        if self._unix is None or not snapshot.unix:
            return snapshot
        unix = self._unix() - (now - snapshot.at)
        return (
            replace(snapshot, unix=unix) if unix < snapshot.unix - CLOCK_STEP_SECONDS else snapshot
        )

    def _counts(self) -> Counts:
        """The counts as they are now, whatever becomes of their mappings."""
        live = self._live()
        writes = live.state_writes
        live = live._replace(
            rejected_reports=dict(live.rejected_reports),
            pulls=dict(live.pulls),
            state_writes=None if writes is None else dict(writes),
        )
        with self._lock:
            return Counts(live, dict(self._reloads), self.faults.counts(), len(self._requests))

    def _collected(self) -> Iterable[Metric]:
        """Everything that the page shows, in its order: a metric without a sample is not named."""
        with self._lock:
            requests = dict(self._requests)
        made = [*self._of_snapshot, *_count_families(self._written.counts, requests, self.faults)]
        return (family for family in made if family.samples)


class _Collector(Collector):
    """Gives the library's registry what a function returns."""

    def __init__(self, made: Callable[[], Iterable[Metric]]) -> None:
        self._made = made

    def collect(self) -> Iterable[Metric]:
        return self._made()


def _count_families(
    counts: Counts, requests: Mapping[tuple[str, str], int], faults: Faults
) -> list[Metric]:
    """The metrics that change when something happens to the agent itself."""
    live = counts.live
    build = (__version__, __revision__, platform.python_version())
    made = [
        filled(BUILD_INFO, [(build, 1.0)], faults),
        counted(RELOADS, counts.reloads, faults),
        filled(LAST_RELOAD, [((), float(live.last_reload_successful))], faults),
        counted(FAULTS, counts.faults, faults),
        counted(PULLS, live.pulls, faults),
        counted(REJECTED_REPORTS, live.rejected_reports, faults),
        counted(DROPPED_LOG_LINES, {(): live.dropped_log_lines}, faults),
    ]
    if live.state_writes is not None:
        made.append(counted(STATE_WRITES, live.state_writes, faults))
        made.append(counted(STATE_SET_ASIDE, {(): live.state_set_aside}, faults))
    return [*made, counted(REQUESTS, requests, faults)]
