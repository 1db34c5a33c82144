"""Attention has projections of its own width, and a core that groups never shrink."""

from __future__ import annotations

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from tests.flops.counting import config, count, step


def test_groups_shrink_projections_and_never_the_core() -> None:
    few, many = count("llama-3-8b"), count(config("llama-3-8b", num_key_value_heads=32))
    less, more = ({line.term.name: line.model for line in each.lines} for each in (few, many))
    assert less["attention.core"] == more["attention.core"]
    assert 4 * less["attention.k_proj"] == more["attention.k_proj"]


def test_a_head_dimension_of_its_own_is_used() -> None:
    """Qwen3-30B-A3B has 32 heads of 128 over a hidden size of 2048; NeMo's formula takes h/a and counts 0.777."""
    narrow = step(config("qwen3-30b-a3b", head_dim=64), "megatron")
    assert narrow == 73_205_570_076_672
    assert narrow / step("qwen3-30b-a3b", "megatron") == pytest.approx(0.777, abs=5e-4)


def test_encoders_attend_to_every_pair() -> None:
    """Halving them, as Megatron-LM does, is refused."""
    core = next(
        line for line in count("bert-base-uncased", tokens=512).lines if "core" in line.term.name
    )
    assert core.forward == 4 * 768 * 12 * 512**2
    with pytest.raises(ConfigError, match="BertForMaskedLM attends in both directions"):
        count("bert-base-uncased", counting=flops.Counting(causal=True))
