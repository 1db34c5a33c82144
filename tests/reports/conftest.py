"""The desk that tests of the book, its entries and its causes report at."""

from __future__ import annotations

import pytest

from tests.helpers.desk import WITHOUT_NOISE, A, Desk


@pytest.fixture
def desk() -> Desk:
    """A job that has held both GPUs for two minutes, and they were measured."""
    made = Desk(policy=WITHOUT_NOISE)
    made.give(A, "0", "1")
    made.run(120.0)
    return made
