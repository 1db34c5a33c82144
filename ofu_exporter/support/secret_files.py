"""Reads files that hold secrets, and refuses a file that other users could read or write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.small_files import read_small

MAX_BYTES = 64 << 10

_FOR_OTHERS = stat.S_IWGRP | stat.S_IRWXO
"""The group may read, because Kubernetes uses the group to give a Secret to a user who is not root."""


def read_secret(path: Path, what: str) -> str:
    """The text of the file; errors call it `what`. Raises ConfigError."""
    return read_small(path, what, MAX_BYTES, _check)


def _check(status: os.stat_result, named: str) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{named} is owned by user {status.st_uid}")
    if status.st_mode & _FOR_OTHERS:
        raise ConfigError(
            f"{named} has mode {stat.S_IMODE(status.st_mode):04o}: others may read or write it; "
            "chmod 0640 it (for a Secret: defaultMode 0440)"
        )
