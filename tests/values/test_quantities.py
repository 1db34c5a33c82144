"""A ratio is read as a ratio or as a percentage that says so, and a rate of FLOPs in another unit is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.values import quantities


@pytest.mark.parametrize(
    ("given_", "read"),
    [("0.41", 0.41), ("41%", 0.41), (" 41 % ", 0.41), (0.41, 0.41), (0, 0.0), ("330%", 3.3)],
)
def test_a_ratio_is_a_number_or_says_that_it_is_a_percentage(
    given_: str | float, read: float
) -> None:
    assert quantities.parsed_ratio(given_) == pytest.approx(read, rel=1e-15)


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        (1e308, "1e+308 cannot be: it is above 1000%"),
        (41, "41 is out of range; write 0.41 or 41%"),
        ("41", "41 is out of range; write 0.41 or 41%"),
        (1.7, "1.7 is out of range; write 0.017 or 1.7%, or 170% if it is above 100 %"),
        (5.7, "5.7 is out of range; write 0.057 or 5.7%, or 570% if it is above 100 %"),
    ],
)
def test_what_is_likely_a_percentage_is_refused_with_both_ways_to_write_it(
    given_: str | float, words: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        quantities.parsed_ratio(given_)


@pytest.mark.parametrize("given_", [True, None, "", "%", "x%", "nan", "inf%", -0.1, "-1%", "1001%"])
def test_what_is_no_ratio_at_all_is_refused(given_: object) -> None:
    with pytest.raises(ValueError, match=r"is not|cannot be"):
        quantities.parsed_ratio(given_)


def test_a_quantity_may_have_a_lower_limit() -> None:
    with pytest.raises(
        ValueError, match=re.escape("write 0.01 or 1%, or 100% if it is above 100 %")
    ):
        quantities.parsed_ratio(1, quantities.OVERHEAD)
    assert quantities.parsed_ratio(0.999, quantities.OVERHEAD) == 0.999
    assert quantities.parsed_ratio("200%", quantities.OVERHEAD) == 2.0


@given(st.floats(0, 10))
def test_what_is_written_is_read_as_the_same(value: float) -> None:
    assert quantities.parsed_ratio(quantities.written(value, 1.0), 1.0) == pytest.approx(
        value, rel=1e-12
    )


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("12000", 12e3),
        ("12,000", 12e3),
        ("1_200_000", 1.2e6),
        ("12k", 12e3),
        ("12.5 k", 12.5e3),
        ("12K", 12e3),
        ("1.2M", 1.2e6),
        ("7G", 7e9),
        ("1.2B", 1.2e9),
        ("2e6", 2e6),
        (".5", 0.5),
    ],
)
def test_a_number_is_read_as_people_write_it(written: str, value: float) -> None:
    assert quantities.positive_number(written) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    "written", ["", "k", "1,2", "1,2000", "12 000", "1e999", "0", "-3", "nan", "inf", "12m", "12kk"]
)
def test_what_may_be_another_number_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        quantities.positive_number(written)


def test_units_of_flops_are_told_by_magnitude() -> None:
    for rate in (989.4, 999_999.0):
        assert quantities.tflops(rate) == rate
    assert quantities.peak_tflops(0.001) == 0.001
    with pytest.raises(ValueError, match="is less than the peak of any GPU"):
        quantities.peak_tflops(0.00099)
    for rate in (4e14, 1e7, 0.0):
        assert quantities.flops_per_second(rate) == rate
    with pytest.raises(ValueError, match="is more than any GPU has"):
        quantities.tflops(1e6)
    with pytest.raises(ValueError, match="is less than any GPU has"):
        quantities.flops_per_second(9.99e6)
    with pytest.raises(ValueError, match=r"if it is FLOP/s, give 989\.4"):
        quantities.tflops(989.4e12)
    with pytest.raises(ValueError, match=r"if it is TFLOP/s, give 4e\+14"):
        quantities.flops_per_second(400.0)
