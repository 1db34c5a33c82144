"""Keeps an error of this program small: it costs one series or one answer, is counted, and has a line in the log."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from ofu_exporter.support.rate_limit import RateLimit
from ofu_exporter.values.text import shown

log = logging.getLogger(__name__)

LINE_SECONDS = 60.0
"""Shortest time between two lines about one place."""
MOST_CHARS = 200
"""Most characters of an error in a line: the rest may be anybody's text."""

ItemT = TypeVar("ItemT")
MadeT = TypeVar("MadeT")


class Faults:
    """Errors of this program, by the series or path they cost. Any thread may call it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: RateLimit[str] = RateLimit(1 / LINE_SECONDS, burst=1)
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)

    def note(self, where: str, error: Exception) -> None:
        """Count an error, and log one line of it where the last one of its place is a while ago."""
        with self._lock:
            self._counts[where] += 1
            if self._lines.ask(where, self._clock()):
                return
        text = shown(f"{type(error).__name__}: {error}"[:MOST_CHARS])[:MOST_CHARS]
        log.error("%s: an error of this program, report it: %s (%s)", where, text, _place(error))

    def made(
        self, where: str, make: Callable[[ItemT], MadeT], items: Iterable[ItemT]
    ) -> list[MadeT]:
        """What is made of each item; an item of which nothing can be made is left out."""
        results = []
        for item in items:
            try:
                results.append(make(item))
            except Exception as error:  # noqa: BLE001 - noted; the other items are worth more than its trace
                self.note(where, error)
        return results


def _place(error: Exception) -> str:
    """The file and line of our own code that raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "ofu_exporter" in frame.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "no place"
