"""Bounds the open connections of a server: their number, what they may wait for, and for how long."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from ofu_exporter.support.rate_limit import RateLimit

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 512
FEWEST_CONNECTIONS = 16
"""Connections that are allowed however few descriptors the process may have."""
AT_ONCE = 32
"""This part of all connections gives way together, because to choose takes a look at all of them."""
QUIET_SECONDS = 60.0
"""Shortest time between two log lines about a flood."""


class RequestPhase(Enum):
    """What a connection waits for, and the longest wait in seconds."""

    __hash__ = object.__hash__  # Enum's own is written in Python, and every look needs some

    HELLO = "hello", 10.0
    """The client: its first head, or its first record of TLS."""
    TURN = "turn", float("inf")
    """Us: its turn to begin."""
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


class Member(Protocol):
    """A connection, as its limit sees it."""

    peer: str
    """The peer's address without its port; of IPv6 the /64 that it is in."""
    answers: int
    """How many requests were answered."""

    @property
    def phase(self) -> RequestPhase: ...

    def abort(self) -> None: ...


class _Wait(NamedTuple):
    """What a connection waits for, and since when."""

    answers: int
    phase: RequestPhase
    since: float


class ConnectionLimit:
    """All connections of a server.

    When there are too many, some give way: those of the peer with most connections; of these, those that wait for
    what most of them wait for; of these, those that have waited longest. A client that asks at once, as Prometheus
    does, is never chosen. So a flood of silent, slow or deaf connections keeps nobody out.
    """

    def __init__(
        self, most: int = MOST_CONNECTIONS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most = most
        self._clock = clock
        self._all: dict[Member, _Wait] = {}
        self._lines: RateLimit[str] = RateLimit(1 / QUIET_SECONDS, burst=1)

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, newcomer: Member) -> None:
        """Add a connection that was just accepted. When there are too many, others are closed."""
        if len(self._all) >= self.most:
            if not self._lines.ask("", self._clock()):
                log.warning(
                    "%d connections are open; the idlest are closed for new ones", self.most
                )
            self.make_room(max(1, self.most // AT_ONCE))
        self._all[newcomer] = _Wait(0, RequestPhase.WORK, self._clock())
        self.note(newcomer)

    def note(self, member: Member) -> None:
        """See what a connection waits for now. More bytes of the same head or body are no new wait."""
        wait, phase = self._all.get(member), member.phase
        if wait is not None and wait[:2] != (member.answers, phase):
            del self._all[member]  # what has just begun to wait stands last
            self._all[member] = _Wait(member.answers, phase, self._clock())
            if phase in MOST_IN_PHASE:
                inside = [each for each, other in self._all.items() if other.phase is phase]
                if len(inside) > MOST_IN_PHASE[phase]:
                    self._close_idlest(inside, 1)

    def make_room(self, count: int = 1) -> None:
        """Close some connections. When all are being answered, even these."""
        waiting = [each for each, wait in self._all.items() if wait.phase is not RequestPhase.WORK]
        self._close_idlest(waiting or [*self._all], count)

    def _close_idlest(self, members: list[Member], count: int) -> None:
        """Close some of these, which are in the order in which they began to wait."""
        peer, _ = Counter(each.peer for each in members).most_common(1)[0]
        crowd = {each: self._all[each].phase for each in members if each.peer == peer}
        phase, _ = Counter(crowd.values()).most_common(1)[0]
        for member in [each for each, waits_for in crowd.items() if waits_for is phase][:count]:
            self.close(member)

    def leave(self, member: Member) -> None:
        """Forget a connection that is closed."""
        self._all.pop(member, None)

    def close(self, member: Member) -> None:
        """Close a connection at once, whatever is still to be sent."""
        self.leave(member)
        member.abort()

    def sweep(self) -> None:
        """Close the connections whose client has kept them waiting for too long."""
        now = self._clock()
        for member, wait in [*self._all.items()]:
            if now - wait.since > wait.phase.patience:
                self.close(member)

    def close_in(self, *phases: RequestPhase) -> None:
        for member in [each for each, wait in self._all.items() if wait.phase in phases]:
            self.close(member)
