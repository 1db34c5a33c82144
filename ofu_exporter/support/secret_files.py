"""Reads files that hold secrets, and refuses one that others can have read or written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ofu_exporter.errors import ConfigError

MAX_BYTES = 64 << 10

_FOR_OTHERS = stat.S_IWGRP | stat.S_IRWXO
"""The group may read: Kubernetes gives a Secret to a user that is not root in that way."""

Stamp = tuple[int, int, int, int] | None


def stamp(path: Path) -> Stamp:
    """What changes when the file is written, replaced, or given another mode; None when it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size)


def read_secret(path: Path, what: str) -> str:
    """The text of the file; errors call it `what`. Raises ConfigError.

    Links are followed: Kubernetes puts a new Secret in place by one.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            _check(os.fstat(handle), f"{what} {path}")
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{what} {path}: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{what} {path} is larger than {MAX_BYTES >> 10} KiB")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what} {path} is not UTF-8") from error


def _check(status: os.stat_result, named: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{named} is not a file")
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{named} is owned by user {status.st_uid}")
    if status.st_mode & _FOR_OTHERS:
        raise ConfigError(
            f"{named} has mode {stat.S_IMODE(status.st_mode):04o}: others may read or write it; "
            "chmod 0640 it (for a Secret: defaultMode 0440)"
        )
