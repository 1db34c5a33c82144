"""Keeps the C library's heap small: one for all threads, and no large block in it."""

from __future__ import annotations

import ctypes

_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
"""Both are in malloc.h of glibc."""
LARGE_BYTES = 64 << 10
"""A larger block is the kernel's, and goes back when it is freed. By itself glibc takes ever larger ones from the heap
once such a block was freed, and a body of 250 kB leaves a hole there for good."""


def keep_heap_small() -> bool:
    """Let all threads take small blocks from one heap; False where the C library has no such settings (musl).

    Threads of Python hardly ever allocate at the same time. To be called before there are threads.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(_M_ARENA_MAX, 1) and mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
    except (AttributeError, OSError):
        return False
