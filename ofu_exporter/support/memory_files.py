"""Passes text to libraries that accept only a file's path, without a file that anybody could replace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def in_memory(text: str) -> Iterator[str]:
    """A path at which this process can read the text while the block runs. The text is on no disk and has no other
    name."""
    with open(os.memfd_create("ofu-exporter"), "wb", buffering=0) as file:
        file.write(text.encode())
        yield f"/proc/self/fd/{file.fileno()}"
