"""What is executed forward and backward, against a count that knows neither torch's counter nor its operators.

Hooks see the modules with weights: a linear layer costs 2 * outputs * inputs, a convolution 2 * positions * weights of
one position, and once more for each gradient that it computes. Attention is the formula of its paper.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install --group test-torch")
pytest.importorskip("transformers", reason="pip install --group test-torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
from_config = importlib.import_module("ofu_exporter.flops.trace.from_config")

N = 64
WIDE = {"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 500}
WIDE |= {"intermediate_size": 240, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GPT = {
    "n_embd": 96,
    "n_layer": 2,
    "n_head": 4,
    "vocab_size": 500,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
T5 = {"d_model": 96, "d_kv": 24, "d_ff": 240, "num_layers": 2, "num_heads": 4, "vocab_size": 500}
BART = {"d_model": 96, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 240}
BART |= {"decoder_ffn_dim": 240, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
BART |= {"vocab_size": 500, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SOUND = {
    **WIDE,
    "conv_dim": [48] * 7,
    "num_conv_pos_embedding_groups": 4,
    "num_conv_pos_embeddings": 8,
}
IMAGE = {"image_size": 32, "patch_size": 4, "num_labels": 10}
VIT = {**WIDE, **IMAGE}
TEXT = {"tokens": N}


def pairs(queries: int, keys: int, layers: int = 2, width: int = 96) -> int:
    """QK^T and PV of all heads and layers."""
    return 4 * layers * width * queries * keys


def selective_scan(inner: int = 192, rank: int = 6, state: int = 4, kernel: int = 4) -> int:
    """Mamba's time step, state by C and convolution over its padding, of two layers (arXiv:2312.00752, algorithm 2)."""
    return 2 * 2 * inner * (N * rank + N * state + (N + kernel - 1) * kernel)


CONVOLUTIONS = torch.nn.modules.conv._ConvNd
CASES: list[tuple[str, dict[str, Any], dict[str, int], int]] = [
    *(
        (f"{name}ForCausalLM", {**WIDE, "num_key_value_heads": 2}, TEXT, pairs(N, N))
        for name in (
            "Llama",
            "Mistral",
            "Qwen2",
            "Olmo2",
            "Granite",
            "StableLm",
            "Phi3",
            "Starcoder2",
        )
    ),
    ("GPTNeoXForCausalLM", WIDE, TEXT, pairs(N, N)),
    ("PhiForCausalLM", WIDE, TEXT, pairs(N, N)),
    ("GPT2LMHeadModel", GPT, TEXT, pairs(N, N)),
    (
        "BloomForCausalLM",
        {"hidden_size": 96, "n_layer": 2, "n_head": 4, "vocab_size": 500},
        TEXT,
        pairs(N, N),
    ),
    ("OPTForCausalLM", {**WIDE, "ffn_dim": 240, "word_embed_proj_dim": 96}, TEXT, pairs(N, N)),
    *((f"{name}ForMaskedLM", WIDE, TEXT, pairs(N, N)) for name in ("Bert", "Roberta", "Electra")),
    (
        "T5ForConditionalGeneration",
        T5,
        {"source": N, "target": 32},
        pairs(N, N) + pairs(32, 32) + pairs(32, N),
    ),
    (
        "BartForConditionalGeneration",
        BART,
        {"source": N, "target": 32},
        pairs(N, N) + pairs(32, 32) + pairs(32, N),
    ),
    (
        "WhisperForConditionalGeneration",
        {**BART, "num_mel_bins": 16, "max_source_positions": N, "decoder_start_token_id": 1},
        {"target": 32},
        pairs(N, N) + pairs(32, 32) + pairs(32, N),
    ),
    ("ViTForImageClassification", VIT, {}, pairs(65, 65)),
    ("DeiTForImageClassification", VIT, {}, pairs(66, 66)),
    ("Dinov2ForImageClassification", VIT, {}, pairs(65, 65)),
    ("SiglipVisionModel", {**VIT, "vision_use_head": False}, {}, pairs(64, 64)),
    ("ConvNextForImageClassification", {"image_size": 64, "num_labels": 10}, {}, 0),
    ("ConvNextV2ForImageClassification", {"image_size": 64, "num_labels": 10}, {}, 0),
    ("ResNetForImageClassification", {"image_size": 64, "num_labels": 10}, {}, 0),
    ("RegNetForImageClassification", {"image_size": 64, "num_labels": 10}, {}, 0),
    ("EfficientNetForImageClassification", {"image_size": 64, "num_labels": 10}, {}, 0),
    ("MobileNetV2ForImageClassification", {"image_size": 64, "num_labels": 10}, {}, 0),
    ("Wav2Vec2ForCTC", SOUND, {"audio": 16000}, pairs(49, 49)),
    ("HubertForCTC", SOUND, {"audio": 16000}, pairs(49, 49)),
    (
        "MambaForCausalLM",
        {"hidden_size": 96, "num_hidden_layers": 2, "vocab_size": 500, "state_size": 4},
        TEXT,
        selective_scan(),
    ),
    (
        "FalconMambaForCausalLM",
        {"hidden_size": 96, "num_hidden_layers": 2, "vocab_size": 500, "state_size": 4},
        TEXT,
        selective_scan(),
    ),
]


class Hooks:
    """Adds up what modules with weights cost, forward and backward."""

    def __init__(self) -> None:
        self.flops = 0

    def __call__(self, module: Any, inputs: Any, output: Any) -> None:
        """One module ran."""
        tensor = inputs[0]
        passes = 1 + int(tensor.requires_grad) + int(module.weight.requires_grad)
        if isinstance(module, CONVOLUTIONS):
            products = output.numel() * module.weight.numel() // module.out_channels
        else:
            products = output.numel() * tensor.shape[-1]
        self.flops += 2 * products * passes

    def watch(self, module: Any) -> None:
        """Watch the modules of a model that have weights and products."""
        for each in module.modules():
            if isinstance(each, torch.nn.Linear | CONVOLUTIONS) or type(each).__name__ == "Conv1D":
                each.register_forward_hook(self)


def test_there_are_thirty_models() -> None:
    assert len({name for name, *_ in CASES}) >= 30


@pytest.mark.parametrize(
    ("name", "fields", "streams", "core"), CASES, ids=[each[0] for each in CASES]
)
def test_both_passes_are_within_a_hundredth(
    name: str, fields: dict[str, Any], streams: dict[str, int], core: int
) -> None:
    transformers = importlib.import_module("transformers")
    read = getattr(transformers, name).config_class(**fields)
    written = json.loads(read.to_json_string(use_diff=False))
    module = from_config.built({**written, "architectures": [name]})
    hooks = Hooks()
    hooks.watch(module)
    found = from_config.executed_sample(module, streams)
    assert found.flops == pytest.approx(hooks.flops + 3 * core, rel=0.01)
