"""Bounds the open connections of a server: their number, what they may wait for, and for how long."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeVar

from ofu_exporter.serving.request_queue import RequestQueue, Waiting

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 512
FEWEST_CONNECTIONS = 16
"""Connections that are allowed however few descriptors the process may have."""
QUIET_SECONDS = 60.0
"""Shortest time between two log lines about a flood."""
READ_BYTES = 16 << 10
"""Most bytes that are read from a connection at once, and that it can hold while it waits for its turn."""
COLLECT_EVERY = 64
"""The garbage of closed TLS connections is collected after this many. They are cycles of objects, which look few and
small to Python: by itself it would let hundreds of MiB gather."""


class RequestPhase(Enum):
    """What a connection waits for, and the longest wait in seconds."""

    __hash__ = object.__hash__  # Enum's own is written in Python, and every request needs some

    HELLO = "hello", 10.0
    """The client: all of its first request's head, or of its first record of TLS."""
    TURN = "turn", float("inf")
    """Us: its turn to have that looked at."""
    HANDSHAKE = "handshake", 10.0
    """The client: the rest of the TLS handshake."""
    HEAD = "head", 10.0
    """The client: the next request, up to the end of its headers."""
    BODY = "body", 15.0
    """The client: the rest of the request. The limit on a report's body is shorter, and has an answer."""
    UNREAD = "unread", 30.0
    """The client: it has to take an answer that is too large to be under way as a whole."""
    ANSWER = "answer", 30.0
    """The client: it has to take the rest of the last answer."""
    WORK = "work", float("inf")
    """Us: the request is being worked on."""

    def __init__(self, _: str, patience: float) -> None:
        self.patience = patience


MOST_IN_PHASE = {RequestPhase.HANDSHAKE: 64, RequestPhase.UNREAD: 64}
"""Most connections in the phases that cost memory: keys and buffers of TLS, and a page for each."""
_UNFINISHED = (
    RequestPhase.HELLO,
    RequestPhase.TURN,
    RequestPhase.HANDSHAKE,
    RequestPhase.BODY,
    RequestPhase.UNREAD,
)


class Member(Waiting, Protocol):
    """A connection, as its limit sees it."""

    @property
    def patience(self) -> float: ...

    def abort(self) -> None: ...


class ConnectionLimit:
    """All connections of a server. Those that wait for their client are kept in the order in which they began to wait.

    When there are too many, one gives way. It is chosen in three steps: of the peer with most connections; of these,
    one that waits for what most of them wait for; of these, the one that has waited longest. A client that asks at
    once, as Prometheus does, is never chosen. So a flood of silent, slow or deaf connections keeps nobody out.
    """

    def __init__(
        self, most: int = MOST_CONNECTIONS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.queue = RequestQueue()
        self.buffer = memoryview(bytearray(READ_BYTES))
        """Every connection is read into this buffer; the bytes are copied before the next connection is read."""
        self.most = most
        self.occupied = asyncio.Event()
        """Set while a connection is open."""
        self._clock = clock
        self._all: dict[Member, None] = {}
        self._waiting: OrderedDict[Member, tuple[RequestPhase, float]] = OrderedDict()
        self._peers: Counter[str] = Counter()
        self._crowds: Counter[tuple[str, RequestPhase]] = Counter()
        """These two count the connections that wait: by peer, and by peer and phase."""
        self._logged_at = float("-inf")
        self._garbage = 0

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, newcomer: Member) -> None:
        """Add a connection that was just accepted. When there are too many, another is closed."""
        if len(self._all) >= self.most:
            self._log_flood()
            self.make_room()
        self._all[newcomer] = None
        self.occupied.set()

    def _log_flood(self) -> None:
        now = self._clock()
        if now - self._logged_at > QUIET_SECONDS:
            self._logged_at = now
            log.warning("%d connections are open; the idlest are closed for new ones", self.most)

    def make_room(self) -> None:
        """Close one connection. When all are being answered, one is lost all the same."""
        if self._waiting:
            self.close(self._idlest())
        elif self._all:
            self.close(next(iter(self._all)))

    def _idlest(self) -> Member:
        most = max(self._peers.values())
        for member, (phase, _) in self._waiting.items():
            if self._peers[member.peer] == most and self._is_of_most(member.peer, phase):
                return member
        raise LookupError("no peer has most connections")

    def _is_of_most(self, peer: str, phase: RequestPhase) -> bool:
        """Whether no other phase has more of the peer's connections."""
        count = self._crowds[peer, phase]
        return all(self._crowds[peer, other] <= count for other in RequestPhase)

    def note(self, member: Member, phase: RequestPhase) -> None:
        """Note that a connection has just begun another phase. When too many are in it, one of these is closed."""
        self._forget(member)
        if phase is RequestPhase.WORK or member not in self._all:
            return
        self._waiting[member] = phase, self._clock()
        self._peers[member.peer] += 1
        self._crowds[member.peer, phase] += 1
        most = MOST_IN_PHASE.get(phase)
        if most is not None and len(inside := self._in_phases(phase)) > most:
            crowds = Counter(each.peer for each in inside)
            self.close(max(inside, key=lambda each: crowds[each.peer]))

    def _forget(self, member: Member) -> None:
        """The connection waits for nothing more."""
        waited = self._waiting.pop(member, None)
        if waited is not None:
            _count_down(self._peers, member.peer)
            _count_down(self._crowds, (member.peer, waited[0]))

    def _in_phases(self, *phases: RequestPhase) -> list[Member]:
        return [member for member, (phase, _) in self._waiting.items() if phase in phases]

    def leave(self, member: Member) -> None:
        """Forget a connection that is closed."""
        self._all.pop(member, None)
        self._forget(member)
        self.queue.discard(member)
        if not self._all:
            self.occupied.clear()

    def close(self, member: Member) -> None:
        """Close a connection at once, whatever is still to be sent."""
        self.leave(member)
        member.abort()

    def sweep(self) -> None:
        """Close the connections whose client has kept them waiting for too long."""
        now = self._clock()
        late = [
            member for member, (_, since) in self._waiting.items() if now - since > member.patience
        ]
        for member in late:
            self.close(member)

    def close_unfinished(self) -> None:
        """Close the connections that would hold up a stop: no answer is under way, and their client has to do something
        first, or has just asked."""
        self.close_in(*_UNFINISHED)

    def close_in(self, *phases: RequestPhase) -> None:
        """Close the connections that are in these phases."""
        for member in self._in_phases(*phases):
            self.close(member)

    def count_garbage(self) -> None:
        """Note that a TLS connection was closed, and collect the garbage of many together."""
        self._garbage += 1
        if self._garbage >= COLLECT_EVERY:
            self._garbage = 0
            gc.collect()


KeyT = TypeVar("KeyT")


def _count_down(counts: Counter[KeyT], key: KeyT) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
