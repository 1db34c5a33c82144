"""Reads traces in a process of its own, for an agent: `python -m ofu_exporter.traces.reader UID FILE...`.

The files are a user's, and may be anything. Each is opened without following a link, has to be a regular file of that
user and no larger than a node reads, and the process has limits of memory and CPU time. It prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ofu_exporter.errors import ConfigError
from ofu_exporter.traces import job
from ofu_exporter.values.trace import ON_A_NODE, reported

MEMORY_BYTES = 192 << 20
"""Address space, of which the interpreter and its modules take 60 MiB."""
CPU_SECONDS = 90
MOST_OF_A_FRAME = 1 << 16
_LASTS = re.compile(rb'"ph"\s*:\s*"X"')


def read(uid: int, files: Sequence[str]) -> dict[str, Any]:
    """`trace` as a report has it, where there was work of a GPU, and `unread`: why files were not read, by name."""
    unread, paths = {}, {}
    for name in files:
        try:
            paths[f"/proc/self/fd/{_opened(name, uid)}"] = Path(name).name
        except (OSError, ValueError) as error:
            unread[Path(name).name] = getattr(error, "strerror", None) or str(error)
    if not paths:
        return {"unread": unread}
    try:
        result, _ = job.read([Path(each) for each in paths], ON_A_NODE)
    except (ConfigError, MemoryError) as error:
        reason = str(error) or "it takes more memory than a node gives"
        return {"unread": {**unread, **{name: _named(reason, paths) for name in paths.values()}}}
    unread |= {paths.get(path, path): _named(why, paths) for path, why in result.unread.items()}
    is_empty = not result.ranks and all(_has_no_events(Path(each)) for each in paths)
    return {**reported(result), "unread": unread, "is_empty": is_empty}


def _has_no_events(path: Path) -> bool:
    """Whether it is a frame alone: nothing in it lasts."""
    with path.open("rb") as file:
        text = file.read(MOST_OF_A_FRAME + 1)
    return len(text) <= MOST_OF_A_FRAME and not _LASTS.search(text)


def _opened(name: str, uid: int) -> int:
    """A descriptor of a file. Raises OSError and ValueError for what is not a user's trace."""
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is no regular file")
    if status.st_uid != uid:
        raise ValueError(f"it belongs to user {status.st_uid} and not to the process's, {uid}")
    if status.st_size > ON_A_NODE.unpacked_bytes:
        raise ValueError(f"it has {status.st_size} bytes, more than a node reads")
    return handle


def _named(reason: str, paths: dict[str, str]) -> str:
    for path, name in reversed(paths.items()):  # /fd/30 before /fd/3
        reason = reason.replace(path, name)
    return reason


def main() -> None:
    """Limit this process, read, and print."""
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    os.nice(10)
    answer = json.dumps(read(int(sys.argv[1]), sys.argv[2:]))
    os.write(1, answer.encode()[: 1 << 20])


if __name__ == "__main__":
    main()
