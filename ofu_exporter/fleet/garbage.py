"""Pauses Python's collector of circular garbage where millions of small objects are made, and none of them in a circle.

It looks at all of them again and again: to parse a large JSON takes eight times as long with it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Within this block, or in a function that it decorates, only what is in a circle stays in memory."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
