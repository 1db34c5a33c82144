"""Locks a state file for one agent: two that write one file would each undo what the other wrote."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class StateLock:
    """A lock file next to the state file, held until `close` or the end of the process, even if that is killed.

    The database itself is not locked: `job show` reads it while an agent runs.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError when another agent has the lock."""
        self._path = path.with_name(f"{path.name}.lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._handle = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._handle)
            if not isinstance(error, BlockingIOError):
                raise
            raise OSError(
                f"another agent writes it ({self._path.name} is locked); what this one measures is not kept"
            ) from error

    def is_there(self) -> bool:
        """Whether the lock's file is still the one that another agent would find."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._handle))
        except OSError:
            return False

    def close(self) -> None:
        """Release the lock. Calling this again does no harm."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1
