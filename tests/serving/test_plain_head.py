"""Plain heads: what is taken for one, h11 and llhttp read in the same way, to the last byte."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import h11
import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.client.channel import Channel
from ofu_exporter.serving.plain_head import plain_head
from tests.helpers.agent import SOON
from tests.helpers.odd_requests import ODD_REQUESTS, PLAIN, mutated

PLAIN_ONES = {
    *("plain", "keep-alive", "query", "fragment", "two slashes", "backslash", "percent signs"),
    *("angle brackets", "three at once", "long target", "long value", "many headers"),
    *("length", "no length", "length of 0", "length with zeros before it", "length in capitals"),
    *("a request in the body", "length with an underscored name", "transfer with an underscore"),
    *("a reader's length", "a HEAD's length"),
}


class Llhttp:
    """The first request in some bytes, by the parser of Node.js."""

    def __init__(self, data: bytes) -> None:
        self.target = self.body = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_whole = False
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(data)
        self.method, self.version = parser.get_method(), parser.get_http_version()
        self.keeps = parser.should_keep_alive() and not parser.should_upgrade()

    def on_url(self, piece: bytes) -> None:
        self.target += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        assert not self.is_whole
        self.is_whole = True


def by_h11(data: bytes) -> tuple[h11.Request, bytes, bytes]:
    """The first request in some bytes, with its body and what follows."""
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(data)
    request, body = reader.next_event(), b""
    assert isinstance(request, h11.Request)
    while isinstance(event := reader.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage)
    assert reader.their_state is h11.DONE, "the connection is kept, for HTTP"
    return request, body, reader.trailing_data[0]


def assert_all_agree(data: bytes) -> bool:
    """Whether the bytes begin with a plain head; where they do, every parser finds the same request."""
    head = plain_head(data)
    if head is None:
        return False
    whole = data[: head.size] + b"#" * head.body_bytes
    request, body, rest = by_h11(whole + PLAIN)
    assert (request, body, rest) == (head.request, b"#" * head.body_bytes, PLAIN)
    found = Llhttp(whole)
    assert (found.method, found.target, found.version) == (request.method, request.target, "1.1")
    assert (found.headers, found.body) == ([*request.headers], body)
    assert found.is_whole
    assert found.keeps
    return True


@pytest.mark.parametrize("name", ODD_REQUESTS)
def test_what_is_odd_is_not_plain_and_what_is_plain_is_read_alike_by_all(name: str) -> None:
    assert assert_all_agree(ODD_REQUESTS[name]) is (name in PLAIN_ONES)


@given(mutated())
def test_whatever_is_taken_for_plain_all_parsers_read_alike(data: bytes) -> None:
    assert_all_agree(data)


@given(mutated(), st.integers(1, 40))
def test_no_part_of_a_head_is_a_head(data: bytes, cut: int) -> None:
    head = plain_head(data)
    if head is not None:
        assert plain_head(data[: max(head.size - cut, 0)]) is None


def test_what_h11_refuses_is_not_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise h11.LocalProtocolError("a rule that a later h11 may have")

    assert plain_head(PLAIN) is not None
    monkeypatch.setattr(h11, "Request", refuse)
    assert plain_head(PLAIN) is None


def test_a_scrape_of_prometheus_is_plain() -> None:
    scrape = (
        b"GET /metrics HTTP/1.1\r\nHost: node:9835\r\nUser-Agent: Prometheus/3.5.0\r\n"
        b"Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1\r\n"
        b"Accept-Encoding: gzip\r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n"
    )
    assert assert_all_agree(scrape)


def test_a_report_of_the_reporter_is_plain() -> None:
    heard = b""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        channel = Channel(f"http://127.0.0.1:{listening.getsockname()[1]}", {})
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(channel.post, b"{}", "")
            accepted, _ = listening.accept()
            with accepted:
                accepted.settimeout(SOON)
                while not heard.endswith(b"{}"):
                    heard += accepted.recv(65536)
                accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                assert answer.result(SOON).status == 200
        channel.close()
    assert assert_all_agree(heard)
