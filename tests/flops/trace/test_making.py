"""Recipes of executed models, against closed forms and against products written out."""

from __future__ import annotations

import importlib
import json
from collections import UserDict
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from tests.flops.small_decoders import DECODERS
from tests.flops.trace.real_counts import real_forward

torch: Any = pytest.importorskip("torch", reason="pip install --group test-torch")
pytest.importorskip("transformers", reason="pip install --group test-torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
making = importlib.import_module("ofu_exporter.flops.trace.making")


class Layer(torch.nn.Module):  # type: ignore[misc]
    """Causal attention of torch's own, a convolution over each channel, and an MLP."""

    def __init__(self, wide: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(wide, 3 * wide), torch.nn.Linear(wide, wide)
        self.mix = torch.nn.Conv1d(wide, wide, 3, padding=1, groups=wide)
        self.mlp = torch.nn.Linear(wide, 4 * wide)
        self.down = torch.nn.Linear(4 * wide, wide)

    def forward(self, x: Any) -> Any:
        q, k, v = (
            each.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for each in self.qkv(x).chunk(3, -1)
        )
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(-2))
        x = x + self.mix(x.mT).mT
        return x + self.down(self.mlp(x).relu())


class Own(torch.nn.Module):  # type: ignore[misc]
    """A user's own model, which recomputes its layers as it likes."""

    def __init__(self, checkpoint: str = "") -> None:
        super().__init__()
        self.table = torch.nn.Embedding(100, 32)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(2))
        self.head = torch.nn.Linear(32, 100, bias=False)
        self.checkpoint = checkpoint

    def forward(self, input_ids: Any, labels: Any) -> dict[str, Any]:
        x = self.table(input_ids)
        for layer in self.layers:
            again = torch.utils.checkpoint.checkpoint
            reentrant = self.checkpoint == "reentrant"
            x = again(layer, x, use_reentrant=reentrant) if self.checkpoint else layer(x)
        logits = self.head(x).flatten(0, 1)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels.flatten())}


def batch(samples: int = 3, tokens: int = 48) -> dict[str, Any]:
    ids = torch.randint(0, 100, (samples, tokens))
    return {"input_ids": ids, "labels": ids}


def written_out(samples: int, tokens: int, seen: float) -> float:
    """Forward FLOPs: matrices and kernels per token, QK^T and PV over the share of the pairs that is seen."""
    layer = 2 * tokens * (32 * 96 + 32 * 32 + 2 * 32 * 128 + 3 * 32)
    core = 2 * 2 * seen * tokens**2 * 32
    return samples * (2 * (layer + core) + 2 * tokens * 32 * 100)


@pytest.mark.parametrize("checkpoint", ["", "plain", "reentrant"])
def test_a_module_of_ones_own_is_counted_at_any_length_and_not_changed(checkpoint: str) -> None:
    module = Own(checkpoint)
    before = {name: each.clone() for name, each in module.state_dict().items()}
    recipe = flops.recipe(module, batch())
    model = recipe.model()
    for samples, tokens in ((3, 48), (7, 31), (1, 4096)):
        lengths = flops.fixed(samples, tokens=tokens)
        half = flops.count(model, lengths)
        every = flops.count(model, lengths, flops.How(counting=flops.Counting(causal=False)))
        assert half.model_flops_per_step == 3 * written_out(samples, tokens, 1 / 2)
        assert every.model_flops_per_step == 3 * written_out(samples, tokens, 1)
    assert half.parameters.total == sum(each.numel() for each in module.parameters())
    assert half.parameters.embedding == 3200
    assert recipe.fit.executed_flops == recipe.fit.recipe_flops
    assert recipe.fit.verified_at not in recipe.fit.fitted_at
    assert all(each.grad is None and not each.is_meta for each in module.parameters())
    assert all(torch.equal(before[name], each) for name, each in module.state_dict().items())


def test_a_batch_is_what_the_module_is_called_with() -> None:
    """One tensor, named arguments in a mapping that is no dict, as a tokenizer gives them, or a tuple."""
    ids = batch()["input_ids"]
    head = torch.nn.Sequential(torch.nn.Embedding(100, 32), torch.nn.Linear(32, 100))
    alone, several = flops.recipe(head, ids), flops.recipe(head, (ids,))
    assert alone == several
    assert flops.recipe(Own(), UserDict(batch())) == flops.recipe(Own(), batch())


def test_passes_follow_from_the_recipe() -> None:
    """Recomputation of the layers, of their cores, adapters on all that has sides, padding, packing."""
    model = flops.recipe(Own(), batch()).model()
    layers, head = written_out(1, 64, 1 / 2) - 2 * 64 * 3200, 2 * 64 * 3200
    core = 2 * 2 * 2 * 64**2 / 2 * 32

    def counted(lengths: Any = None, padded: Any = None, **passes: Any) -> Any:
        how = flops.How(passes=flops.Passes(**passes))
        return flops.count(model, lengths or flops.fixed(1, tokens=64), how, padded)

    full = counted(recompute=flops.Recompute.FULL)
    assert full.hardware_flops_per_step == 4 * layers + 3 * head
    selective = counted(recompute=flops.Recompute.SELECTIVE)
    assert selective.hardware_flops_per_step == 3 * (layers + head) + core
    lora = counted(lora=flops.Lora(8, ("qkv", "down")))
    adapters = 2 * 64 * 2 * 8 * (32 + 96 + 128 + 32)
    assert lora.model_flops_per_step == 2 * (layers + head) + core + 3 * adapters
    assert counted(forward_only=True).model_flops_per_step == layers + head
    packed = counted(flops.packed([16, 48]))
    assert packed.model_flops_per_step == 3 * (written_out(1, 16, 0.5) + written_out(1, 48, 0.5))
    padded = counted(flops.fixed(1, tokens=48), flops.fixed(1, tokens=64))
    assert padded.hardware_flops_per_step == 3 * written_out(1, 64, 0.5)


def test_a_frozen_layer_is_said_to_be_frozen() -> None:
    module = Own()
    module.layers.requires_grad_(False)
    recipe = flops.recipe(module, batch())
    trained = 3200 + 3200
    assert recipe.trained_parameters == trained
    frozen = [term for term in recipe.terms if term.name.startswith("layers") and term.matrix]
    assert {term.gradients for term in frozen} == {(1, 0)}
    model = recipe.model()
    count = flops.count(model, flops.fixed(1, tokens=48))
    core = 2 * 2 * 2 * 48**2 / 2 * 32
    head = 2 * 48 * 3200
    layers = written_out(1, 48, 0.5) - head
    assert count.model_flops_per_step == 3 * head + 2 * layers + core


def test_a_module_without_a_text_counts_samples() -> None:
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1, groups=1), torch.nn.Conv2d(8, 8, 3, groups=8)
    )
    recipe = flops.recipe(module, (torch.randn(4, 3, 10, 10),))
    first, second = 2 * 100 * 3 * 8 * 9, 2 * 64 * 8 * 9
    count = flops.count(recipe.model(), flops.fixed(5))
    assert count.model_flops_per_step == 5 * (2 * first + 3 * second), "pixels want no gradient"
    assert count.tokens == 5


def test_a_module_that_reads_values_is_refused_in_a_line() -> None:
    class Reads(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.linear(x) * float(x.sum())

    with pytest.raises(
        ConfigError, match="recipe: Reads cannot be run on shapes alone: "
    ) as caught:
        flops.recipe(Reads(), (torch.randn(3, 4),))
    assert "\n" not in str(caught.value)


def test_a_count_that_is_no_polynomial_says_how_far_it_is_off() -> None:
    class Chunked(torch.nn.Module):  # type: ignore[misc]
        """Attends in chunks of 24 tokens, padded to whole ones."""

        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(10, 8)

        def forward(self, input_ids: Any) -> Any:
            x = self.table(input_ids)
            x = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[1] % 24)).unflatten(1, (-1, 24))
            return x @ x.mT

    recipe = flops.recipe(Chunked(), {"input_ids": torch.zeros(1, 64, dtype=torch.long)})
    assert recipe.fit.executed_flops == 3 * 2 * 2 * 24 * 24 * 8, "48 tokens are two chunks"
    assert recipe.fit.recipe_flops != recipe.fit.executed_flops
    off = recipe.fit.recipe_flops / recipe.fit.executed_flops - 1
    assert recipe.model().notes[0] == (
        f"the recipe is not exact: {off:+.3%} of what was executed at tokens=48"
    )


BUFFERS = {
    "MiniMaxM2ForCausalLM": 4 * 8,
    "DeepseekV3ForCausalLM": 3 * 8,
    "Glm4MoeForCausalLM": 3 * 8,
}
"""Biases of routers, which published checkpoints store as parameters and transformers as buffers."""


@pytest.mark.parametrize(
    ("architecture", "fields"), DECODERS[::4], ids=lambda value: str(value)[:24]
)
def test_a_recipe_of_a_decoder_counts_what_its_closed_form_counts(
    architecture: str, fields: dict[str, Any]
) -> None:
    """To the digit, of half of the pairs in windows and of all, and of what one token uses."""
    transformers = importlib.import_module("transformers")
    config = getattr(transformers, architecture).config_class(**fields)
    written = json.loads(config.to_json_string(use_diff=False))
    written |= {"architectures": [architecture]}
    closed, recipe = flops.read(written), making.recipe_of_config(written, {"tokens": 64})
    for causal in (None, False):
        for length in (64, 40):
            how = flops.How(counting=flops.Counting(causal=causal))
            lengths = flops.fixed(2, tokens=length)
            ours = flops.count(recipe.model(), lengths, how)
            theirs = flops.count(closed, lengths, how)
            assert ours.model_flops_per_step == theirs.model_flops_per_step
    buffers = BUFFERS.get(architecture, 0)
    assert ours.parameters.total == theirs.parameters.total - buffers
    assert ours.parameters.active == theirs.parameters.active - buffers


def test_real_forward_is_another_counter() -> None:
    """The executions that recipes are fitted to are those of a model with weights."""
    module = Own()
    count = flops.count(
        flops.recipe(module, batch(1)).model(),
        flops.fixed(1, tokens=48),
        flops.How(counting=flops.Counting(causal=False), passes=flops.Passes(forward_only=True)),
    )
    assert count.model_flops_per_step == real_forward(module, batch(1))


TEXT = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4, "vocab_size": 320}
TEXT |= {"num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0}
SEEN = {"hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 2, "image_size": 32}
SEEN |= {"patch_size": 8}


@pytest.mark.parametrize(
    ("name", "text", "vision"),
    [
        ("Mllama", {"cross_attention_layers": [1, 3]}, {"attention_heads": 4}),
        ("Llava", {"model_type": "llama"}, {"model_type": "clip_vision_model"}),
    ],
)
def test_images_cost_their_tower_and_what_attends_to_them(
    name: str, text: dict[str, Any], vision: dict[str, Any]
) -> None:
    """At lengths that were not fitted, and at others: what torch executes there, to the digit."""
    vision = {**SEEN, "num_attention_heads": 4, **vision}
    if name == "Mllama":
        vision |= {"num_global_layers": 3, "intermediate_layers_indices": [0, 1]}
        vision |= {"vision_output_dim": 96}
    fields = {"text_config": {**TEXT, **text}, "vision_config": vision, "image_token_index": 300}
    architecture = f"{name}ForConditionalGeneration"
    read = getattr(importlib.import_module("transformers"), architecture).config_class(**fields)
    config = {**json.loads(read.to_json_string(use_diff=False)), "architectures": [architecture]}
    recipe = making.recipe_of_config(config, {"tokens": 128, "images": 1})
    assert recipe.fit.executed_flops == recipe.fit.recipe_flops
    model, how = recipe.model(), flops.How(counting=flops.Counting(causal=False))
    executed = making.from_config.executed_of(config, {"tokens": 100, "images": 4})
    counted = flops.count(model, flops.fixed(1, tokens=100, images=4), how)
    assert counted.model_flops_per_step == executed.flops
    frozen = flops.Passes(frozen=frozenset({"vision"}))
    less = flops.count(model, flops.fixed(1, tokens=100, images=4), flops.How(passes=frozen))
    assert less.model_flops_per_step < counted.model_flops_per_step
