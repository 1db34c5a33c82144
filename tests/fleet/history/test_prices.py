"""Prices go by model, and what nobody priced has no price."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.history.prices import Prices, read_prices

TEXT = """
currency: EUR
gpu_hour:
  "*H100*": 2.5
  "NVIDIA A100-SXM4-80GB": 1
"""


def test_a_file_is_read_and_the_first_pattern_that_fits_counts(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(TEXT)
    prices = read_prices(path)
    assert prices.currency == "EUR"
    assert prices.of("NVIDIA H100 80GB HBM3") == 2.5
    assert prices.of("nvidia a100-sxm4-80gb") == 1
    assert prices.of("NVIDIA L4") is None


def test_a_price_below_0_by_its_sign_alone_is_0() -> None:
    assert str(Prices(gpu_hour={"*": -0.0}).of("H100")) == "0.0"


def test_a_job_on_two_models_costs_their_mean_and_is_unpriced_if_one_is() -> None:
    prices = Prices(gpu_hour={"a": 1.0, "b": 3.0})
    assert prices.of_mix({"a": 3, "b": 1}) == 1.5
    assert prices.of_mix({"a": 3, "c": 1}) is None
    assert prices.of_mix({}) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gpu_hour: {a: -1}", "gpu_hour.a"),
        ("gpu_hour: {a: .nan}", "gpu_hour.a"),
        ("gpu_hour: {a: 1.0e+308}", "gpu_hour.a"),
        ("prices: {a: 1}", "line 1: prices: is not known"),
        ("currency: dollars", "currency"),
        ("a: [", "line 1"),
        ("- 1", "the top level"),
        ("a: 1\na: 2", "a key is there twice"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_place(
    text: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=why):
        read_prices(path)
