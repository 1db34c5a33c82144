"""Slow GPUs and nodes among peers: simulated fleets in which it is known which ones are slow, and by how much."""

from __future__ import annotations

import pytest

from ofu_exporter.fleet.changes.peers import (
    PeerGroup,
    PeerHours,
    PeerSpread,
    compare_peers,
    without_nodes,
)
from tests.helpers.peer_fleet import fleet, place


def test_a_slow_gpu_is_found_with_its_slowness() -> None:
    (slow,) = compare_peers(fleet(1, {(3, 2): 0.1}).gpus, "ofu", "gpu").slow
    assert slow.uuid == place(3, 2).uuid
    assert slow.slower_low <= slow.slower <= slow.slower_high
    assert slow.slower == pytest.approx(0.1, abs=0.02)
    assert slow.sure
    assert slow.chance < 0.001


def test_a_slow_node_is_one_row_and_not_four() -> None:
    peers = fleet(2, {(7, gpu): 0.15 for gpu in range(4)})
    nodes = compare_peers(peers.nodes, "ofu", "node").slow
    assert [(each.node, each.gpu) for each in nodes] == [("n7", None)]
    gpus = compare_peers(peers.gpus, "ofu", "gpu").slow
    assert len(gpus) == 4
    assert list(without_nodes(gpus, nodes)) == []


@pytest.mark.parametrize("role", [0.0, 0.03])
def test_a_healthy_fleet_has_no_slow_one(role: float) -> None:
    wrong = 0
    for seed in range(12):
        peers = fleet(seed, {}, role=role)
        wrong += bool(compare_peers(peers.gpus, "ofu", "gpu").slow) + bool(
            compare_peers(peers.nodes, "ofu", "node").slow
        )
    assert wrong <= 3  # of 24 looks at 5 % each


def test_peers_of_a_slow_node_in_small_jobs_are_not_fast_nor_it_average() -> None:
    """In a job of four nodes of which two are slow, the middle lies between; other jobs put that right."""
    slow = {(node, gpu): 0.2 for node in (1, 2) for gpu in range(4)}
    found = compare_peers(fleet(3, slow, nodes=12, jobs=60, largest=5).nodes, "ofu", "node")
    assert {each.node for each in found.slow} == {"n1", "n2"}
    for each in found.slow:
        assert each.slower == pytest.approx(0.2, abs=0.04)


def test_within_one_job_nothing_is_sure() -> None:
    peers = PeerHours()
    for hour in range(20):
        values = {place(n, g): 0.4 + 0.0001 * hour for n in range(4) for g in range(4)}
        values[place(1, 1)] *= 0.7
        peers.add(PeerGroup("", "1", "H100"), values)
    (only,) = compare_peers(peers.gpus, "ofu", "gpu").slow
    assert (only.uuid, only.sure, only.jobs, only.hours) == (place(1, 1).uuid, False, ["1"], 20)


def test_what_is_sure_comes_first_and_two_jobs_are_too_few_to_tell_them_apart() -> None:
    peers = PeerHours()
    for job in ("1", "2"):
        values = {place(n, g): 0.4 for n in range(4) for g in range(4)}
        values[place(1, 1)] *= 0.8
        if job == "2":
            values[place(9, 9)] = 0.24
        for _ in range(20):
            peers.add(PeerGroup("", job, "H100"), values)
    found = compare_peers(peers.gpus, "ofu", "gpu").slow
    assert [(each.uuid, each.sure) for each in found] == [
        (place(1, 1).uuid, True),
        (place(9, 9).uuid, False),
    ]
    twice = {place(0, gpu): [0.1, -0.1] for gpu in range(20)}
    assert PeerSpread.of({}, twice).within == 0.0
    assert PeerSpread.of({}, {gpu: [*each, 0.0] for gpu, each in twice.items()}).within > 0.1


def test_too_few_peers_say_nothing() -> None:
    peers = PeerHours()
    for _ in range(50):
        peers.add(PeerGroup("", "1", "H100"), {place(0, 0): 0.4, place(1, 0): 0.1})
    found = compare_peers(peers.gpus, "ofu", "gpu")
    assert (found.slow, found.row.count) == ([], 0)


@pytest.mark.parametrize(("places", "compared"), [(3, 0), (4, 4)])
def test_three_peers_beside_itself_are_the_fewest_to_be_judged_by(
    places: int, compared: int
) -> None:
    peers = PeerHours()
    for _ in range(50):
        peers.add(PeerGroup("", "1", "H100"), {place(node, 0): 0.4 for node in range(places)})
    assert compare_peers(peers.gpus, "ofu", "gpu").row.count == compared


@pytest.mark.parametrize(("ofu", "compared"), [(0.0, 4), (0.001, 4), (0.0011, 5)])
def test_a_gpu_that_did_next_to_nothing_is_no_peer(ofu: float, compared: int) -> None:
    peers = PeerHours()
    for _ in range(50):
        peers.add(PeerGroup("", "1", "H100"), {place(n, 0): 0.4 if n else ofu for n in range(5)})
    assert compare_peers(peers.gpus, "ofu", "gpu").row.count == compared


@pytest.mark.parametrize(("hours", "compared"), [(11, 0), (12, 6)])
def test_too_few_hours_say_nothing_and_are_counted(hours: int, compared: int) -> None:
    peers = PeerHours()
    for _ in range(hours):
        values = {place(node, 0): 0.4 for node in range(6)}
        peers.add(PeerGroup("", "1", "H100"), {**values, place(0, 0): 0.1})
    found = compare_peers(peers.gpus, "ofu", "gpu")
    assert len(found.slow) == (compared > 0)
    assert (found.row.count, found.row.too_few_hours) == (compared, 6 - compared)


@pytest.mark.parametrize(("hours", "jobs"), [(2, ["1"]), (3, ["1", "2"])])
def test_a_job_of_two_hours_makes_nothing_sure(hours: int, jobs: list[str]) -> None:
    peers = PeerHours()
    for job, of_job in (("1", 20), ("2", hours)):
        values = {**{place(node, 0): 0.4 for node in range(6)}, place(0, 0): 0.1}
        for _ in range(of_job):
            peers.add(PeerGroup("", job, "H100"), values)
    (slow,) = compare_peers(peers.gpus, "ofu", "gpu").slow
    assert (slow.jobs, slow.sure) == (jobs, len(jobs) > 1)


def test_idle_gpus_are_not_compared() -> None:
    peers = PeerHours()
    for _ in range(20):
        values = {place(node, 0): 0.4 for node in range(6)}
        peers.add(PeerGroup("", "1", "H100"), {**values, place(5, 0): 0.0})
    assert compare_peers(peers.gpus, "ofu", "gpu").row.count == 5


def test_nobody_compared_is_no_error() -> None:
    found = compare_peers({}, "ofu", "gpu")
    assert (found.slow, found.row.count, found.row.too_few_hours) == ([], 0, 0)
