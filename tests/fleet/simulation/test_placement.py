"""Every job has its GPUs for itself, and starts when they are free."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet
from tests.helpers.fleets import NODES, fleet

JOB = st.tuples(st.integers(1, 8), st.integers(0, 300), st.integers(1, 120))


def taken(made: SimulatedFleet) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """When each device of each node is taken, in the order of time."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for truth in made.jobs:
        for node, own in truth.job.devices.items():
            for device in own:
                found.setdefault((node, device), []).append((truth.job.start, truth.job.end))
    return {key: sorted(times) for key, times in found.items()}


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(jobs=st.lists(JOB, max_size=20))
def test_no_gpu_has_two_jobs_at_once(jobs: list[tuple[int, int, int]], tmp_path: Path) -> None:
    lines = [
        f"  - {{name: j, ofu: 0.3, gpus: {gpus}, start: {start}m, lasts: {minutes}m}}\n"
        for gpus, start, minutes in jobs
    ]
    text = NODES + "length: 7d\njobs:\n" + "".join(lines) if lines else NODES
    made = fleet(text, tmp_path)
    assert [truth.job.size for truth in made.jobs] == [gpus for gpus, _, _ in jobs]
    for truth, (_, start, minutes) in zip(made.jobs, jobs, strict=True):
        assert truth.job.start >= start
        assert truth.job.end - truth.job.start == minutes
    for times in taken(made).values():
        assert all(one[1] <= other[0] for one, other in pairwise(times))


def test_a_job_waits_until_enough_gpus_are_free(tmp_path: Path) -> None:
    made = fleet(
        NODES
        + "jobs:\n"
        + "  - {name: a, ofu: 0.3, gpus: 6, lasts: 2h}\n"
        + "  - {name: b, ofu: 0.3, gpus: 4, start: 30m, lasts: 1h}\n"
        + "  - {name: c, ofu: 0.3, gpus: 2, start: 40m, lasts: 1h}\n",
        tmp_path,
    )
    assert [(truth.job.start, truth.job.end) for truth in made.jobs] == [
        (0, 120),
        (120, 180),
        (40, 100),
    ]


def test_a_job_below_a_node_stays_on_one(tmp_path: Path) -> None:
    jobs = "  - {name: a, ofu: 0.3, gpus: 3}\n  - {name: b, ofu: 0.3, gpus: 3}\n"
    made = fleet(NODES + "jobs:\n" + jobs, tmp_path)
    assert [len(truth.job.devices) for truth in made.jobs] == [1, 1]


def test_a_job_takes_what_is_left_of_several_nodes_where_no_node_is_free(tmp_path: Path) -> None:
    jobs = "".join(f"  - {{name: {name}, ofu: 0.3, gpus: 3}}\n" for name in "ab")
    made = fleet(NODES + "jobs:\n" + jobs + "  - {name: c, ofu: 0.3, gpus: 2}\n", tmp_path)
    assert made.jobs[2].job.devices == {0: (3,), 1: (3,)}
    assert made.jobs[2].job.start == 0


def test_a_job_is_cut_where_the_fleet_ends(tmp_path: Path) -> None:
    made = fleet(
        NODES + "length: 1h\njobs:\n  - {name: a, ofu: 0.3, start: 50m, lasts: 5h}\n", tmp_path
    )
    assert made.jobs[0].job.end == 60


def test_named_nodes_are_taken_whole(tmp_path: Path) -> None:
    made = fleet(NODES + "jobs:\n  - {name: a, ofu: 0.3, nodes: [n2]}\n", tmp_path)
    assert made.jobs[0].job.devices == {1: (0, 1, 2, 3)}


def test_named_nodes_may_be_any_of_the_fleet(tmp_path: Path) -> None:
    nodes = NODES + "  - {name: a, count: 2, model: A100, gpus: 4}\n"
    made = fleet(nodes + "jobs:\n  - {name: a, ofu: 0.3, nodes: [a1..2]}\n", tmp_path)
    assert [*made.jobs[0].job.devices] == [2, 3]


def test_a_job_has_gpus_of_one_model(tmp_path: Path) -> None:
    nodes = "nodes:\n  - {name: a, count: 1, model: A100, gpus: 4}\n" + NODES.partition("\n")[2]
    made = fleet(nodes + "jobs:\n  - {name: a, ofu: 0.3, gpus: 3}\n", tmp_path)
    assert [*made.jobs[0].job.devices] == [0]
    with pytest.raises(ConfigError, match="12 GPUs of 4"):
        fleet(nodes + "jobs:\n  - {name: a, ofu: 0.3, gpus: 12}\n", tmp_path)
