"""FLOPs per token of the model that a report carries, and models that cannot be counted."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ReportError
from ofu_exporter.reports.messages import ModelBody
from ofu_exporter.reports.model_count import counted_step, flops_per_token, problem
from ofu_exporter.values.reasons import ReportRejection
from tests.flops.counting import config
from tests.flops.test_recipes import RECIPE
from tests.helpers.desk import said
from tests.helpers.every import every

LLAMA = {"config": config("llama-3-8b"), "seq_len": 8192}


def model(body: dict[str, Any]) -> ModelBody:
    found = said(mfu=0.4, model=body).model
    assert found is not None
    return found


def test_a_token_costs_what_the_formulas_count() -> None:
    counted = flops.count(flops.read(config("llama-3-8b")), flops.fixed(1, tokens=8192))
    found = flops_per_token(model(LLAMA))
    assert found == pytest.approx(float(counted.model_flops_per_step) / 8192)
    assert problem(model(LLAMA)) is None


def test_the_parts_of_a_model_count() -> None:
    def count(**changes: Any) -> float:
        return flops_per_token(model({**LLAMA, **changes}))

    assert count(forward_only=True) == pytest.approx(count() / 3)
    assert count(batch_size=16) == pytest.approx(count())
    assert count(lora_rank=8) < count()
    assert count(seq_len=16384) > count()


@every(
    [
        {},
        {"architectures": ["NoSuchModel"]},
        {**config("llama-3-8b"), "hidden_size": 0},
        {**config("llama-3-8b"), "hidden_size": "wide"},
        {**config("llama-3-8b"), "num_hidden_layers": None},
        {**config("llama-3-8b"), "num_attention_heads": -1},
        {**config("llama-3-8b"), "num_key_value_heads": 0},
        config("wan2.2-t2v-a14b"),  # seq_len does not say how long its two streams are
        config("vit-l-16"),  # its configuration fixes the patches of an image
        config("qwen2.5-vl-7b"),  # its text may have images, of unknown size
    ]
)
def test_a_model_that_cannot_be_counted_is_named(wrong: dict[str, Any]) -> None:
    body = model({"config": wrong, "seq_len": 8192})
    for count in (flops_per_token, counted_step):
        with pytest.raises(ReportError) as error:
            count(body)
        assert (error.value.reason, error.value.field) == (ReportRejection.OUT_OF_RANGE, "model")
    assert (problem(body) or "").startswith("model: ")


def test_other_streams_are_given_by_name() -> None:
    """As `flops --length` takes them; the sequence has the image's tokens in it."""
    read = config("qwen2.5-vl-7b")
    body = {"config": read, "seq_len": 1536, "lengths": {"image": 4096}}
    counted = flops.count(flops.read(read), flops.fixed(1, tokens=1536, image=4096))
    assert flops_per_token(model(body)) == pytest.approx(float(counted.model_flops_per_token))
    read = config("wan2.2-t2v-a14b")
    video = {"config": read, "lengths": {"latent": 4096, "prompt": 512}}
    counted = flops.count(flops.read(read), flops.fixed(1, latent=4096, prompt=512))
    assert flops_per_token(model(video)) == pytest.approx(float(counted.model_flops_per_token))
    image = {"config": config("vit-l-16")}
    counted = flops.count(flops.read(config("vit-l-16")), flops.fixed(1))
    assert flops_per_token(model(image)) == pytest.approx(float(counted.model_flops_per_token))


def test_a_recipe_is_counted_at_its_own_lengths_or_at_others() -> None:
    recipe = {**RECIPE, "lengths": {"tokens": 64, "images": 1}}
    own = flops.count(flops.read(recipe), flops.fixed(1, tokens=64, images=1))
    assert flops_per_token(model({"recipe": recipe})) == pytest.approx(
        float(own.model_flops_per_token)
    )
    other = flops.count(flops.read(recipe), flops.fixed(1, tokens=32, images=0))
    body = {"recipe": recipe, "seq_len": 32, "lengths": {"images": 0}}
    assert flops_per_token(model(body)) == pytest.approx(float(other.model_flops_per_token))
    assert "has no stream 'audio'" in (problem(model({**body, "lengths": {"audio": 5}})) or "")


def test_a_recipe_that_comes_to_nothing_is_refused() -> None:
    terms = [{"name": "x", "part": "mlp", "tower": "language", "forward": {"tokens": 0}}]
    body = model({"recipe": {**RECIPE, "terms": terms}})
    assert "has no FLOPs at these lengths" in (problem(body) or "")
