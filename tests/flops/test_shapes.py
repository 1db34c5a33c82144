"""A decoder's shape makes its terms: experts, gates, heads, groups."""

from __future__ import annotations

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from tests.flops.counting import config, count, refusal


def test_only_the_sparse_layers_are_sparse() -> None:
    """Every second layer sparse; taking every layer for sparse would count twice the experts."""
    half = flops.read(config("qwen3-30b-a3b", decoder_sparse_step=2)).shape
    assert half is not None
    sparse = [hasattr(layer.feed_forward, "experts") for layer in half.layers]
    assert sparse == [False, True] * 24
    assert (
        count("deepseek-v2-lite").parameters.active < count("deepseek-v2-lite").parameters.total / 5
    )


def test_all_experts_counted_is_5_times_too_much() -> None:
    """DeepSeek-V2-Lite: 6 of 64 experts of 26 layers; torchtitan's numbers."""
    counted = count("deepseek-v2-lite", "palm")
    idle = 26 * (64 - 6) * 3 * 2048 * 1408
    everything = counted.model_flops_per_step + 6 * 4096 * idle
    assert everything / counted.model_flops_per_step == pytest.approx(5.32, abs=5e-3)


def test_gated_blocks_have_three_matrices_and_ungated_two() -> None:
    """Nemotron-H is ungated: assuming gates counts half of its MLPs too much."""
    lines = {line.term.name for line in count("nemotron-h-8b").lines}
    assert "mlp.up_proj" in lines
    assert "mlp.gate_proj" not in lines
    assert "mlp.gate_proj" in {line.term.name for line in count("llama-3-8b").lines}


def test_a_reward_model_has_a_classifier_for_a_head() -> None:
    reward = config("qwen2.5-7b", architectures=["Qwen2ForSequenceClassification"], num_labels=1)
    counted, whole = count(reward, tokens=64), count("qwen2.5-7b", tokens=64)
    assert counted.parameters.total - 3584 == whole.parameters.total - 3584 * 152064
    assert counted.lines[-1].term.name == "score"
    assert counted.lines[-1].forward == 2 * 3584 * 64
    del reward["num_labels"]
    assert refusal(reward).startswith("num_labels is missing")
    with pytest.raises(ConfigError, match="has no vocabulary to pad"):
        count({**reward, "num_labels": 1}, counting=flops.Counting(padded_vocab_size=200_000))
