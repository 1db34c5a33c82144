"""Sets what this process may take of the machine, descriptors and the C library's heap, and how it takes signals."""

from __future__ import annotations

import asyncio
import ctypes
import resource
import signal
from collections.abc import Callable

MOST_DESCRIPTORS = 4096
"""The limit is not raised further, because this process does not need more."""

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


def raise_descriptor_limit() -> int:
    """Raise the soft limit as far as the hard limit allows; returns the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (
        MOST_DESCRIPTORS if limit == resource.RLIM_INFINITY else limit for limit in (soft, hard)
    )
    wanted = min(hard, MOST_DESCRIPTORS)
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
    except (OSError, ValueError):
        return soft
    return wanted


def keep_heap_small() -> bool:
    """Make all threads take small blocks from one heap; False if the C library has no such settings (musl).

    Python's threads hardly ever allocate at the same time. Call this before any thread starts.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
        settings = {_M_ARENA_MAX: 1, _M_MMAP_THRESHOLD: LARGE_BYTES, _M_TRIM_THRESHOLD: SPARE_BYTES}
        return all([mallopt(*setting) for setting in settings.items()])
    except (AttributeError, OSError):
        return False


def on_signal(
    loop: asyncio.AbstractEventLoop, number: signal.Signals, what: Callable[[], None]
) -> None:
    """Make the event loop call something at a signal.

    The loop's own signal handlers are not used: the loop closes their pipe before it removes them, and a signal in
    between would end the process. A handler can be interrupted by its own signal, so it does little: a flood would nest
    calls until Python ends them with an error.
    """
    is_waiting = False

    def call() -> None:
        nonlocal is_waiting
        is_waiting = False
        what()

    def caught(*_: object) -> None:
        nonlocal is_waiting
        if not is_waiting:
            is_waiting = True
            loop.call_soon_threadsafe(call)

    signal.signal(number, caught)
