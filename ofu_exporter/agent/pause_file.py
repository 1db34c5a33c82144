"""Checks the files that tell the agent to let go of the GPUs, and how long each counts."""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ofu_exporter.support import durations

NAME = re.compile("[A-Za-z0-9_-]{1,64}")
"""Of a pauser. Editors leave other names beside a file."""

log = logging.getLogger(__name__)

MOST_BYTES = 64
MOST_NAMES = 10_000
"""Most names of a folder that are looked at."""


def pause_files(path: Path) -> Iterator[Path]:
    """The file at a path, and those beside it of pausers with a name, as /run/ofu-exporter/pause.NAME."""
    yield path
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in islice(entries, MOST_NAMES):
            if entry.name.startswith(f"{path.name}."):
                yield path.parent / entry.name


def is_pause_name(path: Path, file: Path) -> bool:
    """Whether `pause` would give a file beside the pause file this name; it counts under no other."""
    return path == file or bool(NAME.fullmatch(path.name[len(file.name) + 1 :]))


class PauseFile:
    """The pause file at one path, and those beside it.

    Each counts until it is removed, until the time it states is over, or until a limit. Anybody who may write one can
    stop the measurement, so it must belong to root or to the agent's own user.
    """

    def __init__(
        self, path: Path, limit: float | None, clock: Callable[[], float] = time.time
    ) -> None:
        """`limit` is in seconds since the file was written; None = until the file is removed."""
        self._path = path
        self._limit = limit
        self._clock = clock
        self._logged: dict[Path, str] = {}
        """What is wrong with each file, as of the last line about it."""

    def paused(self) -> bool:
        """Whether the agent must hold no GPU now. Never raises: a file that cannot be read counts."""
        problems: dict[Path, str] = {}
        for path in pause_files(self._path):
            try:
                problems[path] = self._problem(path, path.lstat())
            except FileNotFoundError:
                continue
            except OSError as error:
                problems[path] = f"is ignored, because its status cannot be read: {error.strerror}"
        for path, problem in problems.items():
            if problem != self._logged.get(path):
                level = logging.WARNING if problem else logging.INFO
                log.log(level, "the pause file %s %s", path, problem or "counts")
        self._logged = problems
        return "" in problems.values()

    def _problem(self, path: Path, status: os.stat_result) -> str:
        """Why a file does not count; "" where it does."""
        if not is_pause_name(path, self._path):
            return "is ignored: `pause --by` takes no such name"
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()):
            return "is ignored: it is not a file of root or of the agent's own user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "is ignored: other users may write it"
        limit = self._seconds(path)
        if limit is not None and self._clock() - status.st_mtime > limit:
            return f"is older than {durations.duration(limit)} and is now ignored"
        return ""

    def _seconds(self, path: Path) -> float | None:
        """How long a file counts: the time that it states, or the limit if it states none."""
        try:
            with path.open("rb") as file:
                text = file.read(MOST_BYTES).decode("ascii").strip()
            stated = durations.seconds(text) if text else None
        except (OSError, ValueError):
            stated = None
        return stated if isinstance(stated, float) else self._limit
