"""Finds out why a Unix socket refuses, because DCGM's library has one code for every reason."""

from __future__ import annotations

import socket

TIMEOUT_SECONDS = 1.0


def is_forbidden(path: str) -> bool:
    """Whether the socket exists but this user may not connect to it, which needs write access to its file."""
    with socket.socket(socket.AF_UNIX) as tried:
        tried.settimeout(TIMEOUT_SECONDS)
        try:
            tried.connect(path)
        except PermissionError:
            return True
        except OSError:
            pass
    return False
