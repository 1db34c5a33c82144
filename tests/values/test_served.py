"""What the engines of a job served is added."""

from __future__ import annotations

from ofu_exporter.values.served import Served
from tests.reports.test_served import after, page


def test_engines_of_a_job_are_added() -> None:
    both = Served()
    both.add(after(page(0), page(5)))
    both.add(after(page(0), page(7)))
    assert both.tokens["m", "prompt"] == 12
