"""How many series an agent costs a Prometheus, counted on the pages of real agents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import series
from tests.helpers.markdown import with_section

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"

pytestmark = pytest.mark.slow


def test_an_idle_node_of_8_gpus_has_at_most_208() -> None:
    assert 8 * 10 < series.idle().total() <= 208


def test_a_job_has_at_most_14_on_a_node() -> None:
    """Also one on all GPUs of the node: no series of a job is per GPU."""
    assert 1 < series.busy(1).total() - series.idle().total() <= 14


def test_the_table_in_the_documentation_is_what_agents_have(
    generated: Callable[[Path, str], None],
) -> None:
    generated(DOCUMENT, with_section(DOCUMENT, "series", [series.table()]))
