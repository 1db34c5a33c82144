"""Statistics over jobs are those of the standard library, and of the paper's kind."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.reports.agreement import Pair, agreement, deviation, pearson

RATIOS = st.floats(0.0, 1.0)
PAIRS = st.lists(st.builds(Pair, RATIOS, RATIOS), min_size=3, max_size=40)


@given(PAIRS)
def test_the_correlation_is_the_mean_product_of_standard_scores(pairs: list[Pair]) -> None:
    mfus, ofus = zip(*pairs, strict=True)
    spreads = statistics.pstdev(mfus), statistics.pstdev(ofus)
    if min(spreads) > 1e-6:  # below, nothing but rounding varies
        scores = [
            (mfu - statistics.fmean(mfus))
            / spreads[0]
            * (ofu - statistics.fmean(ofus))
            / spreads[1]
            for mfu, ofu in pairs
        ]
        assert pearson(pairs) == pytest.approx(statistics.fmean(scores), abs=1e-6)


@given(PAIRS)
def test_shares_and_errors_are_counted(pairs: list[Pair]) -> None:
    found = agreement(pairs)
    errors = [abs(one.mfu - one.ofu) for one in pairs]
    assert found.jobs == len(pairs)
    assert found.mean_absolute_error == pytest.approx(statistics.fmean(errors))
    assert found.within_10_points == sum(error <= 0.1 for error in errors) / len(errors)
    assert found.beyond_20_points == sum(error > 0.2 for error in errors) / len(errors)


def test_nothing_is_known_of_no_jobs() -> None:
    found = agreement([])
    assert found.jobs == 0
    assert {*found.model_dump(exclude={"jobs"}).values()} == {None}


def test_two_jobs_have_no_correlation_and_one_no_deviation() -> None:
    assert agreement([Pair(0.1, 0.2), Pair(0.3, 0.1)]).pearson is None
    assert pearson([Pair(0.3, 0.1), Pair(0.3, 0.2), Pair(0.3, 0.4)]) is None
    assert deviation([0.5]) is None
    assert deviation([0.5, 0.7]) == pytest.approx(statistics.stdev([0.5, 0.7]))
