"""The one cluster that all tests of real Slurm share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.schedulers.slurm.cluster import Cluster, missing


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    why = missing()
    if why:
        pytest.skip(why)
    made = Cluster()
    try:
        made.start()
        yield made
    finally:
        made.stop()
