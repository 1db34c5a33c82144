"""Posts reports to the agent over one connection: TCP, TLS or a Unix socket, never through a proxy.

http.client follows no redirect and ignores proxy variables.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ofu_exporter.client.port_owner import refuse_stranger
from ofu_exporter.client.slow_disk import SlowDisk

PATH = "/v1/mfu"
TIMEOUT_SECONDS, COMMAND_SECONDS = 2.0, 30.0
"""Longest wait of a training loop and of a command to connect, and for each read. An agent on the same node answers in
milliseconds, on a node whose cores are all busy in seconds."""
LONGEST_ANSWER = 1 << 18
TLS_VARIABLES = ("OFU_EXPORTER_CA_FILE", "OFU_EXPORTER_CERT_FILE", "OFU_EXPORTER_KEY_FILE")
"""Whom to believe, and the certificate to show with its key."""

LOOPBACK = "http://127.0.0.1:9846"
SOCKETS = ("/run/ofu-exporter/reports.sock", "/run/ofu-exporter/agent/reports.sock")
"""Only root and the agent's user can create a socket here, so nobody can take the agent's place while it is down."""

_ENDED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


def default_url() -> str:
    """The agent's Unix socket if it exists, otherwise the loopback address."""
    for path in SOCKETS:
        if os.access(path, os.W_OK):
            return f"unix:{path}"
    return LOOPBACK


class AgentAnswer(NamedTuple):
    status: int
    body: bytes
    retry_after: str

    def json_object(self) -> dict[str, Any] | None:
        """The body as a JSON object; None if it is not one."""
        try:
            parsed = json.loads(self.body)
        except (ValueError, RecursionError):
            return None
        return parsed if isinstance(parsed, dict) else None


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Channel:
    """Posts reports one after the other over a connection that is kept open. Only one thread may use it."""

    def __init__(
        self,
        url: str | None,
        environ: Mapping[str, str],
        path: str = PATH,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Raises ValueError for an unusable URL, OSError for a key that can't be read."""
        self._posts_to = path
        self._url = url or environ.get("OFU_EXPORTER_URL") or ""
        self._environ = environ
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None
        self._path = ""
        with suppress(TimeoutError):  # the loop waits here; whoever posts opens it again
            SlowDisk().ask(partial(_open, self.where, environ, timeout))

    @property
    def where(self) -> str:
        """The agent's address. Without a URL it is the agent's socket, which may appear later, otherwise loopback."""
        return self._url or default_url()

    def post(self, body: bytes, token: str) -> AgentAnswer:
        """Send one report. Raises OSError, HTTPException or ValueError; the connection is then closed."""
        was_open = self._connection is not None
        try:
            return self._post(body, token)
        except _ENDED:
            self.close()
            if not was_open:
                raise
        except BaseException:
            self.close()
            raise
        # The agent closes a connection that was idle for long. If it got this report anyway, it refuses the second
        # one as an overlap.
        return self.post(body, token)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: bytes, token: str) -> AgentAnswer:
        if self._connection is None:
            self._connection, folder = _open(self.where, self._environ, self._timeout)
            self._path = folder + self._posts_to
        if self._connection.sock is None:
            self._connection.connect()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            if not isinstance(self._connection, http.client.HTTPSConnection):  # has a certificate
                refuse_stranger(self._connection.sock, self._environ)
            headers["Authorization"] = f"Bearer {token}"
        self._connection.request("POST", self._path, body, headers)
        with self._connection.getresponse() as response:
            content = response.read(LONGEST_ANSWER + 1)
            if len(content) > LONGEST_ANSWER:
                raise ValueError("the answer is longer than an agent's")
            return AgentAnswer(response.status, content, response.headers.get("Retry-After", ""))


def _open(
    url: str, environ: Mapping[str, str], timeout: float
) -> tuple[http.client.HTTPConnection, str]:
    """An unconnected connection, and the path below which the agent is. Raises ValueError and OSError."""
    if url.startswith("unix:"):
        path = url.removeprefix("unix:").removeprefix("//")
        if not path.startswith("/"):
            raise ValueError(f"{url}: unix: must be followed by an absolute path")
        return _UnixConnection(path, timeout), ""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = re.sub(r"//.*@", "//", url)  # without a password
        raise ValueError(f"{shown}: not an http://, https:// or unix: address")
    try:
        parts.port  # noqa: B018 - it is checked when it is read
    except ValueError:  # whose text may quote a part of a password
        message = "its port is no number (in a password, / is written %2F and @ is %40)"
        raise ValueError(message) from None
    path = parts.path.rstrip("/")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, port, timeout=timeout), path
    context = trust(environ)
    return http.client.HTTPSConnection(parts.hostname, port, timeout=timeout, context=context), path


def trust(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Trusted authorities and the job's own certificate. The files are read again for each connection."""
    authorities, certificate, key = (environ.get(name) or None for name in TLS_VARIABLES)
    context = ssl.create_default_context(cafile=authorities)
    if certificate:
        context.load_cert_chain(certificate, key)
    return context
