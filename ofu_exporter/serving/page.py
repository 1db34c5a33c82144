"""Keeps the page of metrics: written and packed once per snapshot, so that a scrape finds its bytes there."""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.registry import Collector

from ofu_exporter.ofu.tick import CLOCK_STEP_SECONDS
from ofu_exporter.serving.collector import of_counts, of_snapshot
from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.history import History
from ofu_exporter.serving.metrics.agent import AgentCounts
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
MOST_AHEAD = 3
"""Most formats that are written ahead: those that were asked for most often, and more than once."""


class Rendered(NamedTuple):
    """A rendered page, with its content type and encoding."""

    body: bytes
    content_type: str
    encoding: str | None

    @property
    def headers(self) -> dict[str, str]:
        """Of an answer that has the page."""
        packed = {"content-encoding": self.encoding} if self.encoding else {}
        return {"content-type": self.content_type, "vary": "Accept, Accept-Encoding", **packed}


class _Asked(NamedTuple):
    """How a format is written, when it was asked for last, and how often."""

    encoder: Encoder
    at: float
    times: int


class _Written(NamedTuple):
    """The pages of one moment."""

    of: Snapshot | None
    happened: object
    """What else had happened."""
    unix: float
    """When that was made, by the node's clock as it was set when the pages were written."""
    good_until: float
    """When a window becomes too old, or the page itself."""
    families: list[Metric]
    """Of the snapshot."""
    pages: dict[tuple[str, bool], bytes]
    """By content type, and by whether they are packed; each is written when it is first asked for."""


class Page(Collector):
    """The last snapshot as the page of metrics, in every format that is asked for.

    A scrape touches no driver, no disk of the node's and no lock that the sampler holds for long. It shows how many
    requests there were when the page was written: at the last snapshot, or when something else happened to the agent.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        counts: Callable[[], AgentCounts] = AgentCounts,
        process: bool = True,
        unix: Callable[[], float] | None = None,
        path: str = METRICS,
    ) -> None:
        """`counts` is called at each scrape. `process` is whether the page has the metrics of this process.

        `path` is where the page is, besides /metrics.
        `unix` is the node's clock; without it nobody notices when that is set between two snapshots.
        """
        self.path = path
        self.pause_file = ""
        """The file that the agent looks for to let go of the GPUs, as it is told to whoever pauses it."""
        self.certificate_expires: Callable[[], float | None] = lambda: None
        """Unix time at which the certificate that is served ends; None without one."""
        self.read: Callable[[], object] = lambda: None
        """Called when a snapshot's page is read first: a counter that Prometheus has must not fall, even if this
        process is killed."""
        self._read_of: Snapshot | None = None
        self._clock = clock
        self._unix = unix
        self._counts = counts
        self._snapshot: Snapshot | None = None
        self._asked: dict[tuple[str, bool], _Asked] = {}
        self._written = _Written(None, None, 0.0, -math.inf, [], {})
        self._rewrites: RateLimit[str] = RateLimit(REWRITES_PER_SECOND, REWRITES_AT_ONCE)
        # Counted on the event loop alone; another thread copies them.
        self._requests: Counter[tuple[str, str]] = Counter()
        self._reloads: Counter[str] = Counter({"applied": 0, "failed": 0})
        self._out_of_force: set[str] = set()
        """Which files have something that could not be applied when they were last read."""
        self.faults = Faults()
        """Errors that cost a series or an answer."""
        self._registry = CollectorRegistry()
        self._registry.register(self)
        if process:
            ProcessCollector(registry=self._registry)
        self.history = History(self.faults)
        """The last hour of what was published."""
        self.last_lines = LastLines()
        """The last lines of the loggers that it is added to."""

    def publish(self, snapshot: Snapshot) -> None:
        """Show a snapshot from now on. What is asked for again and again is written here, ahead of the scrape."""
        self._snapshot = snapshot
        self.history.take(snapshot)
        now, asked = self._clock(), dict(self._asked)
        for key in [key for key, each in asked.items() if now - each.at > FORGET_SECONDS]:
            del asked[key], self._asked[key]
        hot = sorted(asked.items(), key=lambda item: item[1].times, reverse=True)[:MOST_AHEAD]
        for (kind, packed), each in hot:
            if each.times > 1:
                self._page(kind, packed, each.encoder)

    def snapshot(self) -> Snapshot | None:
        """The last snapshot, without the windows that have become too old since."""
        snapshot = self._snapshot
        return None if snapshot is None else snapshot.fresh(self._clock())

    def snapshot_age(self) -> float:
        """Seconds since the last snapshot; 0 before the first."""
        snapshot = self._snapshot
        return 0.0 if snapshot is None else self._clock() - snapshot.at

    def count_request(self, path: str, code: int) -> None:
        self._requests[path, str(code)] += 1

    def count_reload(self, outcome: str) -> None:
        """Count a reload of all settings, which reads the web configuration as well."""
        if outcome == "applied":
            self._out_of_force.clear()
        else:
            self._out_of_force.add("settings")
        self._reloads[outcome] += 1

    def count_web_reload(self, outcome: str) -> None:
        """Count a renewal of the web configuration alone."""
        self._out_of_force.discard("web")
        if outcome == "failed":
            self._out_of_force.add("web")
        self._reloads[outcome] += 1

    def render(self, accept: str = "", accept_encoding: str = "") -> Rendered:
        """The page in the format and encoding that the reader asks for."""
        encoder, kind = chosen_format(accept)
        packed = takes_gzip(accept_encoding)
        before = self._asked.get((kind, packed))
        times = 1 + (before.times if before else 0)
        self._asked[kind, packed] = _Asked(encoder, self._clock(), times)
        body = self._page(kind, packed, encoder)
        if self._read_of is not self._snapshot:
            self._read_of = self._snapshot
            self.read()
        return Rendered(body, kind, "gzip" if packed else None)

    def _page(self, kind: str, packed: bool, encoder: Encoder) -> bytes:
        pages = self._current().pages
        if (kind, packed) not in pages:
            plain = pages.get((kind, False)) or encoder(self._registry)
            pages[kind, False] = plain
            pages[kind, packed] = gzip.compress(plain, 1, mtime=0) if packed else plain
        return pages[kind, packed]

    def _current(self) -> _Written:
        """The pages that are shown now: the last ones, unless what they are made of has changed since."""
        now, snapshot, written = self._clock(), self._snapshot, self._written
        unix = 0.0 if snapshot is None else self._made_at(snapshot, now)
        is_set_back = unix < written.unix - CLOCK_STEP_SECONDS
        is_new = snapshot is not written.of or now > written.good_until or is_set_back
        families, good_until = written.families, written.good_until
        if is_new:
            families = list(self._families(snapshot, unix, now))
            ends = (view.fresh_until for view in snapshot.gpus if view.window) if snapshot else ()
            good_until = min([now + RENEW_SECONDS, *(end for end in ends if end >= now)])
        happened = (self._counts(), dict(self._reloads), self.faults.counts(), len(self._requests))
        if is_new or (happened != written.happened and not self._rewrites.ask("", now)):
            written = _Written(snapshot, happened, unix, good_until, families, {})
            self._written = written
        return written

    def _families(self, snapshot: Snapshot | None, unix: float, now: float) -> Iterable[Metric]:
        if snapshot is None:
            return ()
        return of_snapshot(replace(snapshot, unix=unix).fresh(now), self.faults)

    def _made_at(self, snapshot: Snapshot, now: float) -> float:
        """The Unix time of a snapshot, by the node's clock if that was set back since.

        Setting it must make no old value look new.
        """
        if self._unix is None or not snapshot.unix:
            return snapshot.unix
        unix = self._unix() - (now - snapshot.at)
        return unix if unix < snapshot.unix - CLOCK_STEP_SECONDS else snapshot.unix

    def collect(self) -> Iterable[Metric]:
        """Everything that the page shows, in its order: a metric without a sample is not named."""
        counts = self._counts()._replace(
            reloads=dict(self._reloads),
            requests=dict(self._requests),
            faults=self.faults.counts(),
            last_reload_successful=not self._out_of_force,
            certificate_expires=self.certificate_expires(),
        )
        families = [*self._written.families, *of_counts(counts, self.faults)]
        return (family for family in families if family.samples)
