"""Searched-for layers, counted by hand: blocks that are left out, and widths from ratios."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from tests.helpers.every import every

HIDDEN, VOCAB, LENGTH = 1024, 1000, 64


def block(heads: int | None, ratio: float | None) -> dict[str, Any]:
    return {
        "attention": {"n_heads_in_group": heads, "no_op": heads is None, "sparsify": None},
        "ffn": {"ffn_mult": ratio, "no_op": ratio is None, "replace_with_linear": False},
    }


BLOCKS = [block(4, 5.25), block(None, 1.0), block(2, None)]
CONFIG: dict[str, Any] = {
    "architectures": ["DeciLMForCausalLM"],
    "hidden_size": HIDDEN,
    "num_attention_heads": 8,
    "num_hidden_layers": 3,
    "num_key_value_heads": None,
    "intermediate_size": None,
    "vocab_size": VOCAB,
    "tie_word_embeddings": False,
    "block_configs": BLOCKS,
}


def test_blocks_count_as_they_are() -> None:
    """Heads of 128: 2 and 4 groups; MLPs of 3584 (5.25 x 2/3 x 1024) and 768 (682 up to a multiple of 256)."""
    attention = 2 * HIDDEN**2 + 2 * HIDDEN * 256 + 2 * HIDDEN**2 + 2 * HIDDEN * 512
    matrices = attention + 3 * HIDDEN * (3584 + 768)
    parameters = matrices + 2 * VOCAB * HIDDEN + HIDDEN * (2 + 1 + 1) + HIDDEN
    counted = flops.count(flops.read(CONFIG), flops.fixed(1, tokens=LENGTH))
    assert counted.parameters.total == parameters
    pairs = LENGTH * (LENGTH + 1) // 2
    forward = 2 * LENGTH * (matrices + HIDDEN * VOCAB) + 2 * 2 * (2 * HIDDEN) * pairs
    assert counted.model_flops_per_step == pytest.approx(3 * forward, rel=0.01)


@every(
    [
        ([BLOCKS[0]], "block_configs has 1 entries for 3 layers"),
        ([BLOCKS[0], BLOCKS[1], {}], "a layer has no attention"),
        ([*BLOCKS[:2], block(3, 1.0)], "n_heads_in_group=3 must divide 8 heads"),
        ([*BLOCKS[:2], block(2, -1.0)], "ffn_mult=-1.0 is not a ratio"),
        (
            [*BLOCKS[:2], {**BLOCKS[0], "ffn": {"ffn_mult": 1.0, "replace_with_linear": True}}],
            "ffn.replace_with_linear is not known",
        ),
    ]
)
def test_other_blocks_are_refused(blocks: list[Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        flops.read({**CONFIG, "block_configs": blocks})
