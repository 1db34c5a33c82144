"""Keeps what the agent knows beside its counters: snapshots, reports, what engines served, traces, the state file."""

from __future__ import annotations

import asyncio
import platform
import time
from functools import partial
from typing import TYPE_CHECKING

from ofu_exporter.agent.build import report_policy
from ofu_exporter.agent.change_log import ChangeLog, changes_log
from ofu_exporter.agent.earlier_agent import left_state
from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.jobs.state_writer import StateWriter
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.ofu.tick import State
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.cause_search import CauseSearch
from ofu_exporter.reports.feeds import Feeds
from ofu_exporter.serving.metrics.agent import AgentCounts
from ofu_exporter.serving.page import Page
from ofu_exporter.settings import Configured, Settings
from ofu_exporter.support.logs import dropped_lines
from ofu_exporter.values.snapshot import Snapshot

if TYPE_CHECKING:
    from ofu_exporter.agent.tracing import Tracing


class Records:
    """All of it. It outlives every reload."""

    def __init__(self, settings: Settings) -> None:
        self.page = Page(time.monotonic, self._counts, unix=time.time, path=settings.telemetry_path)
        self.reports = ReportBook(self.page.snapshot, report_policy(settings))
        self.tracing = self._make_tracing(settings)
        self._changes = ChangeLog(time.time(), self.page.faults)
        self._causes = CauseSearch(self.reports.explain)
        self.reports.search = self._causes.ask
        self._feeds = Feeds(self.page.snapshot, self.reports)
        self._node = platform.node()
        self._state_writer = self._make_state_writer(settings)

    def _make_state_writer(self, settings: Settings) -> StateWriter | None:
        if settings.state_file is None:
            return None
        return StateWriter(
            settings.state_file, settings.state_interval, self.page.snapshot, self._node
        )

    def _make_tracing(self, settings: Settings) -> Tracing | None:
        if not settings.traces:
            return None
        from ofu_exporter.agent.tracing import Tracing  # noqa: PLC0415 - most agents take no traces

        return Tracing(settings, self.page.snapshot, self.reports.take_trace)

    def _counts(self) -> AgentCounts:
        """What has happened to the parts that the page does not know."""
        writer = self._state_writer
        return AgentCounts(
            rejected_reports=dict(self.reports.rejected),
            pulls=self._feeds.outcomes(),
            served=self._feeds.served(),
            state_writes=dict(writer.writes) if writer else None,
            state_set_aside=writer.set_aside if writer else 0,
            dropped_log_lines=dropped_lines(),
            traces=self.tracing.counts() if self.tracing else {},
        )

    def left_state(self) -> State:
        """What an earlier agent left in the state file."""
        return left_state(self._state_writer, self.reports, self._feeds)

    def job_book(self) -> JobBook:
        """The jobs of this node, those of the state file included."""
        left_out = partial(self.page.faults.note, "/v1/jobs")
        remembered = self._state_writer.find if self._state_writer else lambda _: ()
        last = self._state_writer.last if self._state_writer else tuple[JobTotals, ...]
        return JobBook(
            self.page.snapshot, self._node, remembered, left_out, self._feeds.served, last
        )

    def start(self) -> None:
        """Start every part's own thread."""
        changes_log.addHandler(self.page.last_lines)
        self._causes.start()
        if self._state_writer is not None:
            self._state_writer.start()
            self.page.read = self._state_writer.wake
        if self.tracing is not None:
            self.tracing.start()

    def apply(self, configured: Configured) -> None:
        """Compare reports, write the state file and pull from engines as the settings say now."""
        self.reports.policy = report_policy(configured.settings)
        if self._state_writer is not None:
            self._state_writer.write_every(configured.settings.state_interval)
        self.run_feeds(configured)

    def run_feeds(self, configured: Configured) -> None:
        """Pull from those engines that the settings name now."""
        self._feeds.run(configured.settings.pull, configured.schedulers)

    def take(self, snapshot: Snapshot) -> None:
        """Log what changed, show the snapshot, and write the end of a job soon."""
        before = self.page.snapshot()
        self._changes.take(snapshot)
        self.page.publish(snapshot)
        if self.tracing is not None:
            self.tracing.look(snapshot)
        if self._state_writer is not None and _any_ended(before, snapshot):
            self._state_writer.wake()

    def stop_feeds(self) -> None:
        self._feeds.stop()

    async def stop(self, seconds: float) -> None:
        """Write the state file for the last time; it may take some seconds."""
        if self._state_writer is not None:
            await asyncio.to_thread(self._state_writer.stop, seconds)


def _any_ended(before: Snapshot | None, after: Snapshot) -> bool:
    running = {view.job.key for view in before.jobs if view.ended is None} if before else set()
    return any(view.ended is not None and view.job.key in running for view in after.jobs)
