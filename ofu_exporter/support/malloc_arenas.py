"""Keeps the C library from giving each thread a heap of its own, which costs a small process more than it saves."""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8
"""malloc.h of glibc."""


def share_one_heap() -> bool:
    """Let all threads take memory from one heap; False where the C library has no such setting (musl).

    Threads of Python hardly ever allocate at the same time. To be called before there are threads.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except (AttributeError, OSError):
        return False
