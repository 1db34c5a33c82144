"""Keeps the C library's heap small: one for all threads, and no large block in it."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
"""All are in malloc.h of glibc."""
SPARE_BYTES = 1 << 20
"""Free memory at the heap's end that is kept, or zlib would ask the kernel for its 256 KiB with every page it packs."""
LARGE_BYTES = 192 << 10
"""A larger block is the kernel's, and goes back when it is freed. By itself glibc takes ever larger ones from the heap
once such a block was freed, and a body of 250 kB leaves a hole there for good."""


def keep_heap_small() -> bool:
    """Let all threads take small blocks from one heap; False where the C library has no such settings (musl).

    Threads of Python hardly ever allocate at the same time. To be called before there are threads.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
        settings = {
            _M_ARENA_MAX: 1,
            _M_MMAP_THRESHOLD: LARGE_BYTES,
            _M_TRIM_THRESHOLD: SPARE_BYTES,
        }
        return all([mallopt(*setting) for setting in settings.items()])
    except (AttributeError, OSError):
        return False
