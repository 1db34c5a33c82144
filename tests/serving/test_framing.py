"""A request whose end two programs could find in two places ends its connection."""

from __future__ import annotations

import pytest

from ofu_exporter.serving.framing import LONGEST_BODY, framed
from tests.helpers.odd_requests import HIDDEN
from tests.helpers.server import Client, serving, tell

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize("length", [LONGEST_BODY + 1, 1 << 32, 1 << 63, 1 << 64])
def test_a_length_that_a_proxy_may_not_hold_is_refused_at_once(length: int) -> None:
    with serving(framed(tell)) as listeners, Client(listeners) as client:
        client.send(GET + b"Content-Length: %d\r\n\r\n" % length + HIDDEN)
        status, headers, _ = client.answer()
        assert (status, headers["connection"]) == (413, "close")
        assert client.is_closed()


def test_both_a_length_and_chunks_are_refused_and_nothing_behind_them_is_read() -> None:
    with serving(framed(tell)) as listeners, Client(listeners) as client:
        body = b"%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n"
        client.send(GET + CHUNKED + b"Content-Length: 4\r\n\r\n" + body + HIDDEN)
        status, headers, _ = client.answer()
        assert (status, headers["connection"]) == (400, "close")
        assert client.is_closed()


@pytest.mark.parametrize("end", [b"", b"Content-Length: 0\r\n"])
def test_one_end_is_one_end(end: bytes) -> None:
    with serving(framed(tell)) as listeners, Client(listeners) as client:
        for _ in range(2):
            client.send(GET + end + b"\r\n")
            assert client.answer()[0] == 200
