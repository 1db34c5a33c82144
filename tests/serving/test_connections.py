"""Connections: none keeps us waiting for long, and too many do not keep a reader out."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from ofu_exporter.serving.access import Access
from ofu_exporter.serving.connection_limit import MOST_CONNECTIONS, ConnectionLimit, RequestPhase
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.listeners import Listeners
from tests.helpers.agent import until
from tests.helpers.server import Client, behind, post, serving, tell
from tests.helpers.values import FakeClock

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(0.0)


@pytest.fixture
def listeners(clock: FakeClock) -> Iterator[Listeners]:
    with serving(tell, ConnectionLimit(most=4, clock=clock)) as listeners:
        yield listeners


def begin(client: Client) -> None:
    """Nothing at all."""


def half_a_head(client: Client) -> None:
    client.send(GET[:-2])


def half_a_body(client: Client) -> None:
    client.send(post(10), b"{")


def one_answer(client: Client) -> None:
    client.send(GET)
    assert client.answer()[0] == 200


def answer_and_half_a_head(client: Client) -> None:
    one_answer(client)
    client.send(GET[:-2])


STILL = [begin, half_a_head, half_a_body, one_answer, answer_and_half_a_head]


@pytest.mark.slow
@pytest.mark.parametrize("so_far", STILL)
def test_whoever_keeps_us_waiting_is_closed(
    listeners: Listeners, clock: FakeClock, so_far: Callable[[Client], None]
) -> None:
    with Client(listeners) as client:
        so_far(client)
        with Client(listeners) as later:  # what was sent before is known to have come in
            one_answer(later)
        clock.now += RequestPhase.BODY.patience + 0.1
        assert client.is_closed()


@pytest.mark.slow
def test_more_bytes_of_the_same_head_buy_no_time(listeners: Listeners, clock: FakeClock) -> None:
    with Client(listeners) as client, Client(listeners) as other:
        client.send(GET[:20])
        for byte in GET[20:-2]:
            clock.now += 4 * RequestPhase.HEAD.patience / len(GET)
            client.send(bytes([byte]))
            one_answer(other)
        assert client.is_closed()


@pytest.mark.slow
def test_work_of_ours_is_waited_for(clock: FakeClock) -> None:
    begun: list[bool] = []
    done: list[bool] = []

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(True)
        while not done:
            await asyncio.sleep(0.01)
        await tell(scope, receive, send)

    with (
        serving(slow, ConnectionLimit(clock=clock)) as listeners,
        Client(listeners) as idle,
        Client(listeners) as client,
    ):
        client.send(GET)
        until(lambda: begun)  # and so the one that came before is in, too
        clock.now = 1e6
        assert idle.is_closed(), "a sweep has been"
        done.append(True)
        assert client.answer()[0] == 200


@pytest.mark.slow
def test_an_answer_that_nobody_takes_is_given_up(clock: FakeClock) -> None:
    page = os.urandom(32 << 20)

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/metrics":
            await tell(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": page})

    with (
        serving(large, ConnectionLimit(clock=clock)) as listeners,
        Client(listeners) as idle,
        Client(listeners) as client,
    ):
        client.send(GET.replace(b"/metrics", b"/large"))
        client._bytes(1000)
        one_answer(idle)  # all of it is under way
        clock.now += RequestPhase.ANSWER.patience + 0.1
        assert idle.is_closed(), "a sweep has been"
        with pytest.raises((AssertionError, ConnectionError)):
            client._bytes(len(page))


@pytest.mark.parametrize("so_far", STILL)
def test_the_one_that_stood_still_for_longest_gives_way(
    listeners: Listeners, clock: FakeClock, so_far: Callable[[Client], None]
) -> None:
    with ExitStack() as stack:
        witness = stack.enter_context(Client(listeners))
        still = []
        for _ in range(3):
            clock.now += 0.1
            still.append(stack.enter_context(Client(listeners)))
            so_far(still[-1])
            for _ in range(2):  # what was sent before is known to have come in
                one_answer(witness)
        one_answer(stack.enter_context(Client(listeners)))
        assert still[0].is_closed()


@pytest.mark.slow
def test_when_all_are_being_answered_one_is_lost_all_the_same(clock: FakeClock) -> None:
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/wait":
            await asyncio.Event().wait()
        await tell(scope, receive, send)

    with serving(never, ConnectionLimit(most=2, clock=clock)) as listeners, ExitStack() as stack:
        waiting = [stack.enter_context(Client(listeners)) for _ in range(2)]
        for client in waiting:
            client.send(GET.replace(b"/metrics", b"/wait"))
        one_answer(stack.enter_context(Client(listeners)))


@pytest.mark.slow
@pytest.mark.parametrize("so_far", [begin, half_a_head, half_a_body])
def test_a_flood_keeps_no_reader_out(so_far: Callable[[Client], None]) -> None:
    with serving(tell) as listeners, ExitStack() as stack:
        for number in range(600):
            so_far(stack.enter_context(Client(listeners)))
            if number % 50 == 0 or number > MOST_CONNECTIONS:
                with Client(listeners) as reader:
                    one_answer(reader)


class Busy:
    """An application that notes who asked, and stands still while it is told to, with the whole event loop."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.free = threading.Event()
        self.free.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope["path"])
        self.free.wait()
        await tell(scope, receive, send)

    @contextmanager
    def held(self, listeners: Listeners) -> Iterator[None]:
        """What is sent in this block comes in all at once, at its end."""
        with Client(listeners) as client:
            self.free.clear()
            client.send(GET.replace(b"/metrics", b"/hold"))
            until(lambda: "/hold" in self.asked)
            yield
            self.free.set()
            client.answer()


@contextmanager
def crowd_of(listeners: Listeners, count: int) -> Iterator[list[Client]]:
    """Some clients, each of which has been answered once."""
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(listeners)) for _ in range(count)]
        for client in clients:
            one_answer(client)
        yield clients


def test_a_reader_waits_for_few_of_the_reports_that_came_before_it() -> None:
    app = Busy()
    guarded = behind(Guard(Access()).check, app)
    with serving(guarded) as listeners, crowd_of(listeners, 33) as (reader, *writers):
        app.asked.clear()
        with app.held(listeners):
            for writer in writers:
                writer.send(post(2), b"{}")
            reader.send(GET)
        for client in (reader, *writers):
            assert client.answer()[0] == 200
    assert app.asked.count("/v1/mfu") == 32
    assert app.asked[1:].index("/metrics") <= 2


def test_a_report_in_many_pieces_is_put_together_in_their_order() -> None:
    app = Busy()
    with serving(app) as listeners, crowd_of(listeners, 17) as (whole, *others):
        for piece in (post(100_000), b"{" + b" " * 49_998, b" " * 50_000, b"}"):
            with app.held(listeners):
                whole.send(piece)
                for other in others:
                    other.send(post(2), b"{}")
            for other in others:
                assert other.answer()[0] == 200
        assert sum(whole.answer()[2]["pieces"]) == 100_000


def test_a_client_that_leaves_the_line_takes_nobody_with_it() -> None:
    app = Busy()
    with serving(app) as listeners, crowd_of(listeners, 9) as (first, leaving, *others):
        app.asked.clear()
        with app.held(listeners):
            for writer in (first, leaving, *others):
                writer.send(post(2), b"{}")
            leaving.socket.close()
        for writer in (first, *others):
            assert writer.answer()[0] == 200


HEAD = b"HEAD /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
NO_CHUNK = b"no size\r\n"


@pytest.mark.parametrize("at_once", [True, False])
def test_a_body_that_is_none_is_refused_and_is_no_error_of_ours(
    at_once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        kind = (await receive())["type"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})
        seen.append(kind)

    with serving(read) as listeners, Client(listeners) as client:
        client.send(post() + NO_CHUNK) if at_once else client.send(post(), NO_CHUNK)
        assert client._until(b"\r\n").startswith(b"HTTP/1.1 400 ")
        until(lambda: seen)
    assert seen == ["http.disconnect"]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_body_that_is_none_ends_a_connection_whose_answer_has_begun(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[bool] = []

    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}", "more_body": True})
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.body", "body": b""})
        done.append(True)

    with serving(early) as listeners, Client(listeners) as client:
        client.send(post())
        assert client.answer()[0] == 403
        client.send(NO_CHUNK)
        assert client.is_closed()
        until(lambda: done)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.slow
def test_each_answer_has_the_time_of_its_second(
    listeners: Listeners, monkeypatch: pytest.MonkeyPatch
) -> None:
    def date() -> str:
        with Client(listeners) as client:
            client.send(GET)
            return client.answer()[1]["date"]

    monkeypatch.setattr(time, "time", lambda: 784111777.9)  # RFC 9110, 5.6.7
    until(lambda: date() == "Sun, 06 Nov 1994 08:49:37 GMT")
    monkeypatch.setattr(time, "time", lambda: 784111778.0)
    until(lambda: date() == "Sun, 06 Nov 1994 08:49:38 GMT")


@pytest.mark.parametrize("path", ["/metrics", "/large"])
def test_a_client_that_sends_no_more_has_its_answer(path: str) -> None:
    """It has closed its half of the connection before the answer, as `nc -N` and many proxies do."""
    begun: list[bool] = []

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(True)
        await asyncio.sleep(0.05)
        await tell(scope, receive, send)

    with serving(slow) as listeners, Client(listeners) as client:
        client.send(post(2, path=path), b"{}")
        client.socket.shutdown(socket.SHUT_WR)
        assert client.answer()[0] == 200
        assert client.is_closed()
    assert begun == [True]


def test_a_head_whose_body_is_none_ends_its_connection_and_is_no_error_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def healthy(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("{}")(scope, receive, send)

    with serving(healthy) as listeners, crowd_of(listeners, 3) as (first, *others):
        for client in (first, *others):
            client.send(HEAD + b"zz")
        for client in (first, *others):
            assert client.is_closed() or client._until(b"\r\n").startswith(b"TTP/1.1 ")
        with Client(listeners) as next_one:
            one_answer(next_one)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
