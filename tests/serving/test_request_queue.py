"""Turns: every peer has its share, whatever it sends and however many connections it has."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from ofu_exporter.serving.request_queue import (
    REST_SECONDS,
    TURNS_BETWEEN,
    FairLine,
    RequestQueue,
    TurnKind,
)


class Client:
    """Somebody who waits, and writes down when it was their turn."""

    def __init__(self, peer: str, book: list[Client]) -> None:
        self.peer = peer
        self._book = book

    def go_on(self) -> None:
        self._book.append(self)


def served(*waiting: tuple[str, TurnKind], turns: int = 1000) -> list[str]:
    """The peers in the order of their turns."""
    book: list[Client] = []

    async def run() -> None:
        queue = RequestQueue()
        for peer, lane in waiting:
            queue.add(Client(peer, book), lane)
        for _ in range(turns):
            await asyncio.sleep(0)

    asyncio.run(run())
    return [client.peer for client in book]


def test_one_of_many_peers_waits_for_one_request_of_each_other() -> None:
    order = served(
        *[("flood", TurnKind.READ)] * 500, ("other", TurnKind.READ), ("third", TurnKind.READ)
    )
    assert order.index("other") <= 2
    assert order.index("third") <= 3
    assert len(order) == 502, "nobody is forgotten"


def test_what_was_sent_too_early_waits_for_all_that_reads() -> None:
    order = served(*[("flood", TurnKind.PIPELINED)] * 50, *[("same", TurnKind.READ)] * 20)
    assert order[:20] == ["same"] * 20


def test_requests_that_write_go_on_between_those_that_read() -> None:
    order = served(*[("w", TurnKind.WRITE)] * 10, *[("r", TurnKind.READ)] * 200)
    gaps = [position for position, peer in enumerate(order) if peer == "w"]
    assert len(gaps) == 10
    assert all(later - earlier >= TURNS_BETWEEN for earlier, later in itertools.pairwise(gaps))


def turns_of_the_second(pause: float) -> int:
    """Turns that the second of two requests that write waits for, which comes a while after the first."""
    book: list[Client] = []

    async def run() -> int:
        queue = RequestQueue()
        queue.add(Client("a", book), TurnKind.WRITE)
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        came_at = loop.time() + pause
        while loop.time() < came_at:
            pass
        queue.add(Client("b", book), TurnKind.WRITE)
        for turn in range(100):
            if len(book) == 2:
                return turn
            await asyncio.sleep(0)
        raise AssertionError(book)

    return asyncio.run(run())


def test_one_that_writes_does_not_wait_where_the_last_was_a_while_ago() -> None:
    assert turns_of_the_second(10 * REST_SECONDS) == 1


def test_nothing_turns_while_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    turned: list[None] = []
    whole = RequestQueue._turn

    def counted(queue: RequestQueue) -> None:
        turned.append(None)
        whole(queue)

    monkeypatch.setattr(RequestQueue, "_turn", counted)
    assert served(("w", TurnKind.WRITE)) == ["w"]
    assert len(turned) == 1


def test_a_handshake_is_not_starved_by_those_that_read() -> None:
    order = served(*[("r", TurnKind.READ)] * 100, ("new", TurnKind.HELLO))
    assert order.index("new") <= 1


def test_who_leaves_has_no_turn_and_leaves_nothing_behind() -> None:
    book: list[Client] = []
    line = FairLine(newest_first=True)
    clients = [Client("a", book) for _ in range(3)]
    for client in clients:
        line.add(client)
    line.discard(clients[2])
    assert line.take() is clients[1], "the newest that is left"
    line.discard(clients[0])
    line.discard(clients[0])
    assert not line
    assert line.take() is None
