"""The agent as a whole: runs its parts until a signal, and reloads its settings."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ofu_exporter.agent.attribution import Attribution
from ofu_exporter.agent.build import (
    build_attribution,
    build_cycles,
    build_sampler,
    custom_rows,
    what_is_sampled,
)
from ofu_exporter.agent.front import Front
from ofu_exporter.agent.pause_file import PauseFile
from ofu_exporter.agent.process import on_signal
from ofu_exporter.agent.records import Records
from ofu_exporter.agent.reloads import Reloads
from ofu_exporter.agent.sampler import Sampler
from ofu_exporter.agent.systemd import Notifier
from ofu_exporter.errors import ConfigError, DriverReplacedError, OfuError
from ofu_exporter.ofu.tick import State
from ofu_exporter.reports.owner import gpus_of_reports, stepped
from ofu_exporter.settings import Configured, Settings
from ofu_exporter.support.logs import configure_logging
from ofu_exporter.support.patience import soon
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot

if TYPE_CHECKING:
    from fastapi import APIRouter


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
    """One agent: a sampler, what it keeps, and a server."""

    def __init__(
        self, configured: Configured, load: Callable[[], Configured], more: APIRouter | None = None
    ) -> None:
        """`load` reads the settings anew; it raises ConfigError when they cannot be used. `more` is served as well."""
        self._configured = configured
        self._load = load
        self._stop = asyncio.Event()
        self._records = Records(configured.settings)
        self._front = Front(configured.settings, self._records, self._stop, more)
        self._pause_file = self._make_pause_file(configured.settings)
        self._cycles = build_cycles(configured.settings, self._records.page.snapshot)
        self._attribution, self._sampler = self._build(configured, self._records.left_state())
        self._systemd = Notifier()
        self._reloads = Reloads(configured.file, self._reload)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._driver_replaced = False

    def _make_pause_file(self, settings: Settings) -> PauseFile:
        self._records.page.pause_file = str(settings.pause_file)
        return PauseFile(settings.pause_file, settings.pause_limit)

    def _build(self, configured: Configured, state: State) -> tuple[Attribution, Sampler]:
        attribution = build_attribution(configured, self._cycles)
        sampler = build_sampler(configured, self._publish, attribution, state)
        sampler.set_paused(self._pause_file.paused())
        return attribution, sampler

    def _publish(self, snapshot: Snapshot) -> None:
        snapshot = self._records.reports.reviewed(snapshot)
        self._sampler.divide(gpus_of_reports(snapshot))
        self._sampler.stepped = stepped(snapshot)
        self._records.take(snapshot)
        sources = (snapshot.source, *snapshot.other_sources)
        if self._loop and any(each.reason is Reason.DRIVER_REPLACED for each in sources):
            self._driver_replaced = True
            self._loop.call_soon_threadsafe(self._stop.set)

    @property
    def url(self) -> str:
        return self._front.url

    def run(self) -> None:
        """Run until SIGTERM or SIGINT. Raises DriverReplacedError when only a new process can go on."""
        asyncio.run(self._run())
        if self._driver_replaced:
            raise DriverReplacedError

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        serving = self._start(self._loop)
        duties = (self._reloads.run(), self._reloads.watch(), self._feed_watchdog())
        tending = [asyncio.create_task(duty) for duty in duties]
        log.info("serving on %s", self.url)
        self._front.log_writers()
        self._systemd.ready(f"serving on {self.url}")
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        self._systemd.stopping()
        self._front.begin_stop()
        for task in (*tending, stopping):
            task.cancel()
        await self._end()
        await serving
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def _start(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
        """Start every part; the task is the server's."""
        on_signal(loop, signal.SIGTERM, self._stop.set)
        on_signal(loop, signal.SIGINT, self._stop.set)
        on_signal(loop, signal.SIGHUP, self._reloads.ask)
        self._records.start()
        self._attribution.start(self._sampler.cut)
        self._sampler.start()
        threading.Thread(target=self._watch_pause, name="ofu-pause", daemon=True).start()
        if self._cycles is not None:
            self._cycles.start()
        self._records.run_feeds(self._configured)
        return self._front.start(lambda: self._configured.settings)

    async def _end(self) -> None:
        """Let go of the GPUs, then write what is kept."""
        self._records.stop_feeds()
        if not await asyncio.to_thread(self._sampler.stop, RELEASE_SECONDS):
            log.warning("a driver call did not return in time; its handle ends with the process")
        await asyncio.to_thread(self._attribution.stop, RELEASE_SECONDS)
        await self._records.stop(RELEASE_SECONDS)

    async def _reload(self) -> None:
        self._systemd.reloading()
        outcome = "failed"
        try:
            outcome = await self._reload_once()
        finally:
            self._records.page.count_reload(outcome)
            self._systemd.ready(f"serving on {self.url}")

    async def _reload_once(self) -> str:
        try:
            configured = await soon(RELOAD_SECONDS, "configuration", self._load)
            self._check_not_emptied(configured)
            custom_rows(configured.settings.gpus)  # raises before anything is stopped
            await self._front.renew(configured.settings)
        except OfuError as error:
            log.error("configuration not applied; the last good one stays in force: %s", error)
            self._front.log_writers()
            return "failed"
        await asyncio.to_thread(self._apply, configured)
        self._front.log_writers()
        return "applied"

    def _check_not_emptied(self, configured: Configured) -> None:
        """Raise ConfigError for a file that no longer sets anything: most likely it is being written."""
        if configured.file_is_empty and not self._configured.file_is_empty:
            raise ConfigError(
                f"configuration file {configured.file} is empty now and was not before "
                "(to run without its settings, restart the agent)"
            )

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
        self._front.apply(settings)
        self._pause_file = self._make_pause_file(settings)
        if what_is_sampled(configured) != what_is_sampled(before):
            self._sample_anew(configured)
        self._records.apply(configured)
        configure_logging(settings.log_format, settings.log_level)
        log.info("configuration applied")

    def _sample_anew(self, configured: Configured) -> None:
        """End every window, and read the new sources for the new owners."""
        if not self._sampler.stop(RELEASE_SECONDS):
            log.warning(
                "a call of the old source did not return in time; its result will be dropped"
            )
        earlier, sampler = self._attribution, self._sampler
        earlier.stop(RELEASE_SECONDS)
        self._attribution, self._sampler = self._build(configured, sampler.state)
        self._attribution.go_on_from(earlier, sampler.state.owners.ownership)
        self._sampler.close_left_of(sampler)
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
            snapshot = self._records.page.snapshot()
            if snapshot is not None and snapshot.at != fed_at:
                fed_at = snapshot.at
                self._systemd.alive()
