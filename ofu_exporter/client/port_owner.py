"""Finds out which user's program is at the other end of a connection within this machine.

While the agent is down, any user may take its port. A client must not send that program a token or believe its answer.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

RUN = Path("/run/ofu-exporter")
"""A folder of root. Everything in it belongs to root or the agent's user, because nobody else can write to it."""
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))

_LISTENS = "0A"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class _Row(NamedTuple):
    """One socket of this machine; a listening socket has no peer."""

    address: Address
    port: int
    peer_port: int
    state: str
    uid: int


def refuse_stranger(connection: socket.socket, environ: Mapping[str, str]) -> None:
    """Raises PermissionError when a user of this machine who is not trusted listens on the port.

    Root, the user of this process and the agent's user are trusted. A connection to another machine is not checked.
    Raises ConnectionResetError for a connection that the other end has closed.
    """
    try:
        where = connection.getpeername()
    except OSError as error:
        raise ConnectionResetError(f"the connection has ended: {error.strerror}") from error
    if connection.family == socket.AF_UNIX:
        return
    address, here = (_address(end[0]) for end in (where, connection.getsockname()))
    if not address.is_loopback and address != here:
        return
    port, own_port = where[1], connection.getsockname()[1]
    owners = {
        row.uid
        for table in TABLES
        for row in _rows(table)
        if row.port == port and _is_other_end(row, address, own_port)
    }
    strangers = owners - _trusted(environ)
    if strangers:
        raise PermissionError(
            f"user {min(strangers)} has taken port {port}, who is neither root nor the agent's user "
            "(OFU_EXPORTER_AGENT_USER names another one)"
        )


def _is_other_end(row: _Row, address: Address, own_port: int) -> bool:
    """Whether this socket is the other end of our connection, or the listening socket that accepts it.

    A connection that was not accepted yet has no user. Then the listening socket decides.
    """
    if row.state == _LISTENS:
        return row.address == address or row.address.is_unspecified
    return row.address == address and row.peer_port == own_port


def _trusted(environ: Mapping[str, str]) -> set[int]:
    trusted = {0, os.geteuid()}
    named = environ.get("OFU_EXPORTER_AGENT_USER", "")
    if named:
        with suppress(KeyError):
            trusted.add(int(named) if named.isdecimal() else pwd.getpwnam(named).pw_uid)
    with suppress(OSError):
        folder = RUN.stat()
        if folder.st_uid == 0 and not folder.st_mode & 0o022:
            trusted.add((RUN / "agent").stat().st_uid)
    return trusted


def _rows(table: Path) -> Iterator[_Row]:
    """The sockets in one of the kernel's tables, whose columns proc(5) names. Raises OSError, but not for a missing
    IPv6 table."""
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except FileNotFoundError:
        if table is not TABLES[1]:
            raise
        return
    for line in lines:
        _, here, there, state, _, _, _, uid, *_ = line.split()
        address, _, port = here.partition(":")
        peer_port = int(there.rpartition(":")[2], 16)
        yield _Row(_unpacked(address), int(port, 16), peer_port, state, int(uid))


def _unpacked(text: str) -> Address:
    """An address of the table: words of 32 bits in this machine's own order of bytes."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return _plain(ipaddress.ip_address(struct.pack(f"={len(words)}I", *words)))


def _address(text: str) -> Address:
    return _plain(ipaddress.ip_address(text.partition("%")[0]))


def _plain(address: Address) -> Address:
    return getattr(address, "ipv4_mapped", None) or address
