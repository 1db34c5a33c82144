"""Gets one answer over HTTP in bounded time and size, without redirects and proxies.

By hand over http.client: httpx has no limit on the time of a whole answer, and its import would make the command of
Slurm's epilog half as dear again (0.15 s of CPU for 0.10 s, 29 MiB for 22).
"""

from __future__ import annotations

import base64
import http.client
import io
import socket
import time
import urllib.parse
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

from ofu_exporter.errors import OfuError
from ofu_exporter.support.addresses import NO_URL, without_password
from ofu_exporter.support.bounded_body import TooLargeError, whole_body
from ofu_exporter.values.text import shown

if TYPE_CHECKING:
    import ssl

PROBLEMS = {
    401: "answers 401: reading is closed there. Root may read by the agent's Unix socket, others with "
    "OFU_EXPORTER_USER and OFU_EXPORTER_PASSWORD_FILE, or http://USER:PASSWORD@HOST:PORT",
    404: "answers 404: no agent, or an older one",
}
"""What a status means, said of the server."""


class ServerAccess:
    """How to be let in by a server, and whether it is the right one: this one lets everybody in, and the system's
    authorities vouch for it."""

    def check(self, connection: socket.socket) -> None:
        """See the connection before anything is sent. Raises what `get` shall raise."""

    def trust(self) -> ssl.SSLContext:
        """The TLS for https."""
        import ssl  # noqa: PLC0415 - most connections need none

        return ssl.create_default_context()

    def basic(self) -> tuple[str, str] | None:
        """User and password for a URL that has none."""
        return None


OPEN = ServerAccess()
NO_ANSWER = "does not answer"
MOST_WHY = 200
"""Letters of what a server said that was no HTTP."""


class Answer(NamedTuple):
    status: int
    body: bytes


class NoAnswerError(OfuError):
    """A server gave no such answer. The text says why, but does not name the server."""


class Limits(NamedTuple):
    """How long a whole answer may take, and how large it may be."""

    seconds: float
    most_bytes: int


def get(server: str, path: str, accept: str, limits: Limits, access: ServerAccess = OPEN) -> Answer:
    """The answer of a server: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`.

    A user and a password in the URL are sent along, else those of `access`. Only looking up a name is not bounded.
    Raises OSError, HTTPException or ValueError, and whatever `access` raises.
    """
    deadline = time.monotonic() + limits.seconds
    url = _split(server)
    host = url.netloc.rpartition("@")[2] or "localhost"
    path = path if url.scheme == "unix" else url.path.rstrip("/") + path
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", f"Accept: {accept}", "Connection: close"]
    credentials = _of_url(url) or access.basic()
    if credentials is not None:
        lines.append(
            f"Authorization: Basic {base64.b64encode(':'.join(credentials).encode()).decode()}"
        )
    request = "".join(f"{line}\r\n" for line in lines).encode("ascii") + b"\r\n"
    with _connected(url, limits.seconds, access) as connection:
        access.check(connection)
        connection.settimeout(_left(deadline))
        connection.sendall(request)
        received = whole_body(_pieces(connection, deadline), limits.most_bytes, deadline)
    response = http.client.HTTPResponse(
        SimpleNamespace(makefile=lambda _: io.BytesIO(received))  # type: ignore[arg-type]
    )
    response.begin()
    return Answer(response.status, response.read())


def content(
    server: str, path: str, accept: str, limits: Limits, access: ServerAccess = OPEN
) -> bytes:
    """The body of a server's answer. Raises NoAnswerError, and whatever `access` raises."""
    try:
        answer = get(server, path, accept, limits, access)
    except TooLargeError as error:
        raise NoAnswerError(f"answers with over {limits.most_bytes >> 20} MiB") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NoAnswerError(no_answer(error)) from error
    if answer.status != 200:
        raise NoAnswerError(PROBLEMS.get(answer.status, f"answers {answer.status}"))
    return answer.body


def shown_url(url: str) -> str:
    """The URL without a password, as it may be printed."""
    return shown(without_password(url))


def no_answer(error: Exception) -> str:
    """Why nothing came back, without a password."""
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    shown_why = shown_url(why)
    return (
        f"{NO_ANSWER}: {shown_why if len(shown_why) <= MOST_WHY else f'{shown_why[:MOST_WHY]}...'}"
    )


def _split(server: str) -> urllib.parse.SplitResult:
    """The parts of a URL. Raises ValueError, which does not quote it."""
    url = urllib.parse.urlsplit(server)
    try:
        url.port  # noqa: B018 - it is checked when it is read
    except ValueError:
        raise ValueError(NO_URL) from None
    return url


def _of_url(url: urllib.parse.SplitResult) -> tuple[str, str] | None:
    if url.username is None:
        return None
    return urllib.parse.unquote(url.username), urllib.parse.unquote(url.password or "")


def _connected(
    url: urllib.parse.SplitResult, seconds: float, access: ServerAccess
) -> socket.socket:
    if url.scheme == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        connection.connect(url.path)
        return connection
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"{url.geturl()}: not an http://, https:// or unix: address")
    port = url.port or (443 if url.scheme == "https" else 80)
    connection = socket.create_connection((url.hostname, port), timeout=seconds)
    if url.scheme == "http":
        return connection
    try:
        return access.trust().wrap_socket(connection, server_hostname=url.hostname)
    except BaseException:
        connection.close()
        raise


def _pieces(connection: socket.socket, deadline: float) -> Iterator[bytes]:
    """Everything that arrives until the other end closes the connection."""
    connection.settimeout(_left(deadline))
    while piece := connection.recv(1 << 16):
        yield piece
        connection.settimeout(_left(deadline))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
