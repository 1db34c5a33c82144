"""Tells who is at the other end of a connection: a user of this machine, or anybody by the network."""

from __future__ import annotations

import ipaddress
import socket
import struct
from contextlib import suppress
from functools import lru_cache

_CREDENTIALS = struct.Struct("3i")
"""struct ucred of unix(7): process, user, group."""


def peer_uid(connection: socket.socket) -> int | None:
    """The user who opened the other end of a Unix socket, as the kernel noted it; None when it cannot tell."""
    try:
        noted = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return None
    return int(_CREDENTIALS.unpack(noted)[1])


@lru_cache(maxsize=256)  # each request asks, mostly about the same address
def is_loopback(address: str) -> bool:
    """Whether an address is one of this machine's own loopback addresses."""
    with suppress(ValueError):
        parsed = ipaddress.ip_address(address.partition("%")[0])
        return bool((getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback)
    return False
