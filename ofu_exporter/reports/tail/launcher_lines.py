"""Finds restarts in the lines that NVIDIA's fault-tolerant launcher writes between those of the training.

NVRx `shared_utils/profiling.py`: `- Cycle: 1 Event: failure_detected Node: n1 Rank: 0 Time: 2026-03-01 10:00:00 UTC`.
Each node writes such lines, and its failure begins the next cycle.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import NamedTuple

from ofu_exporter.values.instant import Span

_LINE = re.compile(
    r"- Cycle: (\d{1,9}) Event: (\w+) Node: .{0,256}? Time: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) UTC"
)
_BEGUN = ("rendezvous_completed", "worker_start_started", "worker_start_completed")


class _Failure(NamedTuple):
    cycle: int
    at: float
    """Unix time."""


class Restarts:
    """Remembers the failure of a cycle until its workers start; one that they never do is forgotten at the next."""

    def __init__(self) -> None:
        self._failure: _Failure | None = None
        self._told = 0
        """The last cycle whose start was told."""

    def line(self, text: str) -> Span | None:
        """The restart that a line ends, in Unix time: from the failure to the start of the next cycle."""
        match = _LINE.search(text) if " Event: " in text else None
        if match is None:
            return None
        cycle, event, at = int(match[1]), match[2], _unix(match[3])
        if at is None:
            return None
        if cycle < self._told and event == "rendezvous_completed":
            self._told, self._failure = cycle, None  # another launcher, which counts anew
        if event == "failure_detected" and cycle > self._told:
            is_first = self._failure is None or self._failure.cycle < cycle
            self._failure = _Failure(cycle, at) if is_first else self._failure
        if event not in _BEGUN or self._failure is None or cycle < self._failure.cycle:
            return None
        failed_at, self._failure, self._told = self._failure.at, None, cycle
        return Span(failed_at, at) if failed_at < at else None


def _unix(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
