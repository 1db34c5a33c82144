"""Finds the user at the other end of a connection within this machine."""

from __future__ import annotations

import socket
import struct

_CREDENTIALS = struct.Struct("3i")
"""struct ucred of unix(7): process, user, group."""


def peer_uid(connection: socket.socket) -> int | None:
    """The user who opened the other end of a Unix socket, as the kernel recorded it; None if that is not known."""
    try:
        noted = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return None
    return int(_CREDENTIALS.unpack(noted)[1])
