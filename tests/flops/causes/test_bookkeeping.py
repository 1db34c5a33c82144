"""Gradient accumulation is forgotten, or counted twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.flops.explain import Observation, explain
from tests.flops.causes.synthetic import BF16, H100


@pytest.mark.parametrize("ratio", [1 / 4, 4.0])
def test_gradient_accumulation_is_forgotten_or_counted_twice(ratio: float) -> None:
    told = CauseFacts(gpu=H100, precision=BF16, accumulation=4)
    seen = Observation(0.2 * ratio, 0.21, 0.005)
    assert explain(seen, told).causes[0].cause == "gradient_accumulation"
    once = explain(seen, replace(told, accumulation=1)).causes
    assert "gradient_accumulation" not in {slug for each in once for slug in each.causes}
    guessed = explain(seen, replace(told, accumulation=None)).causes
    assert "gradient_accumulation" in {each.cause for each in guessed}
