"""Says how an agent lets a command in: whom the command believes, and which certificate and password it shows."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path

from ofu_exporter.client.channel import TLS_VARIABLES, trust
from ofu_exporter.client.port_owner import refuse_stranger
from ofu_exporter.errors import ConfigError
from ofu_exporter.support.bounded_get import ServerAccess

USER_VARIABLE, PASSWORD_VARIABLE = "OFU_EXPORTER_USER", "OFU_EXPORTER_PASSWORD_FILE"

_one_reader = threading.Lock()
"""A file that a thread reads counts as hung for another one that wants it meanwhile, and `top` has many threads."""


class AgentAccess(ServerAccess):
    """What the environment says: the password as it is now, the files of TLS as they are at each connection."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Raises ConfigError."""
        self._environ = environ
        self._basic = _user_and_password(environ)

    def check(self, connection: socket.socket) -> None:
        """Raises PermissionError where another user of this machine listens, before anything is sent."""
        refuse_stranger(connection, self._environ)

    def trust(self) -> ssl.SSLContext:
        """Authorities to believe and the certificate to show. Raises ConfigError."""
        try:
            return trust(self._environ)
        except OSError as error:
            named = " ".join(
                f"{name}={self._environ[name]}" for name in TLS_VARIABLES if self._environ.get(name)
            )
            raise ConfigError(f"{named}: {error.strerror or error}") from error

    def basic(self) -> tuple[str, str] | None:
        """User and password for a URL that has none; None where none is set."""
        return self._basic


def _user_and_password(environ: Mapping[str, str]) -> tuple[str, str] | None:
    user, file = (environ.get(name) for name in (USER_VARIABLE, PASSWORD_VARIABLE))
    if not user and not file:
        return None
    if not user or not file:
        raise ConfigError(f"{USER_VARIABLE} and {PASSWORD_VARIABLE} need each other")
    from ofu_exporter.support.small_files import read_secret  # noqa: PLC0415 - 10 ms of a hook's

    with _one_reader:
        text = read_secret(Path(file), f"{PASSWORD_VARIABLE}: file").rstrip("\r\n")
    if not text:
        raise ConfigError(f"{PASSWORD_VARIABLE}: file {file} is empty")
    return user, text
