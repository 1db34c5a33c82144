"""A disk that hangs, for whatever program is started with these variables."""

from __future__ import annotations

from pathlib import Path

from tests.doubles.native import build

SOURCE = Path(__file__).with_name("slow_disk.c")


def slow_disk(below: Path, seconds: int, when: Path | None = None) -> dict[str, str]:
    """The variables of a process to which every file below a path seems to be on such a disk.

    With `when` the disk hangs only while there is a file of that name.
    """
    return {
        **({"SLOW_DISK_WHEN": str(when)} if when else {}),
        "LD_PRELOAD": str(build(SOURCE, "libslowdisk.so")),
        "SLOW_DISK_PATH": str(below),
        "SLOW_DISK_SECONDS": str(seconds),
    }
