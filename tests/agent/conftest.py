"""What several tests of samplers use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.sampled import Watch


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Leaves no sampler behind a test that failed: its threads would draw from `random` in others."""
    watch = Watch()
    yield watch
    for agent in watch.samplers:
        agent.stop()
