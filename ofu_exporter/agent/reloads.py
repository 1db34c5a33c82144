"""Reloads the settings at SIGHUP and when their file changes: one reload at a time, and at most one per second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from ofu_exporter.errors import HungError
from ofu_exporter.support.patience import soon
from ofu_exporter.support.small_files import READ_SECONDS, Stamp, stamp

log = logging.getLogger(__name__)

FILE_CHECK_SECONDS = 5.0
"""Time between two checks of the configuration file for changes."""
REST_SECONDS = 1.0
"""Time from the end of a reload to the next one. Without it, an endless stream of signals would use up a core and
fill the log."""


class Reloads:
    """Collects requests for a reload, and decides when it comes. Any number of requests during a reload cause one
    more."""

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
            await self._reload()
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
