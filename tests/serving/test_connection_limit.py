"""The limit on connections: who gives way when there are too many."""

from __future__ import annotations

from ofu_exporter.serving.connection_limit import MOST_IN_PHASE, ConnectionLimit, RequestPhase
from tests.helpers.values import FakeClock


class Member:
    """A connection that only knows whether it was closed."""

    def __init__(self, peer: str, phase: RequestPhase) -> None:
        self.peer = peer
        self.patience = phase.patience
        self.closed = False

    def abort(self) -> None:
        self.closed = True

    def go_on(self) -> None:
        """Nothing."""


def entered(limit: ConnectionLimit, peer: str, phase: RequestPhase) -> Member:
    member = Member(peer, phase)
    limit.enter(member)
    limit.note(member, phase)
    return member


def test_the_peer_with_most_connections_gives_way_and_not_the_oldest_one() -> None:
    limit = ConnectionLimit(most=10, clock=FakeClock(0.0))
    scraper = entered(limit, "prometheus", RequestPhase.HEAD)
    flood = [entered(limit, "flood", RequestPhase.HEAD) for _ in range(100)]
    assert not scraper.closed
    assert [member.closed for member in flood] == [True] * 91 + [False] * 9
    assert len(limit) == 10


def test_of_one_peer_those_that_wait_for_what_most_wait_for_give_way() -> None:
    limit = ConnectionLimit(most=10, clock=FakeClock(0.0))
    scraper = entered(limit, "node", RequestPhase.HELLO)
    limit.note(scraper, RequestPhase.HANDSHAKE)
    flood = [entered(limit, "node", RequestPhase.HELLO) for _ in range(100)]
    assert not scraper.closed
    assert [member.closed for member in flood] == [True] * 91 + [False] * 9


def test_of_many_peers_with_one_connection_each_the_one_that_waited_longest_gives_way() -> None:
    limit = ConnectionLimit(most=10, clock=FakeClock(0.0))
    scraper = entered(limit, "prometheus", RequestPhase.HEAD)
    early = [entered(limit, f"early {number}", RequestPhase.HELLO) for number in range(9)]
    limit.note(scraper, RequestPhase.WORK)
    limit.note(scraper, RequestPhase.HEAD)
    late = [entered(limit, f"late {number}", RequestPhase.HELLO) for number in range(9)]
    assert all(member.closed for member in early)
    assert not any(member.closed for member in (scraper, *late))


def test_phases_that_cost_memory_have_a_limit_of_their_own() -> None:
    for phase, most in MOST_IN_PHASE.items():
        limit = ConnectionLimit(clock=FakeClock(0.0))
        other = entered(limit, "other", phase)
        flood = [entered(limit, "flood", phase) for _ in range(most + 20)]
        assert not other.closed
        assert sum(not member.closed for member in flood) == most - 1


def test_a_stop_waits_for_nobody_whose_turn_it_is() -> None:
    limit = ConnectionLimit(clock=FakeClock(0.0))
    members = {phase: entered(limit, "a", phase) for phase in RequestPhase}
    limit.close_unfinished()
    open_still = {phase for phase, member in members.items() if not member.closed}
    assert open_still == {RequestPhase.HEAD, RequestPhase.ANSWER, RequestPhase.WORK}


def test_it_is_occupied_until_the_last_connection_is_closed() -> None:
    limit = ConnectionLimit(clock=FakeClock(0.0))
    first, second = (entered(limit, "prometheus", RequestPhase.HEAD) for _ in range(2))
    limit.close(first)
    assert limit.occupied.is_set()
    limit.leave(second)
    assert not limit.occupied.is_set()
