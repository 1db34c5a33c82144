"""One job of two hours on a node of its own, in a real Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import ScheduledJob, StoredNode, pages, stored_pages

NODE = StoredNode("", "n1:9846", "NVIDIA H100 80GB HBM3", 4)
JOB = ScheduledJob("7", "alice", (NODE,), 1, 3, 0.3, 0.6, verdict="mfu_above_ofu")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with stored_pages(tmp_path_factory.mktemp("stored"), pages([NODE], [JOB], 4)) as running:
        yield running
