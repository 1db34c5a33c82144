"""Writes files under a temporary name, and renames them when they are complete."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

PART = ".part"


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A file to write, which gets its name at the end of the block. If the block fails, the file is deleted.

    A link that somebody left under either name is replaced and not followed. Raises OSError.
    """
    part = path.with_name(path.name + PART)
    part.unlink(missing_ok=True)
    try:
        with part.open("x", encoding="utf-8", errors="backslashreplace") as file:
            yield file
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):  # the error of the block is more important
            part.unlink(missing_ok=True)
