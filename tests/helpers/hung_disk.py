"""A shared disk whose server is away: a FUSE file system that answers nothing, so that every call on it waits."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

LAZILY = 2
"""MNT_DETACH of umount2(2)."""


@contextlib.contextmanager
def hung_disk(folder: Path) -> Iterator[None]:
    """Mount it; calls that wait end with an error at the end of the block. Skips without the right to mount."""
    libc = ctypes.CDLL(None, use_errno=True)
    with contextlib.ExitStack() as stack:
        try:
            device = os.open("/dev/fuse", os.O_RDWR)
        except OSError as error:
            pytest.skip(f"no FUSE: {error}")
        stack.callback(os.close, device)
        what = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
        if libc.mount(b"hung", os.fsencode(folder), b"fuse.hung", 0, what.encode()):
            pytest.skip(f"no FUSE: {os.strerror(ctypes.get_errno())}")
        stack.callback(libc.umount2, os.fsencode(folder), LAZILY)
        yield
