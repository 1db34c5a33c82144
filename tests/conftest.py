"""What holds for all tests: --regenerate writes the golden pages anew, properties are not timed, four run at once."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

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
