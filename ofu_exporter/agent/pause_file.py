"""Checks the file that tells the agent to let go of the GPUs, and how long the file counts."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from ofu_exporter.support import durations

log = logging.getLogger(__name__)

MOST_BYTES = 64


class PauseFile:
    """The pause file at one path. It counts until it is removed, until the time it states is over, or until a limit.

    Anybody who may write the file can stop the measurement, so it must belong to root or to the agent's own user.
    """

    def __init__(
        self, path: Path, limit: float | None, clock: Callable[[], float] = time.time
    ) -> None:
        """`limit` is in seconds since the file was written; None = until the file is removed."""
        self._path = path
        self._limit = limit
        self._clock = clock
        self._logged = ""
        """What is wrong with the file, as of the last line about it."""

    def paused(self) -> bool:
        """Whether the agent must hold no GPU now. Never raises: a file that cannot be read counts."""
        try:
            problem = self._problem(self._path.lstat())
        except FileNotFoundError:
            self._logged = ""
            return False
        except OSError as error:
            problem = f"is ignored, because its status cannot be read: {error.strerror}"
        if problem and problem != self._logged:
            log.warning("the pause file %s %s", self._path, problem)
        self._logged = problem
        return not problem

    def _problem(self, status: os.stat_result) -> str:
        """Why the file does not count; "" where it does."""
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()):
            return "is ignored: it is not a file of root or of the agent's own user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "is ignored: other users may write it"
        limit = self._seconds()
        if limit is not None and self._clock() - status.st_mtime > limit:
            return f"is older than {durations.duration(limit)} and is now ignored"
        return ""

    def _seconds(self) -> float | None:
        """How long the file counts: the time that it states, or the limit if it states none."""
        try:
            with self._path.open("rb") as file:
                text = file.read(MOST_BYTES).decode("ascii").strip()
            stated = durations.seconds(text) if text else None
        except (OSError, ValueError):
            stated = None
        return stated if isinstance(stated, float) else self._limit
