"""Writes files that are whole as soon as they have their name: until then they have another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

PART = ".part"


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A file to write, which gets its name at the end of the block. What did not get there is deleted.

    Raises OSError.
    """
    part = path.with_name(path.name + PART)
    try:
        with part.open("w") as file:
            yield file
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):  # what made the block fail says more
            part.unlink(missing_ok=True)
