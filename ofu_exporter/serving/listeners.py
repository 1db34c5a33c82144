"""Opens the address and the Unix socket that the agent listens on, or takes those that systemd gives it."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import socket
import stat
from collections.abc import MutableMapping
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.tls import ServerContext, make_context, tls_of_settings
from ofu_exporter.serving.web_config import NO_WEB_CONFIG, WebConfig
from ofu_exporter.settings import Settings, host_and_port

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
    """The sockets, with the variables removed so that no child takes them for its own. Raises ConfigError.

    systemd opens them, hands them over from file descriptor 3 on, and keeps its own copies: sd_listen_fds(3). What
    connects while the agent is restarted waits in the queue of the socket, and the new agent answers.
    """
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
    log.info(
        "the %s socket is systemd's (LISTEN_FDS), and that of the settings is not opened: %s",
        kind,
        where,
    )
    sockets[kind] = taken


def _kind(taken: socket.socket) -> str | None:
    """Which of the agent's sockets it can be."""
    is_stream = taken.type == socket.SOCK_STREAM
    if not is_stream or not taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return None
    kinds = {socket.AF_INET: "address", socket.AF_INET6: "address", socket.AF_UNIX: "unix"}
    return kinds.get(taken.family)


BACKLOG = 2048
"""How many clients may wait, instead of being refused, while the agent is busy."""
SOCKET_BYTES = 64 << 10
"""What the kernel may keep for one connection in each direction. By itself it would let this grow to MiB, which a
container's memory limit counts."""


def listen(address: str) -> socket.socket:
    """Open the address; :PORT is that of IPv4 and, where the node has it, IPv6. Raises ConfigError, which names it."""
    host, port = host_and_port(address)
    both = address.startswith(":") and _has_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    # asyncio sends at once when the protocol is named; else every answer waits 40 ms for an acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if both:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        bound.bind(("::" if both else host, port))
        _begin(bound)
    except OSError as error:
        bound.close()
        hint = "; --listen takes another" if error.errno == errno.EADDRINUSE else ""
        reason = f"{error.strerror or error}{hint}"
        raise ConfigError(f"cannot listen on {address}: {reason}") from error
    return bound


def _has_ipv6() -> bool:
    """Whether an address of IPv6 can be opened: a kernel may have it and be told not to use it."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


def shown_address(bound: socket.socket) -> str:
    """HOST:PORT of an open socket, as a URL has it."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _begin(bound: socket.socket) -> None:
    for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # what is accepted inherits them
        bound.setsockopt(socket.SOL_SOCKET, buffer, SOCKET_BYTES)
    bound.listen(BACKLOG)


def listen_unix(path: Path) -> socket.socket:
    """Open a Unix socket that everybody on the node may connect to, as to the loopback address.

    The mode of its directory can keep users out. A socket that an earlier agent left is replaced. Raises
    ConfigError when anything else is there, or an agent that listens.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        _remove_stale(path)
        bound.bind(str(path))
        path.chmod(0o666)
        bound.listen(BACKLOG)
    except (OSError, ConfigError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot listen on {path}: {reason}") from error
    return bound


def _remove_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError("it is there and is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()  # nobody listens
            return
    raise ConfigError("another program listens there")


def tls_context(settings: Settings, web: WebConfig = NO_WEB_CONFIG) -> ServerContext | None:
    """The TLS context of the address; None without a certificate. Raises ConfigError."""
    of_settings = tls_of_settings(settings)
    if of_settings and web.tls:
        raise ConfigError(f"TLS is set twice: by --tls-cert and by tls_server_config in {web.file}")
    tls = of_settings or web.tls
    return make_context(tls) if tls else None


NONE_GIVEN = GivenSockets()


class Listeners:
    """The sockets that the agent listens on, from before it starts until after it ends."""

    def __init__(
        self, settings: Settings, web: WebConfig = NO_WEB_CONFIG, given: GivenSockets = NONE_GIVEN
    ) -> None:
        """A socket that is given stands in the place of a setting. Raises ConfigError, which names address or file."""
        self.tls = tls_context(settings, web)
        self.address = given.address or listen(settings.listen)
        self._shown = shown_address(self.address)
        self.unix = given.unix
        self._own: os.stat_result | None = None
        """The file of a Unix socket that was opened here."""
        if self.unix is None and settings.report_socket:
            self.unix = listen_unix(settings.report_socket)
            self._own = settings.report_socket.lstat()
        for one in filter(None, given):
            _begin(one)

    @property
    def url(self) -> str:
        """Where the address is, also after it is closed."""
        return f"{'https' if self.tls else 'http'}://{self._shown}"

    def close(self) -> None:
        """Close the sockets, and remove the Unix socket's file if it is this agent's own."""
        self.address.close()
        if self.unix is None:
            return
        path = self.unix.getsockname()
        self.unix.close()
        with contextlib.suppress(OSError):
            if self._own and os.path.samestat(os.lstat(path), self._own):  # not what replaced it
                os.unlink(path)
