"""Writes files under a temporary name, and renames them when they are complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

PART = ".part"


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A file to write, which gets its name at the end of the block. If the block fails, the file is deleted.

    Of two who write it at once the later one's counts, whole. A link of this name is replaced and not followed. Raises
    OSError.
    """
    part = path.with_name(f".{os.urandom(8).hex()}{PART}")
    try:
        with part.open("x", encoding="utf-8", errors="backslashreplace") as file:
            yield file
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):  # the error of the block is more important
            part.unlink(missing_ok=True)
