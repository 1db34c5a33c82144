"""A request whose end two programs could find in two places ends its connection; others are read as by uvicorn."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from ofu_exporter.serving.connections import READ_BYTES
from ofu_exporter.serving.layers import LONGEST_BODY, refuse_two_ends
from tests.helpers.odd_requests import HIDDEN, ODD_REQUESTS, PLAIN
from tests.helpers.server import Client, behind, serving, tell

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize("length", [LONGEST_BODY + 1, 1 << 32, 1 << 63, 1 << 64])
def test_a_length_that_a_proxy_may_not_hold_is_refused_at_once(length: int) -> None:
    with serving(behind(refuse_two_ends, tell)) as listeners, Client(listeners) as client:
        client.send(GET + b"Content-Length: %d\r\n\r\n" % length + HIDDEN)
        status, headers, _ = client.answer()
        assert (status, headers["connection"]) == (413, "close")
        assert client.is_closed()


def test_both_a_length_and_chunks_are_refused_and_nothing_behind_them_is_read() -> None:
    with serving(behind(refuse_two_ends, tell)) as listeners, Client(listeners) as client:
        body = b"%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n"
        client.send(GET + CHUNKED + b"Content-Length: 4\r\n\r\n" + body + HIDDEN)
        status, headers, _ = client.answer()
        assert (status, headers["connection"]) == (400, "close")
        assert client.is_closed()


@pytest.mark.parametrize("end", [b"", b"Content-Length: 0\r\n"])
def test_one_end_is_one_end(end: bytes) -> None:
    with serving(behind(refuse_two_ends, tell)) as listeners, Client(listeners) as client:
        for _ in range(2):
            client.send(GET + end + b"\r\n")
            assert client.answer()[0] == 200


Seen = tuple[bytes, bytes, tuple[tuple[bytes, bytes], ...], bytes]
"""Method, target, headers and body of a request that has reached the application as a whole."""
REFUSED = {
    "length and chunked",
    "chunked and length",
    "length hides what chunks show",
    "length above 64 bits",
    *("endless target", "endless value", "endless headers", "endless extension", "endless trailer"),
}
"""What uvicorn alone gives to an application: two ends, lengths that proxies cannot hold, endless heads at once."""


class Witness:
    """An application that tells of every request."""

    def __init__(self) -> None:
        self.seen: dict[int, list[Seen]] = {}
        """By the client's port."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        target = scope["raw_path"] + b"?" * bool(scope["query_string"]) + scope["query_string"]
        seen = (scope["method"].encode(), target, tuple(scope["headers"]), body)
        self.seen.setdefault(scope["client"][1], []).append(seen)
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


@contextlib.contextmanager
def ours(app: ASGIApp) -> Iterator[tuple[str, int]]:
    with serving(behind(refuse_two_ends, app)) as listeners:
        yield listeners.address.getsockname()[:2]


@contextlib.contextmanager
def uvicorns(app: ASGIApp) -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            app,
            http="h11",
            h11_max_incomplete_event_size=READ_BYTES,
            ws="none",
            lifespan="off",
            log_config=None,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield listening.getsockname()[:2]
        server.should_exit = True
        thread.join()


def read_by(address: tuple[str, int], witness: Witness, data: bytes) -> list[Seen]:
    """What the application sees of what a client sends that says no more after it."""
    with socket.create_connection(address, 20) as client:
        port = client.getsockname()[1]
        with contextlib.suppress(ConnectionError):
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
    return witness.seen.get(port, [])


def test_every_odd_request_is_read_as_by_uvicorn_alone_or_refused() -> None:
    found = []
    for server in (ours, uvicorns):
        witness = Witness()
        with server(witness) as address:
            found.append({k: read_by(address, witness, v + PLAIN) for k, v in ODD_REQUESTS.items()})
    by_us, by_uvicorn = found
    differ = {name for name in ODD_REQUESTS if by_us[name] != by_uvicorn[name]}
    assert {name: by_us[name] for name in REFUSED} == {name: [] for name in REFUSED}
    assert differ - REFUSED == set()
