"""The agent as a whole: runs its parts until a signal, and reloads its settings."""

from __future__ import annotations

import asyncio
import logging
import platform
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ofu_exporter.agent.attribution import Attribution
from ofu_exporter.agent.build import (
    build_access,
    build_attribution,
    build_cycles,
    build_sampler,
    connection_limit,
    report_policy,
    what_is_sampled,
)
from ofu_exporter.agent.change_log import ChangeLog, changes
from ofu_exporter.agent.earlier_agent import left_state
from ofu_exporter.agent.pause_file import PauseFile
from ofu_exporter.agent.process import on_signal
from ofu_exporter.agent.reloads import Reloads, WebRenewal
from ofu_exporter.agent.sampler import Sampler
from ofu_exporter.agent.systemd import Notifier
from ofu_exporter.errors import ConfigError, DriverReplacedError, OfuError
from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.jobs.state_writer import StateWriter
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.ofu.tick import State
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.cause_search import CauseSearch
from ofu_exporter.reports.feeds import Feeds
from ofu_exporter.reports.owner import gpus_of_reports, stepped
from ofu_exporter.serving.app import create_app
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.hosts import Hosts
from ofu_exporter.serving.listeners import Listeners, given_sockets
from ofu_exporter.serving.metrics.agent import AgentCounts
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.server import Server
from ofu_exporter.serving.web_config import read_web_config
from ofu_exporter.settings import Configured, Settings, host_and_port
from ofu_exporter.support.logs import configure_logging, dropped_lines
from ofu_exporter.support.patience import soon
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ofu_exporter.agent.tracing import Tracing

log = logging.getLogger(__name__)

RELEASE_SECONDS = 0.5
"""Handles must be released within this time after a stop signal."""
RELOAD_SECONDS = 10.0
"""How long the configuration may take to be read."""
PAUSE_CHECK_SECONDS = 1.0
"""Time between two looks for the pause file, where the kernel does not tell of changes."""

_SET_AT_START = {
    ("listen", "telemetry_path"): (
        "a new listen address or telemetry path needs a restart; still serving on {url}"
    ),
    ("report_socket", "report_token_file", "job_tokens", "pod_tokens"): (
        "changed settings of who may report need a restart; the old ones stay in force"
    ),
    ("traces", "trace_socket_folder", "trace_abstract_name", "trace_folder", "trace_below"): (
        "changed settings of traces need a restart; the old ones stay in force"
    ),
    ("nvrx_folder",): "a new folder of NVRx's files needs a restart; still reading the old one",
    ("state_file",): "a new state file needs a restart; still writing the old one",
}
"""Settings that a reload leaves as they are, and what it says then."""


class Daemon:
    """One agent: a sampler, a page and a server."""

    def __init__(
        self,
        configured: Configured,
        load: Callable[[], Configured],
        more: APIRouter | None = None,
    ) -> None:
        """`load` reads the settings anew; it raises ConfigError when they cannot be used. `more` is served as well."""
        self._configured = configured
        self._load = load
        settings = configured.settings
        path = settings.telemetry_path
        self._page = Page(time.monotonic, self._counts, unix=time.time, path=path)
        self._changes = ChangeLog(time.time(), self._page.faults)
        self._node = platform.node()
        self._access = build_access(settings)
        web = read_web_config(settings.web_config_file)
        self._reading = ReadAccess(web)
        self._listeners = Listeners(settings, web, given_sockets())
        self._state_writer = self._make_state_writer(settings)
        self._reports = ReportBook(self._page.snapshot, report_policy(settings))
        self._causes = CauseSearch(self._reports.explain)
        self._reports.search = self._causes.ask
        self._feeds = Feeds(self._page.snapshot, self._reports)
        self._pause_file = self._make_pause_file(settings)
        self._cycles = build_cycles(settings, self._page.snapshot)
        self._attribution, self._sampler = self._build(
            configured, left_state(self._state_writer, self._reports, self._feeds)
        )
        self._authority = settings.tls_client_ca
        self._systemd = Notifier()
        self._stop = asyncio.Event()
        guard = Guard(self._access, self._reports.reject, work=self._reports.work)
        self._hosts = Hosts(settings.allowed_hosts, [host_and_port(settings.listen)[0]], path)
        self._tracing = self._make_tracing(settings)
        app = create_app(self._page, self._book(), self._reports, guard, self._reading, self._hosts)
        if self._tracing is not None:
            app.include_router(self._tracing.routes())
        if more is not None:
            app.include_router(more)
        self._server = Server(app, self._listeners, self._stop, connection_limit())
        self._web = WebRenewal(web, self._reading, self._server, self._page.count_web_reload)
        self._reloads = Reloads(configured.file, self._reload)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._driver_replaced = False

    def _make_state_writer(self, settings: Settings) -> StateWriter | None:
        if settings.state_file is None:
            return None
        return StateWriter(
            settings.state_file, settings.state_interval, self._page.snapshot, self._node
        )

    def _make_tracing(self, settings: Settings) -> Tracing | None:
        if not settings.traces:
            return None
        from ofu_exporter.agent.tracing import Tracing  # noqa: PLC0415 - most agents take no traces

        return Tracing(settings, self._page.snapshot, self._reports.submit)

    def _make_pause_file(self, settings: Settings) -> PauseFile:
        self._page.pause_file = str(settings.pause_file)
        return PauseFile(settings.pause_file, settings.pause_limit)

    def _counts(self) -> AgentCounts:
        """What has happened to the parts that the page does not know."""
        writer = self._state_writer
        return AgentCounts(
            rejected_reports=dict(self._reports.rejected),
            pulls=self._feeds.outcomes(),
            served=self._feeds.served(),
            state_writes=dict(writer.writes) if writer else None,
            state_set_aside=writer.set_aside if writer else 0,
            dropped_log_lines=dropped_lines(),
            traces=self._tracing.counts() if self._tracing else {},
        )

    def _build(self, configured: Configured, state: State) -> tuple[Attribution, Sampler]:
        attribution = build_attribution(configured, self._cycles)
        sampler = build_sampler(configured, self._publish, attribution, state)
        sampler.set_paused(self._pause_file.paused())
        return attribution, sampler

    def _publish(self, snapshot: Snapshot) -> None:
        before = self._page.snapshot()
        snapshot = self._reports.reviewed(snapshot)
        self._sampler.divide(gpus_of_reports(snapshot))
        self._sampler.stepped = stepped(snapshot)
        self._changes.take(snapshot)
        self._page.publish(snapshot)
        if self._tracing is not None:
            self._tracing.look(snapshot)
        if self._state_writer is not None and _any_ended(before, snapshot):
            self._state_writer.wake()
        sources = (snapshot.source, *snapshot.other_sources)
        if self._loop and any(each.reason is Reason.DRIVER_REPLACED for each in sources):
            self._driver_replaced = True
            self._loop.call_soon_threadsafe(self._stop.set)

    def _book(self) -> JobBook:
        left_out = partial(self._page.faults.note, "/v1/jobs")
        remembered = self._state_writer.find if self._state_writer else lambda _: ()
        last = self._state_writer.last if self._state_writer else tuple[JobTotals, ...]
        return JobBook(
            self._page.snapshot, self._node, remembered, left_out, self._feeds.served, last
        )

    @property
    def url(self) -> str:
        return self._listeners.url

    def run(self) -> None:
        """Run until SIGTERM or SIGINT. Raises DriverReplacedError when only a new process can go on."""
        asyncio.run(self._run())
        if self._driver_replaced:
            raise DriverReplacedError

    async def _run(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        changes.addHandler(self._page.last_lines)
        on_signal(loop, signal.SIGTERM, self._stop.set)
        on_signal(loop, signal.SIGINT, self._stop.set)
        on_signal(loop, signal.SIGHUP, self._reloads.ask)
        self._access.start()
        self._hosts.start()
        self._web.start(lambda: self._configured.settings)
        self._causes.start()
        self._attribution.start(self._sampler.cut)
        self._sampler.start()
        if self._state_writer is not None:
            self._state_writer.start()
        threading.Thread(target=self._watch_pause, name="ofu-pause", daemon=True).start()
        if self._cycles is not None:
            self._cycles.start()
        if self._tracing is not None:
            self._tracing.start()
        self._run_feeds()
        serving = asyncio.create_task(self._server.serve())
        duties = (self._reloads.run(), self._reloads.watch(), self._feed_watchdog())
        tending = [asyncio.create_task(duty) for duty in duties]
        log.info("serving on %s", self.url)
        self._log_writers()
        self._systemd.ready(f"serving on {self.url}")
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        self._systemd.stopping()
        self._reading.begin_stop()
        for task in (*tending, stopping):
            task.cancel()
        self._feeds.stop()
        if not await asyncio.to_thread(self._sampler.stop, RELEASE_SECONDS):
            log.warning("a driver call did not return in time; its handle ends with the process")
        await asyncio.to_thread(self._attribution.stop, RELEASE_SECONDS)
        if self._state_writer is not None:
            await asyncio.to_thread(self._state_writer.stop, RELEASE_SECONDS)
        await serving
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def _run_feeds(self) -> None:
        self._feeds.run(self._configured.settings.pull, self._configured.schedulers)

    async def _reload(self) -> None:
        self._systemd.reloading()
        self._page.count_reload(await self._reload_once())
        self._systemd.ready(f"serving on {self.url}")

    async def _reload_once(self) -> str:
        try:
            configured = await soon(RELOAD_SECONDS, "configuration", self._load)
            self._check_not_emptied(configured)
            await self._web.renew(configured.settings)
        except OfuError as error:
            log.error("configuration not applied; the last good one stays in force: %s", error)
            self._log_writers()
            return "failed"
        await asyncio.to_thread(self._apply, configured)
        self._authority = configured.settings.tls_client_ca
        self._log_writers()
        return "applied"

    def _check_not_emptied(self, configured: Configured) -> None:
        """Raise ConfigError for a file that no longer sets anything: most likely it is being written."""
        if configured.file_is_empty and not self._configured.file_is_empty:
            raise ConfigError(
                f"configuration file {configured.file} is empty now and was not before "
                "(to run without its settings, restart the agent)"
            )

    def _log_writers(self) -> None:
        """Log who may report and who may read: a reload can change both."""
        log.info("reports are accepted from: %s", self._access.describe(self._authority))
        if self._authority is None:
            log.info("everybody who can reach %s may read it", self.url)
        else:
            text = "only clients with a certificate from %s may read %s"
            log.info(text, self._authority, self.url)

    def _apply(self, configured: Configured) -> None:
        """Apply new settings. The totals continue."""
        if configured == self._configured:
            log.info("configuration reloaded: nothing changed")
            return
        before, self._configured = self._configured, configured
        settings = configured.settings
        for names, warning in _SET_AT_START.items():
            if any(getattr(settings, name) != getattr(before.settings, name) for name in names):
                log.warning(warning.format(url=self.url))
        self._reports.policy = report_policy(settings)
        self._hosts.allow(settings.allowed_hosts)
        self._pause_file = self._make_pause_file(settings)
        if what_is_sampled(configured) != what_is_sampled(before):
            self._sample_anew(configured)
        self._run_feeds()
        configure_logging(settings.log_format, settings.log_level)
        log.info("configuration applied")

    def _sample_anew(self, configured: Configured) -> None:
        """End every window, and read the new sources for the new owners."""
        if not self._sampler.stop(RELEASE_SECONDS):
            log.warning(
                "a call of the old source did not return in time; its result will be dropped"
            )
        self._attribution.stop(RELEASE_SECONDS)
        self._attribution, self._sampler = self._build(configured, self._sampler.state)
        self._attribution.start(self._sampler.cut)
        self._sampler.start()

    def _watch_pause(self) -> None:
        """Check the pause file on a thread of its own. While a check hangs, the last result stays."""
        while not self._stop.is_set():
            self._sampler.set_paused(self._pause_file.paused())
            time.sleep(PAUSE_CHECK_SECONDS)

    async def _feed_watchdog(self) -> None:
        """Notify systemd's watchdog at each new snapshot. The snapshot shows that the sampler works, this task that
        the loop does."""
        fed_at: float | None = None
        while (limit := self._systemd.watchdog_seconds) is not None:
            await asyncio.sleep(limit / 4)
            snapshot = self._page.snapshot()
            if snapshot is not None and snapshot.at != fed_at:
                fed_at = snapshot.at
                self._systemd.alive()


def _any_ended(before: Snapshot | None, after: Snapshot) -> bool:
    running = {view.job.key for view in before.jobs if view.ended is None} if before else set()
    return any(view.ended is not None and view.job.key in running for view in after.jobs)
