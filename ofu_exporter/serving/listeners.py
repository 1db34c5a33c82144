"""Opens the address and the Unix socket that the agent listens on, with or without TLS."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import stat
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.given_sockets import GivenSockets
from ofu_exporter.serving.tls import make_context, tls_of_settings
from ofu_exporter.serving.web_config import NOTHING, WebConfig
from ofu_exporter.settings import Settings, host_and_port

BACKLOG = 2048
"""How many clients may wait, instead of being refused, while the agent is busy."""
SOCKET_BYTES = 64 << 10
"""What the kernel may keep for one connection in each direction. By itself it would let this grow to MiB, which a
container's memory limit counts."""


def listen(address: str) -> socket.socket:
    """Open the address. Raises ConfigError, which names the address."""
    host, port = host_and_port(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once when the protocol is named; else every answer waits 40 ms for an acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        _begin(bound)
    except OSError as error:
        bound.close()
        raise ConfigError(f"cannot listen on {address}: {error.strerror or error}") from error
    return bound


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


def tls_context(settings: Settings, web: WebConfig = NOTHING) -> ssl.SSLContext | None:
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
        self, settings: Settings, web: WebConfig = NOTHING, given: GivenSockets = NONE_GIVEN
    ) -> None:
        """A socket that is given stands in the place of a setting. Raises ConfigError, which names address or file."""
        self.tls = tls_context(settings, web)
        self._given = given
        self.address = given.address or listen(settings.listen)
        self._shown = shown_address(self.address)
        self.unix = given.unix
        if self.unix is None and settings.report_socket:
            self.unix = listen_unix(settings.report_socket)
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
        if self._given.unix is None:
            with contextlib.suppress(OSError):
                os.unlink(path)
