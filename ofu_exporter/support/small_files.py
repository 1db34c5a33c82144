"""Reads small files that an operator named, some of which hold secrets.

A file that is huge or never ends costs bounded time and memory. A secret that others could read or write is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ofu_exporter.errors import ConfigError, HungError
from ofu_exporter.support.patience import within
from ofu_exporter.support.regular_files import opened

MOST_BYTES = 1 << 20
MOST_SECRET_BYTES = 64 << 10
READ_SECONDS = 3.0
"""How long a file system may take for one file."""
_FOR_OTHERS = stat.S_IWGRP | stat.S_IRWXO
"""The group may read, because Kubernetes uses the group to give a Secret to a user who is not root."""

FileCheck = Callable[[os.stat_result, str], None]
"""Raises ConfigError for a file that must not be read; it is given the name for the user."""
Stamp = tuple[int, int, int, int] | None


def stamp(path: Path) -> Stamp:
    """A value that changes when the file is written, replaced or given another mode; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size)


def read_small(
    path: Path, what: str, most_bytes: int = MOST_BYTES, check: FileCheck = lambda *_: None
) -> str:
    """The text of a regular file; errors call it `what`. Raises ConfigError.

    Links are followed, because Kubernetes replaces a ConfigMap or Secret by changing a link.
    """
    named = f"{what} {path}"
    try:
        content = within(READ_SECONDS, named, partial(_read, path, named, most_bytes, check))
    except HungError as error:
        raise ConfigError(f"{named}: its file system does not answer") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{named}: {getattr(error, 'strerror', None) or error}") from error
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{named} is not UTF-8") from error


def _read(path: Path, named: str, most_bytes: int, check: FileCheck) -> bytes:
    with opened(path) as file:
        check(os.fstat(file.fileno()), named)
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ConfigError(f"{named} is larger than {most_bytes >> 10} KiB")
    return content


def read_secret(path: Path, what: str) -> str:
    """The text of a file that holds a secret; errors call it `what`. Raises ConfigError."""
    return read_small(path, what, MOST_SECRET_BYTES, _check_secret)


def _check_secret(status: os.stat_result, named: str) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{named} is owned by user {status.st_uid}")
    if status.st_mode & _FOR_OTHERS:
        raise ConfigError(
            f"{named} has mode {stat.S_IMODE(status.st_mode):04o}: others may read or write it; "
            "chmod 0640 it (for a Secret: defaultMode 0440)"
        )
