"""What all tests share: --fast and --regenerate, untimed properties, at least four workers, one Slurm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers.slurm_cluster import Cluster, missing

END_TO_END = Path(__file__).parent / "end_to_end"

settings.register_profile("untimed", deadline=None)
settings.register_profile("repeatable", settings.get_profile("untimed"), derandomize=True)
settings.load_profile("repeatable" if os.environ.get("CI") else "untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out what is marked slow")
    parser.addoption("--regenerate", action="store_true", help="write tests/golden/ anew")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything in tests/end_to_end is slow; --fast leaves out what is slow, and nothing else."""
    for item in items:
        if END_TO_END in item.path.parents:
            item.add_marker(pytest.mark.slow)
    if config.getoption("--fast"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)


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
