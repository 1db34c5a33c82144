"""Recipes count the pairs that masks let through, by formulas written out here, at lengths below and above windows."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

from ofu_exporter import flops

torch: Any = pytest.importorskip("torch", reason="pip install --group test-torch")
pytest.importorskip("transformers", reason="pip install --group test-torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
making = importlib.import_module("ofu_exporter.flops.trace.making")
masks = importlib.import_module("ofu_exporter.flops.trace.masks")

HIDDEN, HEADS, GROUPS, WIDE, INNER, VOCABULARY = 64, 4, 2, 16, 96, 320
WINDOW, FITTED = 96, 256
BASE = {"hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": 4}
BASE |= {"num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "head_dim": WIDE}
BASE |= {"vocab_size": VOCABULARY, "max_position_embeddings": 4096}
BASE |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
LOCAL, GLOBAL = "sliding_attention", "full_attention"
ALTERNATING = [LOCAL, LOCAL, LOCAL, GLOBAL]
ATTENTION = 2 * HIDDEN * HEADS * WIDE + 2 * HIDDEN * GROUPS * WIDE
GATED, HEAD = 3 * HIDDEN * INNER, HIDDEN * VOCABULARY


def before(length: int, window: int | None = None) -> Fraction:
    """Half of the pairs, or those of a window of keys that ends with the query, if they are fewer."""
    half = Fraction(length**2, 2)
    seen = sum(min(query + 1, window or length) for query in range(length))
    return min(half, Fraction(seen))


def around(length: int, window: int | None = None) -> int:
    """All pairs, or those that are no further apart than half of a window."""
    side = length if window is None else window // 2
    return sum(min(query + side, length - 1) - max(query - side, 0) + 1 for query in range(length))


def in_chunks(length: int, chunk: int | None = None) -> Fraction:
    """Half of the pairs of each chunk."""
    number, rest = divmod(length, chunk or length)
    return Fraction(number * (chunk or length) ** 2 + rest**2, 2)


@dataclass(frozen=True)
class Case:
    """A small model, what its layers multiply per token, and what its layers see."""

    architecture: str
    fields: dict[str, Any]
    layer: int = ATTENTION + GATED
    limits: tuple[int | None, ...] = (WINDOW,) * 4
    pairs: Any = before
    head: int = HEAD

    def flops(self, length: int) -> Fraction:
        """Forward and backward, written out: 2 per multiply-add, three passes over everything."""
        seen = sum(self.pairs(length, limit) for limit in self.limits)
        weights = length * (len(self.limits) * self.layer + self.head)
        return 3 * 2 * Fraction(weights + 2 * HEADS * WIDE * seen)

    def config(self) -> dict[str, Any]:
        """The configuration as transformers writes it."""
        kind = getattr(importlib.import_module("transformers"), self.architecture)
        written = json.loads(kind.config_class(**self.fields).to_json_string(use_diff=False))
        return {**written, "architectures": [self.architecture]}


MIXED = (WINDOW, WINDOW, WINDOW, None)
ROUTER = HIDDEN * 4
CASES = [
    Case("MistralForCausalLM", {**BASE, "sliding_window": WINDOW}),
    Case("MistralForCausalLM", {**BASE, "sliding_window": None}, limits=(None,) * 4),
    Case("Phi3ForCausalLM", {**BASE, "sliding_window": WINDOW}),
    Case(
        "Starcoder2ForCausalLM",
        {**BASE, "sliding_window": WINDOW},
        layer=ATTENTION + 2 * HIDDEN * INNER,
    ),
    Case(
        "MixtralForCausalLM",
        {**BASE, **EXPERTS, "sliding_window": WINDOW},
        layer=ATTENTION + 2 * GATED + ROUTER,
    ),
    Case(
        "ModernBertForMaskedLM",
        {**BASE, "local_attention": WINDOW, "global_attn_every_n_layers": 3},
        layer=4 * HIDDEN**2 + GATED,
        limits=(None, WINDOW, WINDOW, None),
        pairs=around,
        head=HIDDEN**2 + HEAD,
    ),
    Case(
        "Llama4ForCausalLM",
        {**BASE, **EXPERTS, "intermediate_size_mlp": INNER, "attention_chunk_size": WINDOW}
        | {"interleave_moe_layer_step": 1, "num_experts_per_tok": 1},
        layer=ATTENTION + 2 * GATED + ROUTER,
        limits=MIXED,
        pairs=in_chunks,
    ),
    Case(
        "Exaone4ForCausalLM",
        {**BASE, "sliding_window": WINDOW, "layer_types": ALTERNATING},
        limits=MIXED,
    ),
    Case(
        "Gemma3ForCausalLM",
        {**BASE, "sliding_window": WINDOW, "layer_types": ALTERNATING},
        limits=MIXED,
    ),
    Case(
        "GptOssForCausalLM",
        {**BASE, **EXPERTS, "sliding_window": WINDOW, "layer_types": ALTERNATING},
        layer=ATTENTION + 2 * GATED + ROUTER,
        limits=MIXED,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.architecture)
@pytest.mark.parametrize("fitted", [FITTED, 64])
def test_a_recipe_counts_the_pairs_that_its_masks_let_through(case: Case, fitted: int) -> None:
    """At lengths above and below the window, fitted or not, also where none that was executed is as long as it."""
    recipe = making.recipe_of_config(case.config(), {"tokens": fitted})
    assert recipe.fit.executed_flops == recipe.fit.recipe_flops
    for length in (40, 64, 100, FITTED, 1000):
        counted = flops.count(recipe.model(), flops.fixed(1, tokens=length))
        assert counted.model_flops_per_step == case.flops(length), length


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("case", [CASES[0], CASES[5], CASES[7]], ids=lambda case: case.architecture)
def test_a_module_that_somebody_built_shows_its_masks_too(case: Case, kernel: str) -> None:
    """Also where the library leaves a mask out, because the window is longer than the text."""
    kind = getattr(importlib.import_module("transformers"), case.architecture)
    config = kind.config_class(**case.fields)
    config._attn_implementation = kernel
    module = kind(config).eval()
    recipe = flops.recipe(module, {"input_ids": torch.full((2, 64), 3)})
    for length in (40, 64, 1000):
        counted = flops.count(recipe.model(), flops.fixed(1, tokens=length))
        assert counted.model_flops_per_step == case.flops(length), length


def test_masks_are_made_as_before_afterwards() -> None:
    masking = importlib.import_module("transformers.masking_utils")
    makers = dict(masking.ALL_MASK_ATTENTION_FUNCTIONS)
    making.from_config.executed_of(CASES[0].config(), {"tokens": 16})
    assert dict(masking.ALL_MASK_ATTENTION_FUNCTIONS) == makers


def test_a_text_that_sees_only_what_stands_before_is_causal_whatever_its_layers_say() -> None:
    """CLIP's layers are those of its images, too, which see everything."""
    fields = {"hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": 4}
    fields |= {"num_attention_heads": HEADS, "vocab_size": VOCABULARY, "eos_token_id": 2}
    case = Case(
        "CLIPTextModel",
        {**fields, "max_position_embeddings": 1000},
        layer=4 * HIDDEN**2 + 2 * HIDDEN * INNER,
        limits=(None,) * 4,
        head=0,
    )
    recipe = making.recipe_of_config(case.config(), {"tokens": 64})
    for length in (40, 64, 1000):
        counted = flops.count(recipe.model(), flops.fixed(1, tokens=length))
        assert counted.model_flops_per_step == case.flops(length)


NEO: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "num_layers": 2,
    "num_heads": HEADS,
    "vocab_size": VOCABULARY,
}
NEO |= {"attention_types": [[["global", "local"], 1]], "window_size": WINDOW}


@pytest.mark.parametrize(("fitted", "longest"), [(FITTED, 512), (64, 4096)])
def test_a_mask_that_a_model_makes_alone_is_a_warning_where_it_is_not_what_is_counted(
    fitted: int, longest: int
) -> None:
    """GPT-Neo has its windows in a table, whose values show them; one of 4096 tokens has none."""
    case = Case("GPTNeoForCausalLM", {**NEO, "max_position_embeddings": longest})
    recipe = making.recipe_of_config(case.config(), {"tokens": fitted})
    text = f"{masks.UNDETERMINED}: transformer.h.N.attn.attention"
    assert text in recipe.model().notes


class Alone(torch.nn.Module):  # type: ignore[misc]
    """Causal attention without the functions of transformers, with a bias of each distance."""

    is_causal = True

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(VOCABULARY, HIDDEN)

    def forward(self, input_ids: Any) -> Any:
        x = self.table(input_ids)
        places = torch.arange(x.shape[1])
        ahead = places[None] - places[:, None]
        scores = x @ x.mT + ahead * 0.1
        return scores.masked_fill(ahead > 0, float("-inf")).softmax(-1) @ x


def test_a_mask_that_a_module_makes_alone_is_no_warning_where_it_is_what_is_counted() -> None:
    """With values and without."""
    ids = torch.full((1, 64), 3)
    assert flops.recipe(Alone(), {"input_ids": ids}).model().notes == ()
    assert flops.executed(Alone(), (ids,)).warnings == ()


def test_a_prompt_that_sees_itself_is_counted_whole() -> None:
    """PaliGemma's text, whose types of tokens are given, sees all of its prompt and image."""
    text = {**BASE, "model_type": "gemma", "num_hidden_layers": 2}
    seen = {"model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 64}
    seen |= {"num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32, "patch_size": 16}
    fields = {"text_config": text, "vision_config": seen, "projection_dim": HIDDEN}
    case = Case("PaliGemmaForConditionalGeneration", {**fields, "image_token_id": 300})
    recipe = making.recipe_of_config(case.config(), {"tokens": 64, "images": 1})
    cores = [term for term in recipe.terms if term.name.endswith("language_model.layers.self_attn")]
    assert [term.causal for term in cores if term.part == "core"] == [False]


def test_a_function_of_positions_shows_its_mask_at_any_length() -> None:
    """Also with images between the words, with padding before them, and in chunks of any size."""
    masking = importlib.import_module("transformers.masking_utils")
    padding = torch.zeros(1, dtype=torch.int)
    images = torch.tensor([[-1, 0, 0, 0, -1, -1]])
    window = masking.sliding_window_causal_mask_function(4096)
    expected = {
        masking.causal_mask_function: masks.Mask(is_causal=True),
        masking.bidirectional_mask_function: masks.Mask(is_causal=False),
        window: masks.Mask(is_causal=True, window=4096),
        masking.or_masks(window, masking.blockwise_overlay(images)): masks.Mask(True, 4096),
        masking.sliding_window_bidirectional_mask_function(64): masks.Mask(False, window=129),
        masking.chunked_causal_mask_function(8192, padding): masks.Mask(True, chunk=8192),
        masking.chunked_causal_mask_function(37, padding): masks.Mask(True, chunk=37),
        masking.chunked_overlay(500, padding): masks.Mask(False, chunk=500),
    }
    for function, mask in expected.items():
        assert masks.mask_of(function) == mask


def test_a_function_of_another_kind_shows_no_mask() -> None:
    """Every second key, more keys before than behind, the first keys beside a window, none at all."""
    for function in (
        lambda _, __, query, key: (key <= query) & (key % 2 == query % 2),
        lambda _, __, query, key: (key > query - 16) & (key < query + 4),
        lambda _, __, query, key: (key <= query) & ((key > query - 16) | (key < 4)),
        lambda _, __, query, key: key < query * 0,
    ):
        assert masks.mask_of(function) is None


def test_a_mask_of_another_kind_is_a_warning() -> None:
    """Attention with the first keys beside a window: it is counted by what the module says of itself."""
    transformers = importlib.import_module("transformers")
    masking = importlib.import_module("transformers.masking_utils")

    class Sinks(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.config = transformers.LlamaConfig(**BASE)
            self.config._attn_implementation = "eager"
            self.table = torch.nn.Embedding(VOCABULARY, HIDDEN)

        def forward(self, input_ids: Any) -> Any:
            x = self.table(input_ids)
            mask = masking.create_causal_mask(
                self.config,
                x,
                None,
                None,
                and_mask_function=lambda _, __, query, key: (key > query - 16) | (key < 4),
            )
            return (x @ x.mT + mask[:, 0]).softmax(-1) @ x

    recipe = flops.recipe(Sinks(), {"input_ids": torch.full((1, 64), 3)})
    assert recipe.model().notes == (f"{masks.UNDETERMINED}: model",)
