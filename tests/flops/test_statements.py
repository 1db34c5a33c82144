"""What readers share: a rate over a known peak is an MFU, and a number is one of at least 0."""

from __future__ import annotations

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.statements import JobFacts, Statement, number, with_rate
from tests.helpers.every import every


def test_a_rate_is_an_mfu_where_the_peak_is_known() -> None:
    one = with_rate(Statement(step=3), 4e14, JobFacts(peak_flops=1e15))
    assert (one.step, one.flops_per_second, one.mfu) == (3, 4e14, 0.4)
    assert with_rate(one, 4e14, JobFacts()).mfu is None
    assert one.has_rate
    assert Statement(tokens=0.0).has_rate, "0 was stated"
    assert not Statement(step=3, seconds=12.0).has_rate


@every(["nan", "inf", "-1", "fast", ""])
def test_what_is_no_number_of_at_least_0_is_named_with_its_place(text: str) -> None:
    assert number("4e2", "here") == 400.0
    with pytest.raises(ConfigError, match=f"here: '{text}' is not a number"):
        number(text, "here")
