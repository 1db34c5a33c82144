"""A configuration may be anybody's text: none takes time or memory that its length does not tell."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import modules
from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.flops.causes.training import with_whole_packs
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.flops.fields import MOST_LAYERS
from ofu_exporter.flops.hf_config import MOST_KINDS
from tests.helpers.every import every

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
HYBRID = {
    "architectures": ["NemotronHForCausalLM"],
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 8192,
    "vocab_size": 128000,
}
HUNYUAN = {
    **LLAMA,
    "architectures": ["HunYuanMoEV1ForCausalLM"],
    "num_hidden_layers": MOST_KINDS + 1,
    "num_experts": [2 + number for number in range(MOST_KINDS + 1)],
    "moe_topk": 1,
    "num_shared_expert": 1,
}


@every(
    [
        ({**LLAMA, "num_hidden_layers": 10**8}, "num_hidden_layers 100000000 is above 2000"),
        ({**LLAMA, "hidden_size": 10**400}, "hidden_size is above 9007199254740992"),
        ({**HYBRID, "hybrid_override_pattern": "*" * (MOST_LAYERS + 1)}, "more than 2000 layers"),
        ({**HUNYUAN}, "33 layers differ from each other, more than 32"),
        ({**LLAMA, "layer_types": ["full_attention"] * (MOST_LAYERS + 1)}, "longer than 2000"),
        (
            {"architectures": ["Modules"], "modules": [{"module": "x"}] * (MOST_LAYERS + 1)},
            "modules is longer than 2000",
        ),
    ]
)
def test_a_configuration_that_would_take_minutes_is_refused(
    config: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        flops.read(config)


def test_as_many_layers_as_are_let_in_predict_as_often_as_is_let_in() -> None:
    """The layers of a depth times the depths would be four million."""
    kinds = ["attention", "mlp"] * (MOST_LAYERS // 2)
    config = {
        **HYBRID,
        "hybrid_override_pattern": "*-",
        "num_nextn_predict_layers": MOST_LAYERS,
        "mtp_layers_block_type": kinds,
    }
    how = flops.How(counting=flops.Counting(predictions=True))
    one = flops.read({**config, "num_nextn_predict_layers": 1})
    once, many = (
        flops.count(model, flops.fixed(1, tokens=8), how).model_flops_per_step
        for model in (one, flops.read(config))
    )
    none = flops.count(one, flops.fixed(1, tokens=8)).model_flops_per_step
    assert many - none == MOST_LAYERS * (once - none)


def test_a_recurrent_stack_is_counted_without_going_through_its_layers() -> None:
    """By hand: 4 gates of width 3 over two directions; from the second layer on 6 inputs."""
    stack = modules.recurrent("lstm", 5, 3, 7, num_layers=10**12, bidirectional=True)
    first, later = 2 * 4 * 3 * (5 + 3), 2 * 4 * 3 * (6 + 3)
    assert stack.flops == 2 * 7 * (first + (10**12 - 1) * later)
    assert stack.parameters == first + (10**12 - 1) * later + 10**12 * 2 * 2 * 4 * 3


def test_a_pack_of_a_billion_tokens_is_filled_with_short_samples_at_once() -> None:
    step = CountedStep(
        flops.read(LLAMA), flops.fixed(1, tokens=1), flops.Counting(), flops.Passes()
    )
    filled = with_whole_packs(CauseFacts(step, pack_length=1 << 30)).step
    assert filled is not None
    assert filled.lengths == flops.fixed(1 << 30, tokens=1)
