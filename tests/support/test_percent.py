"""Ratios in percent, to one decimal, and the word for one that is not known."""

from __future__ import annotations

from ofu_exporter.support.percent import percent
from tests.helpers.every import every


@every(
    [
        (0.0, "0.0%"),
        (0.0004, "0.0%"),
        (-0.0004, "0.0%"),
        (-0.1, "-10.0%"),
        (0.4125, "41.2%"),
        (1.0, "100.0%"),
        (1.0821, "108.2%"),
    ]
)
def test_a_ratio_is_written_to_one_decimal(ratio: float, text: str) -> None:
    assert percent(ratio) == text


def test_a_ratio_that_is_not_known_is_never_a_number() -> None:
    assert (percent(None), percent(None, "-")) == ("none", "-")
