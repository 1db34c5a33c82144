"""The two folders of traces on demand: who may put what there, what is read of it, and what is swept.

Everybody may create files there, and nobody but the agent may list or delete them. Names of traces cannot be guessed.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from ofu_exporter.errors import ConfigError

MODE = 0o1733
MOST_KEPT, MOST_KEPT_BYTES, KEPT_SECONDS = 64, 8 << 30, 86400.0
"""Most traces that lie in the folder, what they take on its disk, and their age."""
MOST_SWEPT = 10_000
"""Most files that one sweep looks at."""
READ_SECONDS = 240.0
"""Longer than a trace may take of a core to be read, because that gives way to whatever runs on the node."""
MOST_ANSWER = 1 << 20
_ACL = "system.posix_acl_default"
_DAC = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
_TRACE = re.compile(r"[0-9a-f]{32}(_-?\d+)?\.json(\.tmp)?")
_CLIENT = "dynoconfigclient"


def prepare(folder: Path, needs_own: bool) -> None:
    """Make a folder where all may create files. Raises ConfigError for one that others could manage."""
    try:
        for parent in reversed(folder.parents):  # /run/ofu-exporter is there only with systemd
            with suppress(FileExistsError):
                parent.mkdir()
                parent.chmod(0o755)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode):
            raise ConfigError(f"{folder} is no folder")
        if status.st_uid == os.geteuid():
            os.chmod(folder, MODE)
        elif needs_own or status.st_uid or not status.st_mode & stat.S_ISVTX:
            raise ConfigError(
                f"{folder} belongs to user {status.st_uid}: let it be the agent's, user {os.geteuid()}"
            )
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}") from error


def let_agent_read(folder: Path) -> str:
    """Let files that others create there be readable for the agent and for nobody else; "" or what that ended in."""
    entries = [
        (0x01, 6, 0xFFFFFFFF),
        (0x02, 4, os.geteuid()),
        (0x04, 0, 0xFFFFFFFF),
        (0x10, 4, 0xFFFFFFFF),
        (0x20, 0, 0xFFFFFFFF),
    ]
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
    try:
        os.setxattr(folder, _ACL, packed)
    except OSError as error:
        if not _reads_all():
            return f"{folder} takes no ACL ({error.strerror}): traces written under umask 077 cannot be read"
    return ""


def _reads_all() -> bool:
    """Whether modes do not hold for this process (capabilities(7)): root in a container has no such capability."""
    effective = re.search(r"CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text())
    return bool(effective and int(effective[1], 16) & _DAC)


def sweep_traces(folder: Path, now: float) -> None:
    """Delete old traces, and the oldest where there are too many, or too large ones."""
    traces = []
    for entry in islice(os.scandir(folder), MOST_SWEPT):
        if _TRACE.fullmatch(entry.name):
            with suppress(OSError):
                stat_ = entry.stat(follow_symlinks=False)
                traces.append((stat_.st_mtime, 512 * stat_.st_blocks, entry.path))
    taken = 0
    for place, (at, size, path) in enumerate(sorted(traces, reverse=True)):
        taken += size
        if now - at > KEPT_SECONDS or place >= MOST_KEPT or taken > MOST_KEPT_BYTES:
            delete(path)


def sweep_sockets(folder: Path) -> None:
    """Delete the sockets of processes that are gone."""
    for entry in islice(os.scandir(folder), MOST_SWEPT):
        if entry.name.startswith(_CLIENT) and not entry.is_dir(follow_symlinks=False):
            with suppress(OSError):
                if not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode) or not is_held(
                    entry.path
                ):
                    os.unlink(entry.path)


def is_held(path: str | bytes) -> bool:
    """Whether a process has this datagram socket open, by its path or abstract name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asker:
        try:
            asker.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def delete(path: str | Path) -> None:
    """Delete a file, which may not be there."""
    with suppress(OSError):
        os.unlink(path)


_READER = """import ast, runpy, sys
sys.path += ast.literal_eval(sys.argv.pop(1))
runpy.run_module("ofu_exporter.traces.reader", run_name="__main__", alter_sys=True)"""
"""With the modules that the agent has, after Python's own, which no file in a folder of the agent's path may hide."""


def read(uid: int, files: Sequence[Path]) -> dict[str, Any]:
    """What a process of its own reads in files of a user. Raises OSError and ValueError."""
    path = repr([*sys.path, str(Path(__file__).parents[2])])
    command = [sys.executable, "-I", "-S", "-c", _READER, path, str(uid), *map(str, files)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env={},
            timeout=READ_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"it took more than {READ_SECONDS:g} s") from error
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [
            f"it ended with {done.returncode}"
        ]
        raise ValueError(
            "it takes more memory than a node gives" if "MemoryError" in last[0] else last[0][:200]
        )
    answer = json.loads(done.stdout) if len(done.stdout) <= MOST_ANSWER else None
    if not isinstance(answer, dict):
        raise ValueError("its reader gave no answer")
    return answer
