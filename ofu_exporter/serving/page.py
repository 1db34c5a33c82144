"""Keeps the page of metrics: rendered once per snapshot, format and packing, and completed at each scrape."""

from __future__ import annotations

import platform
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ofu_exporter import __revision__, __version__
from ofu_exporter.ofu.freshness import fresh, stale
from ofu_exporter.ofu.tick import CLOCK_STEP_SECONDS
from ofu_exporter.serving.event_log import EventLog
from ofu_exporter.serving.families import counted, families, filled, timestamps
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
from ofu_exporter.serving.metrics.process import ProcessReader
from ofu_exporter.serving.metrics.spec import MetricSpec
from ofu_exporter.serving.packing import PagePart, joined, packed
from ofu_exporter.serving.text_format import END, MetricFamily, TextFormat, chosen_format, written
from ofu_exporter.values.snapshot import Snapshot

METRICS = "/metrics"
GZIP_FROM_BYTES = 1024


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


class _KeptParts:
    """A part of the page in every format that was asked for, as long as what it is made of stays the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: object = None
        self._parts: dict[TextFormat, PagePart] = {}

    def part(self, of: object, form: TextFormat, make: Callable[[], bytes]) -> PagePart:
        """The part. It is made anew when what it is made of has changed."""
        with self._lock:
            if self._of != of:
                self._of, self._parts = of, {}
            parts = self._parts
        if form not in parts:
            parts[form] = PagePart(make())
        return parts[form]


class Page:
    """The last snapshot, rendered once per format and completed at each scrape with counts.

    A scrape touches no driver, no disk of the node's and no lock that the sampler holds for long.
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
        self._counts = counts
        self._snapshot: Snapshot | None = None
        self._asked: dict[TextFormat, bool] = {}
        """The formats that were asked for, and whether packed."""
        self._of_snapshot, self._of_counts, self._of_process = (_KeptParts() for _ in range(3))
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._reloads: Counter[str] = Counter({"applied": 0, "failed": 0})
        self._process = ProcessReader(clock) if process else None
        self.faults = Faults()
        """Errors that cost a series or an answer."""
        self.history = History(self.faults)
        """The last hour of what was published."""
        self.events = EventLog(unix() if unix else 0.0, self.faults)
        """What happened from one snapshot to the next."""

    def publish(self, snapshot: Snapshot) -> None:
        """Show a snapshot from now on. What was asked for before is rendered here, ahead of the scrape."""
        self._snapshot = snapshot
        self.history.take(snapshot)
        self.events.take(snapshot)
        for form, is_packed in list(self._asked.items()):
            part = self._snapshot_part(form)
            if is_packed:
                part.packed  # noqa: B018 - it is kept

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
        form = chosen_format(accept)
        parts = self._parts(form)
        takes_packed = "gzip" in accept_encoding
        self._asked[form] = self._asked.get(form, False) or takes_packed
        if takes_packed and sum(len(part.plain) for part in parts) >= GZIP_FROM_BYTES:
            return Rendered(packed(parts), form.content_type, "gzip")
        return Rendered(joined(parts), form.content_type, None)

    def _parts(self, form: TextFormat) -> list[PagePart]:
        """The parts of the page: what seldom changes comes first, and what changes with each scrape last."""
        with self._lock:
            reloads, requests = dict(self._reloads), dict(self._requests)
        parts = [self._snapshot_part(form)]
        counts = (reloads, self.faults.counts(), _copied(self._counts()))
        parts.append(
            self._of_counts.part(counts, form, lambda: self._text(_count_families(*counts), form))
        )
        if self._process is not None:
            values = self._process.values()
            used = (filled(spec, [((), value)]) for spec, value in values)
            parts.append(self._of_process.part(values, form, lambda: self._text(used, form)))
        last = self._text([counted(REQUESTS, requests)], form)
        return [*parts, PagePart(last + END if form.is_openmetrics else last)]

    def _snapshot_part(self, form: TextFormat) -> PagePart:
        now, snapshot = self._clock(), self._snapshot
        if snapshot is None:
            return PagePart(b"")
        dated = self._dated(snapshot, now)

        def text() -> bytes:
            shown = fresh(dated, now)
            return self._text([*families(shown, self.faults), *timestamps(dated)], form)

        return self._of_snapshot.part((snapshot, dated.unix, stale(snapshot, now)), form, text)

    def _text(self, made: Iterable[MetricFamily], form: TextFormat) -> bytes:
        return b"".join([written(family, form, self.faults.note) for family in made])

    def _dated(self, snapshot: Snapshot, now: float) -> Snapshot:
        """The snapshot, dated anew if the node's clock was set back since: that must make no old value look new."""
        if self._unix is None or not snapshot.unix:
            return snapshot
        unix = self._unix() - (now - snapshot.at)
        return (
            replace(snapshot, unix=unix) if unix < snapshot.unix - CLOCK_STEP_SECONDS else snapshot
        )


def _copied(counts: LiveCounts) -> LiveCounts:
    """The counts as they are now, whatever becomes of the mappings."""
    writes = counts.state_writes
    return counts._replace(
        rejected_reports=dict(counts.rejected_reports),
        pulls=dict(counts.pulls),
        state_writes=None if writes is None else dict(writes),
    )


def _count_families(
    reloads: Mapping[str, int], faults: Mapping[str, int], counts: LiveCounts
) -> list[MetricFamily]:
    """The metrics that change when something happens to the agent itself."""
    made = [
        filled(BUILD_INFO, [((__version__, __revision__, platform.python_version()), 1.0)]),
        _by_word(RELOADS, reloads),
        filled(LAST_RELOAD, [((), float(counts.last_reload_successful))]),
        _by_word(FAULTS, faults),
        counted(PULLS, counts.pulls),
        _by_word(REJECTED_REPORTS, counts.rejected_reports),
        counted(DROPPED_LOG_LINES, {(): counts.dropped_log_lines}),
    ]
    if counts.state_writes is not None:
        made.append(_by_word(STATE_WRITES, counts.state_writes))
        made.append(counted(STATE_SET_ASIDE, {(): counts.state_set_aside}))
    return made


def _by_word(spec: MetricSpec, counts: Mapping[str, int]) -> MetricFamily:
    return counted(spec, {(word,): count for word, count in counts.items()})
