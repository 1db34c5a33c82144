"""Has the kernel tell of changes in directories (inotify), so that nobody has to look several times a second."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import time
from contextlib import suppress
from pathlib import Path

SLOW_SECONDS = 2.0
"""Time between two looks at directories of which the kernel tells, for want of trust in that."""

# sys/inotify.h
_CHANGED = 0x2 | 0x4 | 0x8  # modified, attributes, closed after writing
_NAMED = 0x40 | 0x80 | 0x100 | 0x200  # moved from and to, created, deleted
_GONE = 0x400 | 0x800  # the directory itself deleted or moved
_ONLY_DIRECTORIES = 0x01000000
_MOST_BYTES = 1 << 16

_LOCAL = frozenset({0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x858458F6})
"""Types of statfs(2) of file systems that nobody changes unseen by this kernel: ext, XFS, Btrfs, tmpfs, ramfs."""


class DirectoryWatch:
    """Watches directories. Of one that is not there, the nearest above it is watched."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle = -1
        with suppress(AttributeError):  # a system without inotify
            self._handle = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watches: set[int] = set()
        self._tells = False
        self._has_told = False

    @property
    def told(self) -> int | None:
        """What becomes readable with the next change, a file descriptor.

        None where the kernel does not tell of every change, or has just told of one: look again after a rest.
        """
        return self._handle if self._tells and not self._has_told else None

    def renew(self, *directories: Path) -> None:
        """Watch these directories, as they are now. Whoever looks after this misses no change."""
        if self._handle < 0:
            return
        self._has_told = self._was_told()
        found = {self._watched(directory) for directory in directories}
        for left in self._watches - found:
            self._libc.inotify_rm_watch(self._handle, left)
        self._tells = None not in found
        self._watches = {watch for watch in found if watch is not None}

    def rest(self, seconds: float) -> None:
        """Wait until the next change, or until another look is due: after so long where the kernel does not tell."""
        told = self.told
        if told is None:
            time.sleep(seconds)
        else:
            events = select.poll()
            events.register(told, select.POLLIN)
            events.poll(1000 * max(seconds, SLOW_SECONDS))

    def close(self) -> None:
        """Let go of everything."""
        handle, self._handle, self._tells = self._handle, -1, False
        if handle >= 0:
            os.close(handle)

    def _was_told(self) -> bool:
        try:
            return bool(os.read(self._handle, _MOST_BYTES))
        except BlockingIOError:
            return False

    def _watched(self, directory: Path) -> int | None:
        """The watch of a directory, or of the nearest above it that is there; None where changes may go untold."""
        mask = _CHANGED | _NAMED | _GONE | _ONLY_DIRECTORIES
        for place in (directory, *directory.absolute().parents):
            name = os.fsencode(place)
            watch: int = self._libc.inotify_add_watch(self._handle, name, mask)
            if watch >= 0:
                return watch if watch in self._watches or self._is_local(name) else None
            if ctypes.get_errno() not in (errno.ENOENT, errno.ENOTDIR):
                return None
        return None

    def _is_local(self, name: bytes) -> bool:
        """Whether every change of the file system goes through this kernel; a network's does not."""
        status = (ctypes.c_ulong * 32)()  # struct statfs begins with the type, and is shorter
        return self._libc.statfs(name, status) == 0 and status[0] in _LOCAL
