"""Connections: none keeps us waiting for long, and too many do not keep a reader out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ofu_exporter.connections import MOST_CONNECTIONS, Crowd, Phase
from ofu_exporter.http_limits import Receive, Scope, Send
from ofu_exporter.server import Doors
from tests.making import FakeClock
from tests.running import until
from tests.serving import Client, post, serving, tell

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(0.0)


@pytest.fixture
def doors(clock: FakeClock) -> Iterator[Doors]:
    with serving(tell, Crowd(most=4, clock=clock)) as doors:
        yield doors


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


@pytest.mark.parametrize("so_far", STILL)
def test_whoever_keeps_us_waiting_is_closed(
    doors: Doors, clock: FakeClock, so_far: Callable[[Client], None]
) -> None:
    with Client(doors) as client:
        so_far(client)
        with Client(doors) as later:  # what was sent before is known to have come in
            one_answer(later)
        clock.now += Phase.BODY.value + 0.1
        assert client.is_closed()


def test_more_bytes_of_the_same_head_buy_no_time(doors: Doors, clock: FakeClock) -> None:
    with Client(doors) as client, Client(doors) as other:
        client.send(GET[:20])
        for byte in GET[20:-2]:
            clock.now += 4 * Phase.HEAD.value / len(GET)
            client.send(bytes([byte]))
            one_answer(other)
        assert client.is_closed()


def test_work_of_ours_is_waited_for(clock: FakeClock) -> None:
    begun: list[bool] = []
    done: list[bool] = []

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(True)
        while not done:
            await asyncio.sleep(0.01)
        await tell(scope, receive, send)

    with serving(slow, Crowd(clock=clock)) as doors, Client(doors) as client:
        client.send(GET)
        with Client(doors) as idle:
            until(lambda: begun)
            clock.now = 1e6
            assert idle.is_closed(), "a sweep has been"
        done.append(True)
        assert client.answer()[0] == 200


def test_an_answer_that_nobody_takes_is_given_up(clock: FakeClock) -> None:
    page = os.urandom(32 << 20)

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/metrics":
            await tell(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": page})

    with (
        serving(large, Crowd(clock=clock)) as doors,
        Client(doors) as idle,
        Client(doors) as client,
    ):
        client.send(GET.replace(b"/metrics", b"/large"))
        client._bytes(1000)
        one_answer(idle)  # all of it is under way
        clock.now += Phase.ANSWER.value + 0.1
        assert idle.is_closed(), "a sweep has been"
        with pytest.raises((AssertionError, ConnectionError)):
            client._bytes(len(page))


@pytest.mark.parametrize("so_far", STILL)
def test_the_one_that_stood_still_for_longest_gives_way(
    doors: Doors, clock: FakeClock, so_far: Callable[[Client], None]
) -> None:
    with ExitStack() as stack:
        crowd = []
        for _ in range(4):
            clock.now += 0.1
            crowd.append(stack.enter_context(Client(doors)))
            so_far(crowd[-1])
        one_answer(stack.enter_context(Client(doors)))
        assert crowd[0].is_closed()


def test_when_all_are_being_answered_one_is_lost_all_the_same(clock: FakeClock) -> None:
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/wait":
            await asyncio.Event().wait()
        await tell(scope, receive, send)

    with serving(never, Crowd(most=2, clock=clock)) as doors, ExitStack() as stack:
        waiting = [stack.enter_context(Client(doors)) for _ in range(2)]
        for client in waiting:
            client.send(GET.replace(b"/metrics", b"/wait"))
        one_answer(stack.enter_context(Client(doors)))


@pytest.mark.parametrize("so_far", [begin, half_a_head, half_a_body])
def test_a_flood_keeps_no_reader_out(so_far: Callable[[Client], None]) -> None:
    with serving(tell) as doors, ExitStack() as stack:
        for number in range(600):
            so_far(stack.enter_context(Client(doors)))
            if number % 50 == 0 or number > MOST_CONNECTIONS:
                with Client(doors) as reader:
                    one_answer(reader)
