"""What the tests of several commands use: a node with a job, and a job of two hours in a real Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.agent import Agent, agent, until
from tests.helpers.job_node import WINDOW, Node, seconds
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import ScheduledJob, StoredNode, pages, stored_pages

NODE = StoredNode("", "n1:9846", "NVIDIA H100 80GB HBM3", 4)
JOB = ScheduledJob("7", "alice", (NODE,), 1, 3, 0.3, 0.6, verdict="mfu_above_ofu")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with stored_pages(tmp_path_factory.mktemp("stored"), pages([NODE], [JOB], 4)) as running:
        yield running


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def running(node: Node) -> Iterator[Agent]:
    """An agent that has observed job 7 for a while."""
    node.start("7", "0", "1")
    with agent(*node.flags()) as started:
        until(lambda: seconds(started) > 4 * WINDOW)
        yield started
