"""Watches files on a thread of its own, so that a disk that hangs blocks nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ofu_exporter.support.small_files import Stamp, stamp

CHECK_SECONDS = 1.0
"""Time between two checks."""


class FileWatch:
    def __init__(self, files: Callable[[], Iterable[Path]], changed: Callable[[], object]) -> None:
        """`files` says what is watched now; `changed` is called on the watch's own thread."""
        self._files = files
        self._changed = changed
        self._last = self._stamps()

    def start(self) -> None:
        """Begin to watch, until the process ends."""
        threading.Thread(target=self._run, name="file-watch", daemon=True).start()

    def look(self) -> None:
        now = self._stamps()
        before, self._last = self._last, now
        if any(before[path] != stamp for path, stamp in now.items() if path in before):
            self._changed()

    def _stamps(self) -> dict[Path, Stamp]:
        return {path: stamp(path) for path in self._files()}

    def _run(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            self.look()
