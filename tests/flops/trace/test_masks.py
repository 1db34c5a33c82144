"""Recipes count the pairs that masks let through, by formulas written out here, at lengths below and above windows."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

from ofu_exporter import flops

torch: Any = pytest.importorskip("torch", reason="pip install .[test-torch]")
pytest.importorskip("transformers", reason="pip install .[test-torch]")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
making = importlib.import_module("ofu_exporter.flops.trace.making")

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
