"""The limit on connections: who gives way when there are too many."""

from __future__ import annotations

from ofu_exporter.serving.connection_limit import MOST_IN_PHASE, ConnectionLimit, RequestPhase
from ofu_exporter.serving.server import UNFINISHED
from tests.helpers.values import FakeClock


class Member:
    """A connection that only knows what it waits for, and whether it was closed."""

    def __init__(self, peer: str, phase: RequestPhase) -> None:
        self.peer = peer
        self.answers = 0
        self.phase = phase
        self.closed = False

    def abort(self) -> None:
        self.closed = True


def entered(limit: ConnectionLimit, peer: str, phase: RequestPhase) -> Member:
    member = Member(peer, phase)
    limit.enter(member)
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
    scraper = entered(limit, "node", RequestPhase.HANDSHAKE)
    flood = [entered(limit, "node", RequestPhase.HEAD) for _ in range(100)]
    assert not scraper.closed
    assert [member.closed for member in flood] == [True] * 91 + [False] * 9


def test_of_many_peers_with_one_connection_each_the_one_that_waited_longest_gives_way() -> None:
    clock = FakeClock(0.0)
    limit = ConnectionLimit(most=10, clock=clock)
    scraper = entered(limit, "prometheus", RequestPhase.HEAD)
    early = [entered(limit, f"early {number}", RequestPhase.HEAD) for number in range(9)]
    clock.now = 1.0
    scraper.answers += 1
    limit.note(scraper)
    late = [entered(limit, f"late {number}", RequestPhase.HEAD) for number in range(9)]
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
    limit.close_in(*UNFINISHED)
    open_still = {phase for phase, member in members.items() if not member.closed}
    assert open_still == {RequestPhase.HEAD, RequestPhase.ANSWER, RequestPhase.WORK}


def test_many_connections_make_room_together() -> None:
    limit = ConnectionLimit(most=64, clock=FakeClock(0.0))
    flood = [entered(limit, "flood", RequestPhase.HEAD) for _ in range(65)]
    assert sum(member.closed for member in flood) == 2
    limit.leave(flood[-1])
    assert len(limit) == 62


def test_the_same_wait_goes_on_and_another_one_begins() -> None:
    clock = FakeClock(0.0)
    limit = ConnectionLimit(clock=clock)
    slow, quick = (entered(limit, "a", RequestPhase.HEAD) for _ in range(2))
    clock.now = RequestPhase.HEAD.patience
    quick.answers += 1
    for member in (slow, quick):
        limit.note(member)
    clock.now += 0.1
    limit.sweep()
    assert (slow.closed, quick.closed) == (True, False)
