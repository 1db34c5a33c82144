"""What a process uses, from /proc, for the measurements."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """CPU time of its threads, those that have ended too, to the nanosecond."""
    return time.clock_gettime((~pid << 3) | 2)  # the clock that clock_getcpuclockid(3) gives


def resident_mib(pid: int, field: str = "VmRSS") -> float:
    """Resident memory; the most there ever was with `VmHWM`."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) / 1024


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def mapped_mib(pid: int) -> Counter[str]:
    """Resident memory by what it is: the interpreter, the C library's heap, Python's objects, and each library."""
    found: Counter[str] = Counter()
    name = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        start = re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+\s*(.*)", line)
        if start:
            name = _kind(start[1])
        elif line.startswith("Rss:"):
            found[name] += int(line.split()[1]) / 1024  # type: ignore[assignment]
    return found


def _kind(path: str) -> str:
    file = Path(path).name
    if not path:
        return "Python's objects, stacks of threads"
    if path.startswith("["):
        return "heap of the C library" if path == "[heap]" else "kernel's pages"
    if file.startswith(("python", "libpython")):
        return "interpreter"
    return file.split(".")[0]
