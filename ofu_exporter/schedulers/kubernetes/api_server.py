"""Asks the Kubernetes API server, with the token that Kubernetes gives to pods that want one."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path

from ofu_exporter.errors import SchedulerError
from ofu_exporter.support.bounded_body import TooLargeError, whole_body
from ofu_exporter.values.reasons import SchedulerReason

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SECONDS = 5.0
"""Time for all requests over one connection together."""
MAX_ANSWER_BYTES = 16 << 20
_PIECE_BYTES = 1 << 16
_REASONS = {
    401: SchedulerReason.NO_PERMISSION,
    403: SchedulerReason.NO_PERMISSION,
    429: SchedulerReason.RATE_LIMITED,
}

Get = Callable[[str], object]
"""Requests a path; returns the JSON of the answer, None if there is no such object."""


class ApiServer:
    """The API server of the cluster that this program runs in."""

    def __init__(
        self,
        account: Path = ACCOUNT,
        environ: Mapping[str, str] = os.environ,
        seconds: float = SECONDS,
    ) -> None:
        self._account = account
        self._environ = environ
        self._seconds = seconds

    @property
    def configured(self) -> bool:
        """Whether this program was given a token."""
        return "KUBERNETES_SERVICE_HOST" in self._environ and (self._account / "token").exists()

    def create(self, path: str, document: object) -> object:
        """Post one object; returns what the API server made of it."""
        with self.connected() as ask:
            return ask(path, json.dumps(document))

    @contextlib.contextmanager
    def connected(self) -> Iterator[Callable[..., object]]:
        """A connection for a few questions (`Get`). Everything here raises SchedulerError."""
        try:
            connection, token = self._connection()
        except (OSError, ValueError) as error:
            raise SchedulerError(SchedulerReason.UNREACHABLE, f"API server: {error}") from error
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "Content-Type": "application/json",
        }
        late = threading.Event()
        # The connection's own timeout is for each piece of an answer; this limit is for all pieces together.
        guard = threading.Timer(self._seconds, _cut, (connection, late))
        guard.daemon = True
        guard.start()
        try:
            yield partial(_ask, connection, headers, late)
        finally:
            guard.cancel()
            connection.close()

    def _connection(self) -> tuple[HTTPSConnection, str]:
        """A connection and the token. Token and authority are read each time, because both are replaced while the pod
        runs."""
        host = self._environ.get("KUBERNETES_SERVICE_HOST")
        if not host:
            raise ValueError("KUBERNETES_SERVICE_HOST is not set")
        token = (self._account / "token").read_text("ascii").strip()
        if not token.isprintable():
            raise ValueError("the token file does not hold a token")  # its text stays secret
        context = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        port = int(self._environ.get("KUBERNETES_SERVICE_PORT", "443"))
        return HTTPSConnection(host, port, timeout=self._seconds, context=context), token


def _cut(connection: HTTPSConnection, late: threading.Event) -> None:
    late.set()
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            # The TLS socket's own shutdown would also take the socket apart while another thread reads from it.
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)


def _ask(
    connection: HTTPSConnection,
    headers: Mapping[str, str],
    late: threading.Event,
    path: str,
    body: str | None = None,
) -> object:
    """The JSON of an answer; None if there is no such object. A body is posted."""
    try:
        if late.is_set():
            raise TimeoutError
        connection.request("GET" if body is None else "POST", path, body, dict(headers))
        response = connection.getresponse()
        answer = _body(response)
    except (OSError, HTTPException) as error:
        what = "no answer in time" if late.is_set() else str(error) or type(error).__name__
        raise SchedulerError(SchedulerReason.UNREACHABLE, f"API server: {what}") from error
    if response.status == 404:
        return None
    if response.status not in (200, 201):
        reason = _REASONS.get(response.status, SchedulerReason.UNREACHABLE)
        detail = f"API server: {response.status} for {path}"
        raise SchedulerError(reason, detail)
    try:
        return json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise SchedulerError(SchedulerReason.BAD_ANSWER, f"API server: {path}: {error}") from error


def _body(response: HTTPResponse) -> bytes:
    pieces = iter(partial(response.read, _PIECE_BYTES), b"")
    try:
        return whole_body(pieces, MAX_ANSWER_BYTES, math.inf)  # the time is the guard's
    except TooLargeError:
        detail = f"API server: more than {MAX_ANSWER_BYTES} bytes"
        raise SchedulerError(SchedulerReason.TOO_LARGE, detail) from None
