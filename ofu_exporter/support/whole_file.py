"""Writes files under a temporary name, and renames them when they are complete."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TextIO

LEFT_SECONDS = 86400.0
"""A temporary file that nobody has written to for longer was left by a writer that was killed."""
_PART = re.compile(r"\.[0-9a-f]{16}\.part")


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A file to write, which gets its name at the end of the block. If the block fails, the file is deleted.

    Of two who write it at once the later one's counts, whole. A link of this name is replaced and not followed. Raises
    OSError.
    """
    unfinished = unfinished_path(path)
    try:
        with unfinished.open("x", encoding="utf-8", errors="backslashreplace") as file:
            yield file
        unfinished.replace(path)
    finally:
        with contextlib.suppress(OSError):  # the error of the block is more important
            unfinished.unlink()


def unfinished_path(path: Path) -> Path:
    """A name beside a file for what is not whole yet, where killed writers have left nothing."""
    with contextlib.suppress(OSError):
        _sweep(path.parent)
    return path.with_name(f".{os.urandom(8).hex()}.part")


@lru_cache(100)
def _sweep(folder: Path) -> None:
    """Delete old temporary files, once in a process: a folder may get thousands of files."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if _PART.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < time.time() - LEFT_SECONDS:
                        os.unlink(entry.path)
