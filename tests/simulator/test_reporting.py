"""Honest jobs, measured by the agent's own drivers: the OFU of their reports' seconds, and whether one is accused."""

from __future__ import annotations

import pytest

from tests.simulator.reporting import Case, judged, rows

pytestmark = pytest.mark.slow

CASES = [
    Case(source, window, report, pause)
    for source in ("nvml", "dcgm")
    for window, report, pause in [
        (1.0, 3.0, 0.5),
        (5.0, 3.0, 4.0),
        (5.0, 10.0, 4.0),
        (5.0, 60.0, 0.0),
        (30.0, 20.0, 10.0),
        (30.0, 10.0, 0.0),
    ]
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_ofu_of_a_report_is_that_of_its_seconds_and_no_honest_job_is_accused(
    case: Case,
) -> None:
    result = judged(case)
    (row,) = rows([(case, result)]).values()
    assert len(row.reports) >= 2
    assert row.within >= 0.93
    assert abs(row.bias) < 1.5, "few reports, whose clock is read twice a second"
    assert row.accused == 0
