"""Says why a Unix socket refuses: DCGM's library has one code for every reason."""

from __future__ import annotations

import socket

TIMEOUT_SECONDS = 1.0


def is_forbidden(path: str) -> bool:
    """Whether there is a socket that this user may not connect to: that takes the right to write to its file."""
    with socket.socket(socket.AF_UNIX) as tried:
        tried.settimeout(TIMEOUT_SECONDS)
        try:
            tried.connect(path)
        except PermissionError:
            return True
        except OSError:
            pass
    return False
