"""Gives every peer its fair share of the event loop: requests wait in lines and are worked on one after the other."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from enum import Enum
from typing import Protocol

TURNS_BETWEEN = 4
"""Turns of the event loop from one request that writes to the next. A request that reads takes five turns from its
connection to its answer, so it waits for about one that writes, however many there are."""


class Lane(Enum):
    """What a connection waits to go on with; the first lane goes first."""

    READ = "read"
    """The first bytes of a request that reads."""
    PIPELINED = "pipelined"
    """A request that was sent before the last one was answered."""
    WRITE = "write"
    """All else: requests that write, and the rest of any request."""


class Waiting(Protocol):
    """A connection that waits for its turn."""

    peer: str
    """The peer's address without its port."""

    def is_closing(self) -> bool: ...

    def go_on(self) -> None: ...


class FairLine:
    """A line in which every peer has one place, however many connections it has."""

    def __init__(self) -> None:
        self._by_peer: OrderedDict[str, deque[Waiting]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._by_peer)

    def add(self, waiting: Waiting) -> None:
        self._by_peer.setdefault(waiting.peer, deque()).append(waiting)

    def take(self) -> Waiting | None:
        """The next that is still there; its peer goes to the end of the line."""
        while self._by_peer:
            peer, line = self._by_peer.popitem(last=False)
            first = line.popleft()
            if line:
                self._by_peer[peer] = line
            if not first.is_closing():
                return first
        return None


class RequestQueue:
    """Lets one request that reads go on in every turn of the event loop, and one that writes in every fifth."""

    def __init__(self) -> None:
        self._lines = {lane: FairLine() for lane in Lane}
        self._left = 0
        self._turning = False

    def add(self, waiting: Waiting, lane: Lane) -> None:
        """Let a connection wait; its `go_on` is called when it is its turn."""
        self._lines[lane].add(waiting)
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """One turn of the event loop."""
        self._turning = False
        reader = self._lines[Lane.READ].take() or self._lines[Lane.PIPELINED].take()
        writer = None if self._left else self._lines[Lane.WRITE].take()
        self._left = TURNS_BETWEEN if writer is not None else max(0, self._left - 1)
        if self._left or any(self._lines.values()):
            self._turning = True
            asyncio.get_running_loop().call_soon(self._turn)
        for waiting in (reader, writer):
            if waiting is not None:
                waiting.go_on()
