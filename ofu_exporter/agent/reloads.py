"""Reloads the settings at SIGHUP and when their file changes, and the web configuration when one of its files does."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from ofu_exporter.errors import ConfigError, HungError
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.server import Server
from ofu_exporter.serving.tls import tls_of_settings
from ofu_exporter.serving.web_config import WebConfig, read_web_config
from ofu_exporter.settings import Settings
from ofu_exporter.support.patience import soon
from ofu_exporter.support.small_files import READ_SECONDS, Stamp, stamp

log = logging.getLogger(__name__)

FILE_CHECK_SECONDS = 5.0
"""Time between two checks of the configuration file for changes."""
REST_SECONDS = 1.0
"""Time from the end of a reload to the next one. Without it, an endless stream of signals would use up a core and
fill the log."""


class Reloads:
    """Collects requests for a reload, and decides when it comes: one at a time, and at most one per second.

    Any number of requests during a reload cause one more.
    """

    def __init__(self, file: Path | None, reload: Callable[[], Awaitable[None]]) -> None:
        self._file = file
        self._reload = reload
        self._asked = asyncio.Event()

    def ask(self) -> None:
        self._asked.set()

    async def run(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self._reload()
            except Exception:  # the next one must still come
                log.exception("configuration applied in part at most; restart the agent")
            await asyncio.sleep(REST_SECONDS)

    async def watch(self) -> None:
        if self._file is None:
            return
        before, hangs = await self._stamp(self._file, None, hangs=False)
        while True:
            await asyncio.sleep(FILE_CHECK_SECONDS)
            now, hangs = await self._stamp(self._file, before, hangs)
            if now != before:
                before = now
                self.ask()

    async def _stamp(self, path: Path, before: Stamp, hangs: bool) -> tuple[Stamp, bool]:
        """The file's stamp, and whether its file system hangs. During a hang, the stamp is the last one that was
        read."""
        try:
            now = await soon(READ_SECONDS, f"time of {path}", partial(stamp, path))
        except HungError:
            if not hangs:
                log.error(
                    "configuration file %s: its file system does not answer; the settings stay as they are",
                    path,
                )
            return before, True
        return now, False


WEB_CHECK_SECONDS = 1.0
"""Time between two looks at the files, on a thread of their own, so that a disk that hangs blocks nothing else."""


class WebRenewal:
    """Renews TLS, passwords and headers at every reload, and when one of their files changes.

    Keeps the last web configuration that could be used. A bad one changes nothing, and is logged and counted.
    """

    def __init__(
        self,
        web: WebConfig,
        read_access: ReadAccess,
        server: Server,
        count: Callable[[str], object],
    ) -> None:
        """`count` is called with the outcome of each renewal after a change of a file."""
        self._read_access = read_access
        self._server = server
        self._count = count
        self._renewing = asyncio.Lock()
        self._watch: threading.Thread | None = None
        """None before the start."""
        self._files: tuple[Path, ...] = web.files
        """Every file whose change changes something: the web configuration's, and those of TLS by settings."""

    def start(self, settings: Callable[[], Settings]) -> None:
        """Begin to watch the files, for the running event loop."""
        loop = asyncio.get_running_loop()
        self._files += _tls_files(settings())

        def changed() -> None:
            try:
                web = read_web_config(settings().web_config_file)
            except ConfigError as error:
                loop.call_soon_threadsafe(self._failed, error)
            else:
                asyncio.run_coroutine_threadsafe(self._take(settings(), web), loop)

        self._watch = threading.Thread(
            target=self._look, args=(changed, self._stamps()), name="file-watch", daemon=True
        )
        self._watch_files()

    def _watch_files(self) -> None:
        """Start the watching thread once there is a file to watch."""
        if self._watch is not None and self._files and self._watch.ident is None:
            self._watch.start()

    def _look(self, changed: Callable[[], None], before: Mapping[Path, Stamp]) -> None:
        while True:
            time.sleep(WEB_CHECK_SECONDS)
            now = self._stamps()
            if any(before[path] != stamp for path, stamp in now.items() if path in before):
                changed()
            before = now

    def _stamps(self) -> dict[Path, Stamp]:
        return {path: stamp(path) for path in self._files}

    async def renew(self, settings: Settings) -> None:
        """Read everything again. Raises ConfigError and then keeps the last good configuration."""
        web = await asyncio.to_thread(read_web_config, settings.web_config_file)
        await self._use(settings, web)

    async def _take(self, settings: Settings, web: WebConfig) -> None:
        try:
            await self._use(settings, web)
        except ConfigError as error:
            self._failed(error)
        else:
            self._count("applied")

    def _failed(self, error: ConfigError) -> None:
        log.error("web configuration not applied; the last good one stays in force: %s", error)
        self._count("failed")

    async def _use(self, settings: Settings, web: WebConfig) -> None:
        async with self._renewing:
            self._read_access.refuse_opening(web)
            await self._server.renew(settings, web)
            self._read_access.renew(web)
            self._files = web.files + _tls_files(settings)
            self._watch_files()


def _tls_files(settings: Settings) -> tuple[Path, ...]:
    tls = tls_of_settings(settings)
    return tls.files if tls else ()
