"""Keeps the C library's heap small: one for all threads, and no large block in it."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
"""All are in malloc.h of glibc."""
SPARE_BYTES = 1 << 20
"""Free memory that is kept at the end of the heap. Otherwise zlib would ask the kernel for its 256 KiB for every page
it packs."""
LARGE_BYTES = 192 << 10
"""Larger blocks come from the kernel, and return to it when they are freed. By default glibc raises this limit each
time such a block is freed, and then a body of 250 kB leaves a permanent hole in the heap."""


def keep_heap_small() -> bool:
    """Make all threads take small blocks from one heap; False if the C library has no such settings (musl).

    Python's threads hardly ever allocate at the same time. Call this before any thread starts.
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
