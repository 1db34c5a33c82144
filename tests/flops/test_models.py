"""A model's own terms."""

from __future__ import annotations

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from tests.flops.counting import count


def test_predictions_are_left_out_with_a_warning() -> None:
    assert "multi-token-prediction" in count("deepseek-v3").warnings[0]
    assert count("deepseek-v3", counting=flops.Counting(predictions=True)).warnings == ()
    with pytest.raises(ConfigError, match="names no multi-token-prediction layer"):
        count("llama-3-8b", counting=flops.Counting(predictions=True))
