"""Gives every peer its fair share of the event loop: requests wait in lines and are worked on one after the other."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from enum import Enum
from typing import Protocol

TURNS_BETWEEN = 4
"""Turns of the event loop from one request that writes, or was sent too early, to the next. A request that reads takes
five turns from its connection to its answer, so it waits for about one of those, however many there are."""


REST_SECONDS = 0.0005
"""Time after which one that writes need not wait for these turns: a request that reads has had its five."""


class TurnKind(Enum):
    """What a connection waits to go on with."""

    __hash__ = object.__hash__  # Enum's own is written in Python, and every turn needs some

    HELLO = "hello"
    """A TLS handshake, whose first byte is there. The newest goes first: it is the likeliest to be meant."""
    READ = "read"
    """The first bytes of a request that reads."""
    PIPELINED = "pipelined"
    """A request that was sent before the last one was answered; it waits while there is any other that reads, and as
    long as one that writes."""
    WRITE = "write"
    """All else: requests that write, and the rest of any request."""


_READS = (b"GET ", b"HEAD ")


def lane_of(begin: bytes) -> TurnKind:
    """Where a connection waits whose next bytes begin so."""
    return TurnKind.READ if begin.startswith(_READS) else TurnKind.WRITE


class Waiting(Protocol):
    """A connection that waits for its turn."""

    peer: str
    """The peer's address without its port; of IPv6 the /64 that it is in."""

    def go_on(self) -> None: ...


class FairLine:
    """A line in which every peer has one place, however many connections it has."""

    def __init__(self, newest_first: bool = False) -> None:
        self._newest_first = newest_first
        self._by_peer: OrderedDict[str, OrderedDict[Waiting, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._by_peer)

    def add(self, waiting: Waiting) -> None:
        self._by_peer.setdefault(waiting.peer, OrderedDict())[waiting] = None

    def take(self) -> Waiting | None:
        """The next in the line, without it from now on; its peer goes to the end."""
        if not self._by_peer:
            return None
        peer, line = self._by_peer.popitem(last=False)
        first, _ = line.popitem(last=self._newest_first)
        if line:
            self._by_peer[peer] = line
        return first

    def discard(self, waiting: Waiting) -> None:
        """Take somebody out who does not wait any more."""
        line = self._by_peer.get(waiting.peer)
        if line is not None:
            line.pop(waiting, None)
            if not line:
                del self._by_peer[waiting.peer]


class RequestQueue:
    """Lets one handshake and one request that reads go on in every turn of the loop, and one of the others in some."""

    def __init__(self) -> None:
        self._lines = {lane: FairLine(newest_first=lane is TurnKind.HELLO) for lane in TurnKind}
        self._left = 0
        self._wrote_at = -math.inf
        self._turning = False

    def add(self, waiting: Waiting, lane: TurnKind) -> None:
        """Let a connection wait; its `go_on` is called when it is its turn."""
        self._lines[lane].add(waiting)
        if not self._turning:
            self._turning = True
            loop = asyncio.get_running_loop()
            if loop.time() - self._wrote_at > REST_SECONDS:
                self._left = 0
            loop.call_soon(self._turn)

    def discard(self, waiting: Waiting) -> None:
        """Forget a connection that is closed."""
        for line in self._lines.values():
            line.discard(waiting)

    def _turn(self) -> None:
        """One turn of the event loop."""
        self._turning = False
        hello = self._lines[TurnKind.HELLO].take()
        reader, others = self._lines[TurnKind.READ].take(), []
        if not self._left:
            early = None if reader else self._lines[TurnKind.PIPELINED].take()
            others = [each for each in (early, self._lines[TurnKind.WRITE].take()) if each]
        self._left = TURNS_BETWEEN if others else max(0, self._left - 1)
        loop = asyncio.get_running_loop()
        if others:
            self._wrote_at = loop.time()
        if any(self._lines.values()):
            self._turning = True
            loop.call_soon(self._turn)
        for waiting in (reader, hello, *others):
            if waiting is not None:
                waiting.go_on()
