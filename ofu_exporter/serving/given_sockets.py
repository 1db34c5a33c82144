"""Takes the listening sockets that systemd gives a service at its start: sd_listen_fds(3).

systemd opens them, hands them over from file descriptor 3 on, and keeps its own copies. What connects while the agent
is restarted waits in the queue of the socket, and the new agent answers.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator, MutableMapping
from typing import NamedTuple

from ofu_exporter.errors import ConfigError

log = logging.getLogger(__name__)

FIRST = 3
"""The descriptor of the first socket: SD_LISTEN_FDS_START."""
MOST = 64
"""More than this is a mistake in the variable."""
VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class GivenSockets(NamedTuple):
    """What is given in the place of what the settings would open; None is not given."""

    address: socket.socket | None = None
    unix: socket.socket | None = None


def given_sockets(
    environ: MutableMapping[str, str] = os.environ, first: int = FIRST
) -> GivenSockets:
    """The sockets, with the variables removed so that no child takes them for its own. Raises ConfigError."""
    said = {name: environ.pop(name, "") for name in VARIABLES}
    if said["LISTEN_PID"] != str(os.getpid()):
        return GivenSockets()  # they are meant for another process, or there are none
    names = said["LISTEN_FDNAMES"].split(":")
    found: dict[str, socket.socket] = {}
    try:
        for place, number in enumerate(_descriptors(said["LISTEN_FDS"] or "0", first)):
            name = names[place] if place < len(names) else ""
            _take(number, f"file descriptor {number}{f' ({name})' if name else ''}", found)
    except ConfigError:
        for one in found.values():
            one.close()
        raise
    return GivenSockets(**found)


def _descriptors(count: str, first: int) -> Iterator[int]:
    if not re.fullmatch(r"[0-9]{1,4}", count) or int(count) > MOST:
        raise ConfigError(
            f"LISTEN_FDS is {count[:20]!r}, which is no number of sockets up to {MOST}"
        )
    yield from range(first, first + int(count))


def _take(number: int, what: str, found: dict[str, socket.socket]) -> None:
    """Add a socket to those that were found. Raises ConfigError."""
    try:
        os.set_inheritable(number, False)
        given = socket.socket(fileno=number)
    except OSError as error:
        raise ConfigError(f"{what} from LISTEN_FDS is no socket: {error.strerror}") from error
    kind = _kind(given)
    if kind is None:
        given.detach()
        raise ConfigError(
            f"{what} from LISTEN_FDS is no listening TCP or Unix stream socket: "
            "use ListenStream= and Accept=no"
        )
    if kind in found:
        given.detach()
        raise ConfigError(
            f"{what} from LISTEN_FDS is one too many: the agent has one {kind} socket"
        )
    log.info(
        "the %s socket is given, and not opened by the settings: %s", kind, given.getsockname()
    )
    found[kind] = given


def _kind(given: socket.socket) -> str | None:
    """Which of the agent's sockets it can be."""
    if given.type != socket.SOCK_STREAM:
        return None
    if not given.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return None
    kinds = {socket.AF_INET: "address", socket.AF_INET6: "address", socket.AF_UNIX: "unix"}
    return kinds.get(given.family)
