"""An OFU that no card can have is no mistake of a report."""

from __future__ import annotations

import pytest

from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.flops.explain import Observation, explain
from tests.flops.causes.synthetic import BF16, H100


@pytest.mark.parametrize(
    ("ofu", "gpu", "most"),
    [
        (1.2, H100, "108%"),
        (1.2, None, "116%"),
        (1.1, "NVIDIA H20", "100%"),
        (1.12, "NVIDIA GB200", "103%"),
    ],
)
def test_an_ofu_above_what_the_card_can_do_has_no_cause(
    ofu: float, gpu: str | None, most: str
) -> None:
    found = explain(Observation(0.4, ofu), CauseFacts(gpu=gpu, precision=BF16))
    assert found.causes == ()
    assert f"at most {most}" in found.advice


def test_an_ofu_that_the_boost_clock_makes_is_explained() -> None:
    assert explain(Observation(0.5, 1.05), CauseFacts(gpu=H100, precision=BF16)).causes
