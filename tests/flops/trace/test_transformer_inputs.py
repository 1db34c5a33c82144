"""Models of transformers are executed on the inputs that their own documentation describes."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.flops.trace.real_counts import real_forward

torch: Any = pytest.importorskip("torch", reason="pip install --group test-torch")
transformers: Any = pytest.importorskip("transformers", reason="pip install --group test-torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
from_config = importlib.import_module("ofu_exporter.flops.trace.from_config")

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}


def ids(*shape: int) -> Any:
    return torch.full(shape, 3)


CASES: dict[str, tuple[dict[str, Any], dict[str, int], dict[str, Any]]] = {
    "EncodecModel": (
        {"num_filters": 4, "hidden_size": 8, "codebook_dim": 8},
        {"audio": 4000},
        {"input_values": torch.randn(1, 1, 4000)},
    ),
    "ASTModel": (
        {**SMALL, "max_length": 48, "num_mel_bins": 32},
        {},
        {"input_values": torch.randn(1, 48, 32)},
    ),
    "VideoMAEModel": (
        {**SMALL, "image_size": 32, "num_frames": 4},
        {},
        {"pixel_values": torch.randn(1, 4, 3, 32, 32)},
    ),
    "TimesformerModel": (
        {**SMALL, "image_size": 32, "num_frames": 3},
        {},
        {"pixel_values": torch.randn(1, 3, 3, 32, 32)},
    ),
    "Qwen3VLVisionModel": (
        {"depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 24}
        | {"out_hidden_size": 16, "deepstack_visual_indexes": [0]},
        {"image": 36},
        {"hidden_states": torch.randn(36, 1536), "grid_thw": torch.tensor([[1, 6, 6]])},
    ),
    "Blip2QFormerModel": (
        {**SMALL, "encoder_hidden_size": 12},
        {"tokens": 5, "image": 9},
        {"query_embeds": torch.randn(1, 5, 16), "encoder_hidden_states": torch.randn(1, 9, 12)},
    ),
    "LxmertModel": (
        {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "l_layers": 1}
        | {"x_layers": 1, "r_layers": 1, "visual_feat_dim": 20},
        {"tokens": 7, "image": 9},
        {
            "input_ids": ids(1, 7),
            "visual_feats": torch.randn(1, 9, 20),
            "visual_pos": torch.randn(1, 9, 4),
        },
    ),
    "XmodForMaskedLM": (
        {**SMALL, "vocab_size": 50},
        {"tokens": 7},
        {"input_ids": ids(1, 7), "lang_ids": torch.zeros(1, dtype=torch.long)},
    ),
    "PatchTSTModel": (
        {"d_model": 16, "num_attention_heads": 2, "ffn_dim": 24, "num_hidden_layers": 2}
        | {"context_length": 24, "num_input_channels": 3},
        {},
        {"past_values": torch.randn(1, 24, 3)},
    ),
    "Speech2TextModel": (
        {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
        | {
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 24,
            "decoder_ffn_dim": 24,
            "vocab_size": 50,
        }
        | {"max_source_positions": 60, "conv_channels": 32},
        {"target": 5},
        {"input_features": torch.randn(1, 120, 80), "decoder_input_ids": ids(1, 5)},
    ),
}
"""Of each class: a small configuration, the streams, and the inputs that come of these, written out."""


def written(architecture: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    read = getattr(transformers, architecture).config_class(**fields)
    config: dict[str, Any] = json.loads(read.to_json_string(use_diff=False))
    return {**config, "architectures": [architecture]}


@pytest.mark.parametrize("architecture", CASES)
def test_a_model_executes_without_weights_what_it_does_with_them(architecture: str) -> None:
    fields, lengths, inputs = CASES[architecture]
    kind = getattr(transformers, architecture)
    config = kind.config_class(**fields)
    from_config.plain_kernels(config)
    module = kind(config)
    found = from_config.executed_of(written(architecture, fields), lengths)
    assert found.forward_flops == real_forward(module, inputs) > 0
    assert found.parameters == sum(each.numel() for each in module.parameters())
    assert found.backward


def test_weights_that_a_model_draws_itself_have_no_values_either() -> None:
    """DiffLlama draws some on the CPU, whose gradients would lie elsewhere than their weights."""
    config = written("DiffLlamaForCausalLM", {**SMALL, "num_key_value_heads": 2, "vocab_size": 50})
    assert all(each.is_meta for each in from_config.built(config).parameters())
    assert from_config.executed_of(config, {"tokens": 8}).backward


def test_an_image_that_no_token_of_the_text_stands_for_is_beside_it() -> None:
    found = from_config.executed_of(
        written("CLIPModel", {}), {"tokens": 16, "images": 1}, backward=False
    )
    text = from_config.executed_of(written("CLIPTextModel", {}), {"tokens": 16}, backward=False)
    assert found.forward_flops > text.forward_flops
