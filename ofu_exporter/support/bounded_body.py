"""Reads the whole body of an answer in bounded size and time, whatever client it comes by."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable


class TooLargeError(ValueError):
    """A body that is larger than it may be."""


def whole_body(
    pieces: Iterable[bytes],
    most_bytes: int,
    deadline: float,
    clock: Callable[[], float] = time.monotonic,
) -> bytes:
    """All pieces, in order. Raises TooLargeError, TimeoutError after `deadline`, and what reading a piece raises."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > most_bytes:
            body.clear()  # the frames of an error that is kept would keep all of it
            raise TooLargeError(f"the answer is larger than {most_bytes} bytes")
        if clock() > deadline:
            raise TimeoutError("timed out")
    return bytes(body)
