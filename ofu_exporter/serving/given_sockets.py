"""Takes the listening sockets that systemd gives a service at its start: sd_listen_fds(3).

systemd opens them, hands them over from file descriptor 3 on, and keeps its own copies. What connects while the agent
is restarted waits in the queue of the socket, and the new agent answers.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import MutableMapping
from itertools import zip_longest
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
    pid, count, names = (environ.pop(name, "") for name in VARIABLES)
    if pid != str(os.getpid()):
        return GivenSockets()  # they are meant for another process, or there are none
    sockets: dict[str, socket.socket] = {}
    try:
        for number, name in zip_longest(_descriptors(count or "0", first), names.split(":")):
            if number is not None:
                _take(number, f"file descriptor {number}{f' ({name})' if name else ''}", sockets)
    except ConfigError:
        for one in sockets.values():
            one.close()
        raise
    return GivenSockets(**sockets)


def _descriptors(count: str, first: int) -> range:
    if not re.fullmatch(r"[0-9]{1,4}", count) or int(count) > MOST:
        raise ConfigError(
            f"LISTEN_FDS is {count[:20]!r}, which is no number of sockets up to {MOST}"
        )
    return range(first, first + int(count))


def _take(number: int, what: str, sockets: dict[str, socket.socket]) -> None:
    """Add a socket to the others. Raises ConfigError."""
    try:
        os.set_inheritable(number, False)
        taken = socket.socket(fileno=number)
    except OSError as error:
        raise ConfigError(f"{what} from LISTEN_FDS is no socket: {error.strerror}") from error
    kind = _kind(taken)
    if kind is None or kind in sockets:
        taken.detach()
        raise ConfigError(
            f"{what} from LISTEN_FDS is one too many: the agent has one {kind} socket"
            if kind
            else f"{what} from LISTEN_FDS is no listening TCP or Unix stream socket: "
            "use ListenStream= and Accept=no"
        )
    where = taken.getsockname()
    log.info("the %s socket is given, and not opened by the settings: %s", kind, where)
    sockets[kind] = taken


def _kind(taken: socket.socket) -> str | None:
    """Which of the agent's sockets it can be."""
    is_stream = taken.type == socket.SOCK_STREAM
    if not is_stream or not taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return None
    kinds = {socket.AF_INET: "address", socket.AF_INET6: "address", socket.AF_UNIX: "unix"}
    return kinds.get(taken.family)
