"""A plugin of pytest that writes which tests were collected: which are run, which are left out, which are slow."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

FILE_VARIABLE = "OFU_TEST_SELECTION"
"""Names the file that is written."""
_left_out: list[pytest.Item] = []


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    _left_out.extend(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    every = [*((item, True) for item in session.items), *((item, False) for item in _left_out)]
    found = {
        item.nodeid: {"runs": runs, "slow": item.get_closest_marker("slow") is not None}
        for item, runs in every
    }
    Path(os.environ[FILE_VARIABLE]).write_text(json.dumps(found))
