"""Renews TLS, passwords and headers at every reload, and when one of their files changes."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.server import Server
from ofu_exporter.serving.web_config import WebConfig, read_web_config
from ofu_exporter.settings import Settings
from ofu_exporter.support.small_files import Stamp, stamp

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""Time between two looks at the files, on a thread of their own, so that a disk that hangs blocks nothing else."""


class WebRenewal:
    """Keeps the last web configuration that could be used. A bad one changes nothing, and is logged and counted."""

    def __init__(
        self,
        web: WebConfig,
        reading: ReadAccess,
        server: Server,
        count: Callable[[str], object],
    ) -> None:
        """`count` is called with the outcome of each renewal after a change of a file."""
        self._web = web
        self._reading = reading
        self._server = server
        self._count = count
        self._renewing = asyncio.Lock()
        self._watch: threading.Thread | None = None
        """None before the start."""

    def start(self, settings: Callable[[], Settings]) -> None:
        """Begin to watch the files, for the running event loop."""
        loop = asyncio.get_running_loop()

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
        if self._watch is not None and self._web.files and self._watch.ident is None:
            self._watch.start()

    def _look(self, changed: Callable[[], None], before: Mapping[Path, Stamp]) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            now = self._stamps()
            if any(before[path] != stamp for path, stamp in now.items() if path in before):
                changed()
            before = now

    def _stamps(self) -> dict[Path, Stamp]:
        return {path: stamp(path) for path in self._web.files}

    async def renew(self, settings: Settings) -> None:
        """Read everything again. Raises ConfigError and then keeps the last good configuration."""
        await self._use(
            settings, await asyncio.to_thread(read_web_config, settings.web_config_file)
        )

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
            self._reading.refuse_opening(web)
            await self._server.renew(settings, web)
            self._reading.renew(web)
            self._web = web
            self._watch_files()
