"""An answer is bounded in time and size however it comes, over real sockets that misbehave on purpose."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ofu_exporter.support.bounded_get import (
    Answer,
    Limits,
    NoAnswerError,
    ServerAccess,
    content,
    get,
    shown_url,
)
from tests.helpers.agent import until
from tests.helpers.every import every
from tests.helpers.passwords import basic

SHORT = Limits(seconds=0.5, most_bytes=10_000)
GENEROUS = Limits(seconds=20.0, most_bytes=10_000)
BOUND = 10.0
"""Far above the limit of half a second and far below what the server would take."""


@contextlib.contextmanager
def server(behave: Callable[[socket.socket], object]) -> Iterator[tuple[str, list[bytes]]]:
    """Serves every connection on a thread of its own; gives the URL and what was asked."""
    asked: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            asked.append(connection.recv(65536))
            behave(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = listening.accept()[0]
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
        listening.shutdown(socket.SHUT_RDWR)


def drip(data: bytes) -> Callable[[socket.socket], None]:
    """A byte every 50 ms, each well within any limit on one read."""

    def behave(connection: socket.socket) -> None:
        for at in range(len(data)):
            connection.sendall(data[at : at + 1])
            time.sleep(0.05)

    return behave


def whole(data: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(data)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


@pytest.mark.parametrize(
    "slow",
    [
        HEAD + b"hello" + b" " * 2000,
        b"HTTP/1.1 200 OK\r\n" + b"X-Header: x\r\n" * 500,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 500,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 500,
    ],
    ids=["body", "headers", "chunks", "continues"],
)
def test_a_server_that_drips_is_left_at_the_end_of_the_time(slow: bytes) -> None:
    with server(drip(slow)) as (url, _):
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="timed out"):
            get(url, "/", "text/plain", SHORT)
        assert time.monotonic() - began < BOUND


def test_an_answer_that_does_not_end_is_left_at_its_largest_size() -> None:
    def endless(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"x" * 65536)

    with server(endless) as (url, _), pytest.raises(ValueError, match="larger than 10000 bytes"):
        get(url, "/", "text/plain", GENEROUS)


def test_no_redirect_is_followed_and_no_proxy_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with server(whole(HEAD + b"hello")) as (target, asked):
        moved = f"HTTP/1.1 302 Found\r\nLocation: {target}/\r\nContent-Length: 0\r\n\r\n"
        with server(whole(moved.encode())) as (url, _):
            assert get(url, "/", "text/plain", GENEROUS) == Answer(302, b"")
        assert asked == []
        assert get(target, "/v1/jobs/7", "text/plain", GENEROUS) == Answer(200, b"hello")
    assert asked[0].startswith(b"GET /v1/jobs/7 HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize(
    "wrong",
    [b"", b"hello\r\n", HEAD + b"hell", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n"],
    ids=["nothing", "no HTTP", "cut short", "too many headers"],
)
def test_what_is_no_answer_is_an_error_of_http(wrong: bytes) -> None:
    with server(whole(wrong)) as (url, _), pytest.raises(http.client.HTTPException):
        get(url, "/", "text/plain", GENEROUS)


def test_nothing_is_sent_before_the_connection_was_looked_at() -> None:
    class Refusing(ServerAccess):
        def check(self, connection: socket.socket) -> None:  # noqa: ARG002 - a protocol has it
            raise PermissionError("no")

    with server(whole(HEAD + b"hello")) as (url, asked):
        with pytest.raises(PermissionError):
            get(url, "/", "text/plain", GENEROUS, Refusing())
        until(lambda: asked)
        assert asked == [b""], "the connection was closed before anything was sent"


def test_a_server_that_speaks_no_tls_says_so() -> None:
    with server(whole(HEAD + b"hello")) as (url, _), pytest.raises(ssl.SSLError):
        get(url.replace("http:", "https:"), "/", "text/plain", GENEROUS)


@every(["ftp://127.0.0.1/", "127.0.0.1:9846", "", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not an http://, https:// or unix: address"):
        get(url, "/", "text/plain", SHORT)


def test_a_path_of_the_url_stands_before_what_is_asked() -> None:
    with server(whole(HEAD + b"hello")) as (url, asked):
        assert content(f"{url}/prometheus/", "/x", "text/plain", GENEROUS) == b"hello"
    assert asked[0].startswith(b"GET /prometheus/x HTTP/1.1\r\n")


def test_user_and_password_of_the_url_are_sent() -> None:
    with server(whole(HEAD + b"hello")) as (url, asked):
        named = url.replace("//", "//ada:a%3Ab%40c@")
        assert content(named, "/x", "text/plain", GENEROUS) == b"hello"
    assert f"\r\nAuthorization: {basic('ada', 'a:b@c')}\r\n".encode() in asked[0]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 401 No\r\n\r\n", "^answers 401: reading is closed"),
        (b"HTTP/1.1 404 No\r\n\r\n", "^answers 404: no agent, or an older one"),
        (b"HTTP/1.1 503 No\r\n\r\n", "^answers 503$"),
        (HEAD + b"x" * (2 << 20), "^answers with over 1 MiB"),
        (b"hello\r\n", "^does not answer: hello"),
    ],
)
def test_why_there_is_no_content_is_one_sentence(answer: bytes, words: str) -> None:
    with server(whole(answer)) as (url, _), pytest.raises(NoAnswerError, match=words):
        content(url, "/x", "text/plain", Limits(20.0, 1 << 20))


def test_nobody_there_is_one_sentence() -> None:
    with pytest.raises(NoAnswerError, match="does not answer: Connection refused"):
        content("http://127.0.0.1:1", "/x", "text/plain", GENEROUS)
    with pytest.raises(NoAnswerError, match="not an http://") as raised:
        content("ftp://ada:secret@x", "/x", "text/plain", GENEROUS)
    assert "secret" not in str(raised.value)


def test_a_url_is_shown_without_its_password() -> None:
    assert shown_url("http://ada:secret@node1:9846") == "http://node1:9846"
    assert shown_url("unix:/run/\x1b.sock") == r"unix:/run/\x1b.sock"


def test_what_is_no_http_is_quoted_in_short() -> None:
    with (
        server(lambda connection: connection.sendall(b"x" * 9_000 + b"\n")) as (url, _),
        pytest.raises(NoAnswerError) as caught,
    ):
        content(url, "/", "text/plain", GENEROUS)
    assert "does not answer: xxx" in str(caught.value)
    assert len(str(caught.value)) < 300
