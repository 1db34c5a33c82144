"""Models that transformers and diffusers build from a configuration, run without weights."""

from __future__ import annotations

import importlib
import json
import math
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.recipes import tokens_of
from tests.flops.counting import config

torch: Any = pytest.importorskip("torch", reason="pip install --group test-torch")
transformers: Any = pytest.importorskip("transformers", reason="pip install --group test-torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
from_config = importlib.import_module("ofu_exporter.flops.trace.from_config")

EVERY_PAIR = flops.Counting(causal=False)


@pytest.mark.parametrize(
    ("name", "streams"),
    [
        ("llama-3-8b", {"tokens": 8192}),
        ("gemma-2-9b", {"tokens": 4096}),
        ("mixtral-8x7b", {"tokens": 512}),
        ("gpt-oss-20b", {"tokens": 512}),
        ("qwen3-30b-a3b", {"tokens": 512}),
        ("qwen2-vl-7b", {"tokens": 512, "image": 256}),
    ],
)
def test_published_models_execute_what_the_closed_form_says(
    name: str, streams: dict[str, int]
) -> None:
    """Forward, to the last product: no weight is downloaded, and no layer is left out."""
    read = config(name)
    found = from_config.executed_of(read, streams, backward=False)
    how = flops.How(counting=EVERY_PAIR, passes=flops.Passes(forward_only=True))
    counted = flops.count(flops.read(read), flops.fixed(1, **streams), how)
    assert found.forward_flops == counted.model_flops_per_step
    assert found.parameters == counted.parameters.total


def default(architecture: str, **fields: Any) -> dict[str, Any]:
    read = getattr(transformers, architecture).config_class(**fields)
    written: dict[str, Any] = json.loads(read.to_json_string(use_diff=False))
    return {**written, "architectures": [architecture]}


def test_a_branch_over_the_image_is_run_for_as_many_tokens_as_it_makes() -> None:
    """64 patches are 16 tokens of the text: the language model's products do not depend on the image."""
    read = default("Qwen3VLForConditionalGeneration", vision_config={"out_hidden_size": 4096})
    text = from_config.executed_of(read, {"tokens": 64}, backward=False)
    both = from_config.executed_of(read, {"tokens": 64, "image": 64}, backward=False)
    tower = both.forward_flops - text.forward_flops
    vision = read["vision_config"]
    layers = vision["depth"] * (
        4 * vision["hidden_size"] ** 2 + 2 * vision["hidden_size"] * vision["intermediate_size"]
    )
    assert tower > 2 * 64 * layers
    assert tower < 2 * 64 * layers * 1.5, "projections, pairs and mergers are the rest"


SMALL_VISION = {"depth": 3, "hidden_size": 32, "num_heads": 4, "intermediate_size": 80}
SMALL_VISION |= {"out_hidden_size": 64}
SMALL_TEXT = {"num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 160, "head_dim": 24}
SMALL_TEXT |= {"num_attention_heads": 4, "num_key_value_heads": 2}
SPARSE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
DEEP = {"deepstack_visual_indexes": [0, 2]}


@pytest.mark.parametrize(
    ("architecture", "text", "vision"),
    [
        ("Qwen3VLForConditionalGeneration", {}, DEEP),
        ("Qwen3VLMoeForConditionalGeneration", SPARSE, DEEP),
        ("Qwen3_5ForConditionalGeneration", {}, {}),
        (
            "Qwen3_5MoeForConditionalGeneration",
            {**SPARSE, "shared_expert_intermediate_size": 48},
            {},
        ),
    ],
)
def test_a_vision_tower_before_another_familys_language_model(
    architecture: str, text: dict[str, Any], vision: dict[str, Any]
) -> None:
    """The tower exactly: what is executed more with an image; the language model as its own family counts it."""
    read = default(
        architecture, text_config={**SMALL_TEXT, **text}, vision_config={**SMALL_VISION, **vision}
    )
    model, how = (
        flops.read(read),
        flops.How(counting=EVERY_PAIR, passes=flops.Passes(forward_only=True)),
    )
    both = from_config.executed_of(read, {"tokens": 64, "image": 64}, backward=False)
    alone = from_config.executed_of(read, {"tokens": 64}, backward=False)
    counted = flops.count(model, flops.fixed(1, tokens=64, image=64), how)
    tower = sum(line.forward for line in counted.lines if line.term.tower == "vision")
    assert both.forward_flops - alone.forward_flops == tower
    assert both.parameters == counted.parameters.total
    if "VL" in architecture:
        assert both.forward_flops == counted.model_flops_per_step


def test_a_backward_pass_is_twice_a_forward_pass_of_what_has_weights() -> None:
    read = config("llama-3-8b", num_hidden_layers=2)
    found = from_config.executed_of(read, {"tokens": 128})
    assert sum(found.backward.values()) == 2 * found.forward_flops


@pytest.mark.parametrize(
    ("read", "streams", "text"),
    [
        ({"architectures": ["NoSuchModel"]}, {}, "flops.executed(module, inputs)"),
        ({"architectures": ["LlamaForCausalLM"], "hidden_size": "wide"}, {}, "cannot build"),
        ({"_class_name": "NoSuchDenoiser"}, {}, "cannot build NoSuchDenoiser"),
        (config("llama-3-8b"), {}, "needs --seq-len N"),
        (
            {"architectures": ["T5ForConditionalGeneration"]},
            {"source": 8},
            "needs --length target=N",
        ),
        (config("qwen2.5-vl-7b"), {"tokens": 64, "image": 30}, "not a number of whole 2x2 patches"),
        (config("qwen2.5-vl-7b"), {"tokens": 16, "image": 64}, "--seq-len 16 is not longer"),
    ],
)
def test_what_cannot_be_run_is_one_line(
    read: dict[str, Any], streams: dict[str, int], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        from_config.executed_of(read, streams)
    assert str(caught.value).startswith("executed: ")
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_infinities_are_read_as_transformers_writes_them() -> None:
    written = {"limits": [{"__float__": "-Infinity"}, {"__float__": "Infinity"}, 3], "type": "x"}
    assert from_config._decoded(written) == {**written, "limits": [-math.inf, math.inf, 3]}


def test_samples_of_unequal_lengths_are_refused() -> None:
    with pytest.raises(ConfigError, match="samples of one length"):
        from_config.sample_of(flops.packed([3, 4]))
    assert from_config.sample_of(flops.fixed(4, tokens=3)) == ({"tokens": 3}, 4)


@pytest.mark.parametrize(
    ("streams", "tokens"),
    [
        ({"tokens": 64, "image": 16, "images": 2}, 64),
        ({"source": 30, "target": 5}, 35),
        ({"target": 5, "audio": 3000}, 5),
        ({"latent": 48, "prompt": 5, "frames": 3}, 48),
        ({"image": 16}, 16),
        ({"audio": 3000}, 3000),
        ({"images": 2}, 0),
    ],
)
def test_a_count_per_token_divides_by_what_closed_forms_divide_by(
    streams: dict[str, int], tokens: int
) -> None:
    assert tokens_of(streams) == tokens
