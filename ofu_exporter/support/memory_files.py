"""Gives text to libraries that only take the path of a file, without a file that anybody could replace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def in_memory(text: str) -> Iterator[str]:
    """A path at which this process finds the text, while the block runs. It is on no disk and has no other name."""
    with open(os.memfd_create("ofu-exporter"), "wb", buffering=0) as file:
        file.write(text.encode())
        yield f"/proc/self/fd/{file.fileno()}"
