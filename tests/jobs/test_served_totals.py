"""What was served on several nodes is added."""

from __future__ import annotations

import pytest

from ofu_exporter.jobs.served_totals import merged_served
from ofu_exporter.jobs.totals import merged
from tests.jobs.test_served_text import SERVED, on_h100


def test_nodes_of_a_job_are_added_and_one_without_a_bandwidth_makes_it_unknown() -> None:
    both = merged([on_h100(0.9, 0.0), on_h100(0.5, 0.0)])
    assert both.memory_ratio == pytest.approx(0.7)
    assert both.memory_bytes_per_second == pytest.approx(0.7 * 3.35e12)
    (served,) = both.served
    assert served.tokens == {kind: 2 * count for kind, count in SERVED.tokens.items()}
    assert (served.requests, served.flops, served.seconds) == (84.0, 1e16, 200.0)
    mixed = merged([on_h100(0.9, 0.0), on_h100(0.5, 0.0, is_rated=False)])
    assert mixed.memory_bytes_per_second is None
    assert mixed.memory_ratio == pytest.approx(0.7)


def test_each_model_has_its_own_sums_and_what_none_counts_is_absent_and_no_zero() -> None:
    other = SERVED.model_copy(
        update={"served_model": "b", "tokens": {"prompt": 7.0}, "requests": 0}
    )
    silent = SERVED.model_copy(update={"served_model": "c", "requests": None, "flops": None})
    first, second, third = merged_served([other, silent, SERVED])
    assert (first.served_model, first.tokens, first.requests) == ("b", {"prompt": 7.0}, 0)
    assert (second.requests, second.flops) == (None, None)
    assert third == SERVED
