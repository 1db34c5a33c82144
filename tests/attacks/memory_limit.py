"""A control group with a memory limit like that of the chart's pods, of version 2 or 1, whichever the machine has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
INSIDE = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """One group, which stands below the root of its controller."""

    folder: Path
    limit: str
    peak: str
    kills: str
    """Names of files: the limit and the peak in bytes, and where a line `oom_kill N` stands."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The same command, whose process is in the group from its begin."""
        return ["/bin/sh", "-c", INSIDE, str(self.folder), *words]

    def peak_mib(self) -> float:
        """The most that was charged at once: pages of files and what the kernel keeps for sockets are in it."""
        return int((self.folder / self.peak).read_text()) / 2**20

    def oom_kills(self) -> int:
        found = re.search(r"^oom_kill (\d+)$", (self.folder / self.kills).read_text(), re.M)
        return int(found[1]) if found else 0


@contextmanager
def memory_limit(mib: int, name: str = "ofu-attacks") -> Iterator[MemoryLimit]:
    """A group until the block ends. Raises OSError where none can be made: it needs root, and a controller."""
    group = _of_version_2(name) if (ROOT / "cgroup.controllers").exists() else _of_version_1(name)
    group.folder.mkdir()
    try:
        (group.folder / group.limit).write_text(str(mib << 20))
        yield group
    finally:
        group.folder.rmdir()


def _of_version_2(name: str) -> MemoryLimit:
    return MemoryLimit(ROOT / name, "memory.max", "memory.peak", "memory.events")


def _of_version_1(name: str) -> MemoryLimit:
    folder = ROOT / "memory" / name
    return MemoryLimit(
        folder, "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"
    )
