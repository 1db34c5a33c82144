"""What holds for all tests: --regenerate writes the golden pages anew, properties are not timed, four run at once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.helpers.slurm_cluster import Cluster, missing

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write tests/golden/ anew")


@pytest.hookimpl(optionalhook=True)  # also without xdist
def pytest_xdist_auto_num_workers() -> int:
    """At least four, whatever the cores: tests of running agents wait more than they compute."""
    return max(4, os.cpu_count() or 1)


@pytest.fixture
def regenerate(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--regenerate"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The one Slurm that all tests of a real one share: they are of one xdist group."""
    why = missing()
    if why:
        pytest.skip(why)
    made = Cluster()
    try:
        made.start()
        yield made
    finally:
        made.stop()
