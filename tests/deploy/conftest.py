"""A node for the tests of the Slurm scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.hook_node import HookNode, hook_nodes


@pytest.fixture(scope="module")
def nodes() -> Iterator[Callable[[Path], HookNode]]:
    with hook_nodes() as make:
        yield make


@pytest.fixture
def node(nodes: Callable[[Path], HookNode], tmp_path: Path) -> HookNode:
    return nodes(tmp_path)
