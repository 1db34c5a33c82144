"""Names the metrics of the agent's own process, as every Prometheus client has them, and reads them from /proc."""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Callable
from pathlib import Path

from ofu_exporter.serving.metrics.spec import MetricSpec

PROC = Path("/proc")
READ_SECONDS = 1.0
"""Values are read anew after this time: /proc costs more than the rest of a page."""
VIRTUAL_MEMORY = MetricSpec(
    "process_virtual_memory_bytes", "gauge", (), "Virtual memory size in bytes."
)
RESIDENT_MEMORY = MetricSpec(
    "process_resident_memory_bytes", "gauge", (), "Resident memory size in bytes."
)
START_TIME = MetricSpec(
    "process_start_time_seconds",
    "gauge",
    (),
    "Start time of the process since unix epoch in seconds.",
)
CPU = MetricSpec(
    "process_cpu_seconds", "counter", (), "Total user and system CPU time spent in seconds."
)
OPEN_DESCRIPTORS = MetricSpec("process_open_fds", "gauge", (), "Number of open file descriptors.")
MOST_DESCRIPTORS = MetricSpec(
    "process_max_fds", "gauge", (), "Maximum number of open file descriptors."
)


class ProcessReader:
    """Reads what this process uses, at most once a second."""

    def __init__(self, clock: Callable[[], float], proc: Path = PROC) -> None:
        self._clock = clock
        self._proc = proc
        self._booted = _boot_time(proc)
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._page_bytes = resource.getpagesize()
        self._read_at: float | None = None
        self._values: list[tuple[MetricSpec, float]] = []

    def values(self) -> list[tuple[MetricSpec, float]]:
        """The same list as before until the values are read anew; what cannot be read is left out."""
        now = self._clock()
        if self._read_at is None or not 0 <= now - self._read_at < READ_SECONDS:
            self._read_at = now
            self._values = [*self._used(), *self._descriptors()]
        return self._values

    def _used(self) -> list[tuple[MetricSpec, float]]:
        try:
            fields = (self._proc / "self" / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return []
        found = [
            (VIRTUAL_MEMORY, float(fields[20])),
            (RESIDENT_MEMORY, float(fields[21]) * self._page_bytes),
            (CPU, (float(fields[11]) + float(fields[12])) / self._ticks),
        ]
        if self._booted is not None:
            found.insert(2, (START_TIME, self._booted + float(fields[19]) / self._ticks))
        return found

    def _descriptors(self) -> list[tuple[MetricSpec, float]]:
        try:
            count = len(os.listdir(self._proc / "self" / "fd"))
        except OSError:
            return []
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        limit = math.inf if most == resource.RLIM_INFINITY else float(most)
        return [(OPEN_DESCRIPTORS, float(count)), (MOST_DESCRIPTORS, limit)]


def _boot_time(proc: Path) -> float | None:
    """Unix time at which the node was started; None where /proc does not say."""
    try:
        lines = (proc / "stat").read_bytes().splitlines()
    except OSError:
        return None
    times = [float(line.split()[1]) for line in lines if line.startswith(b"btime ")]
    return times[0] if times else None
