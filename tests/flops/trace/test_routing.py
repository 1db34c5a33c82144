"""Experts that are all computed count as those that a token chooses; other products of stacked weights count whole."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops

torch: Any = pytest.importorskip("torch", reason="pip install --group test-torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

TOKENS, WIDE, INNER, EXPERTS, CHOSEN = 48, 16, 24, 6, 2
ROUTER = 2 * TOKENS * WIDE * EXPERTS
ONE = 2 * TOKENS * WIDE * INNER


class Experts(torch.nn.Module):  # type: ignore[misc]
    """Multiplies every token by the weights of every expert, as Llama 4 of transformers does."""

    def __init__(self, stacked: int) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.randn(stacked, WIDE, INNER))

    def forward(self, x: Any) -> Any:
        return torch.bmm(x, self.weights)


class Layer(torch.nn.Module):  # type: ignore[misc]
    """A router, the scores of which are 0 for what is not chosen."""

    def __init__(self, chosen: int | None = CHOSEN, stacked: int = EXPERTS) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(50, WIDE)
        self.router = torch.nn.Linear(WIDE, EXPERTS, bias=False)
        self.experts = Experts(stacked)
        self.chosen = chosen

    def forward(self, input_ids: Any) -> Any:
        x = self.table(input_ids).flatten(0, 1)
        scores = self.router(x)
        if self.chosen:
            values, places = scores.topk(self.chosen, dim=1)
            scores = torch.full_like(scores, float("-inf")).scatter(1, places, values)
        scores = scores.sigmoid().sum(1)[:, None]
        number = len(self.experts.weights)
        return self.experts((x * scores).repeat(number, 1).unflatten(0, (number, -1))).sum(0)


def batch(samples: int = 1) -> dict[str, Any]:
    return {"input_ids": torch.full((samples, TOKENS), 3)}


@pytest.mark.parametrize("samples", [1, 3])
def test_the_experts_that_a_token_chose_are_counted_where_all_are_computed(samples: int) -> None:
    recipe = flops.recipe(Layer(), batch(samples))
    assert recipe.fit.executed_flops == recipe.fit.recipe_flops
    counted = flops.count(recipe.model(), flops.fixed(1, tokens=TOKENS))
    assert counted.model_flops_per_step == 3 * (ROUTER + CHOSEN * ONE)
    assert counted.parameters.total == WIDE * (50 + EXPERTS + EXPERTS * INNER)
    assert counted.parameters.active == WIDE * (50 + EXPERTS + CHOSEN * INNER)
    assert counted.warnings == (
        "all 6 experts are computed for a token, which chooses 2: a recipe counts the chosen ones, "
        "2/6 of what is executed in experts",
    )


def test_what_is_executed_has_all_experts() -> None:
    executed = flops.executed(Layer(), batch())
    assert executed.flops == 3 * (ROUTER + EXPERTS * ONE)
    assert "all 6 experts are computed" in executed.warnings[0]


@pytest.mark.parametrize("layer", [Layer(chosen=None), Layer(stacked=5)], ids=["none", "others"])
def test_stacked_weights_count_whole_where_no_token_chooses_among_them(layer: Any) -> None:
    """No choice at all, or one among another number of experts."""
    number = len(layer.experts.weights)
    recipe = flops.recipe(layer, batch())
    counted = flops.count(recipe.model(), flops.fixed(1, tokens=TOKENS))
    assert counted.model_flops_per_step == 3 * (ROUTER + number * ONE)
    assert not any("experts are computed" in each for each in counted.warnings)
