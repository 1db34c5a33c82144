"""Of a model that a job reported, its numbers are kept, and its text as far as that is short."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError, ReportError
from ofu_exporter.flops import recipes
from ofu_exporter.flops.config_file import read_configuration, ready_recipes
from ofu_exporter.reports.hardware import Hardware
from ofu_exporter.reports.messages import ModelBody
from ofu_exporter.reports.reported_model import (
    MOST_KEPT_BYTES,
    KeptModel,
    counted_step,
    flops_per_token,
    keep_model,
    named_recipe,
    with_recipe,
)
from ofu_exporter.reports.stated import completed
from ofu_exporter.values.reasons import ReportRejection
from tests.flops.counting import config
from tests.flops.test_recipes import RECIPE
from tests.helpers.desk import said
from tests.helpers.every import every

LLAMA = {"config": config("llama-3-8b"), "seq_len": 8192}
PEAK = 1e15
ONE = Hardware(1, peaks={"bf16": PEAK})
Count = Callable[[ModelBody], KeptModel]


def never(model: ModelBody) -> KeptModel:
    raise AssertionError(f"counted again: {model}")


def test_a_model_that_is_repeated_or_left_out_is_not_counted_again() -> None:
    _, first, stated = completed(said(tokens_per_second=1e4, gpus=1, model=LLAMA), None, ONE, None)
    per_token = flops_per_token(ModelBody.model_validate(LLAMA))
    assert stated.mfu == pytest.approx(1e4 * per_token / PEAK)
    assert first.facts.model is None, "the body itself is not kept"
    for report in (said(tokens_per_second=2e4, model=LLAMA), said(tokens_per_second=2e4)):
        _, later, stated = completed(report, first, ONE, None, never)
        assert stated.mfu == pytest.approx(2e4 * per_token / PEAK)
        assert later.model == first.model


def test_a_model_that_cannot_be_counted_may_be_all_that_a_report_has() -> None:
    only = said(model={"config": config("llama-3-8b")})  # without a length
    _, known, stated = completed(only, None, ONE, None)
    assert (known.model, stated.mfu) == (None, None)
    assert "tokens" in stated.warnings[0]


def test_another_batch_is_another_model() -> None:
    first = completed(said(mfu=0.4, model=LLAMA), None, ONE, None).facts
    other = completed(said(mfu=0.4, model={**LLAMA, "batch_size": 2}), first, ONE, None).facts
    assert other.model != first.model


def test_the_text_of_a_model_comes_back_as_it_was() -> None:
    body = ModelBody.model_validate({**LLAMA, "forward_only": True})
    kept = keep_model(body)
    assert kept.body() == body
    assert kept.forward_only
    assert len(kept.text) < 1000


def test_a_text_too_long_to_keep_leaves_its_numbers() -> None:
    digits = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=90_000))
    noise = {f"_{place}": digits[place : place + 9000] for place in range(0, 90_000, 9000)}
    body = ModelBody.model_validate({**LLAMA, "config": {**config("llama-3-8b"), **noise}})
    kept = keep_model(body)
    assert (kept.text, kept.body()) == (b"", None)
    assert len(digits) > MOST_KEPT_BYTES
    assert kept.flops_per_token == flops_per_token(ModelBody.model_validate(LLAMA))


def test_a_model_for_which_there_is_no_time_is_told_and_not_taken_for_a_wrong_one() -> None:
    def busy(model: ModelBody) -> KeptModel:
        raise ReportError(ReportRejection.TOO_MANY, "", "later", retry_after=1.0)

    with pytest.raises(ReportError) as error:
        completed(said(mfu=0.4, model=LLAMA), None, ONE, None, busy)
    assert error.value.reason is ReportRejection.TOO_MANY


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.json").write_text(json.dumps(RECIPE))
    return tmp_path


def test_a_named_recipe_is_read_from_the_folder_as_it_is_now(folder: Path) -> None:
    report, problem = with_recipe(said(mfu=0.4, model={"recipe": "own"}), folder)
    assert problem is None
    assert report.model is not None
    assert report.model.recipe == recipes.read(RECIPE)
    (folder / "own.json").write_text(json.dumps({**RECIPE, "architecture": "Newer"}))
    assert named_recipe(folder, "own").architecture == "Newer"


def test_a_report_that_has_its_mfu_needs_no_recipe(folder: Path) -> None:
    report, problem = with_recipe(said(mfu=0.4, model={"recipe": "other"}), folder)
    assert report.model is None
    assert report.mfu == 0.4
    assert problem is not None
    assert problem.startswith("model: the recipe ")
    assert problem.endswith("No such file or directory; it explains nothing")


def test_a_report_of_tokens_needs_its_recipe(folder: Path) -> None:
    told = said(tokens_per_second=5.0, model={"recipe": "other"})
    with pytest.raises(ReportError, match=r"other\.json: No such file"):
        with_recipe(told, folder)
    with pytest.raises(ReportError, match="this agent has no folder of recipes"):
        with_recipe(told, None)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "is not JSON"),
        (b"[]", ": the top level is not a configuration"),
        (b"\xff", "is not UTF-8"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"recipe_version": 2}', "'2' cannot be read here; this version reads 1"),
        (b"{}", "'None' cannot be read here"),
        (b'{"recipe_version": 1, "recipe_version": 1}', "the key 'recipe_version' is there twice"),
        (b" " * (300 << 10), "is larger than 256 KiB"),
        (json.dumps({**RECIPE, "terms": 5}).encode(), "terms: "),
    ],
)
def test_what_is_no_recipe_is_a_sentence(folder: Path, content: bytes, text: str) -> None:
    (folder / "odd.json").write_bytes(content)
    with pytest.raises(ConfigError, match=text) as caught:
        named_recipe(folder, "odd")
    assert "odd.json" in str(caught.value)
    assert str(folder) not in str(caught.value), "nothing that a job has to know"
    assert "\n" not in str(caught.value)


def test_a_pipe_in_the_folder_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.json")
    with pytest.raises(ConfigError, match=r"pipe\.json: it is not a file"):
        named_recipe(folder, "pipe")


def test_a_sites_recipe_does_not_replace_the_packages(folder: Path) -> None:
    (folder / "dinov2-base.json").write_text(json.dumps({**RECIPE, "architecture": "Sites"}))
    assert named_recipe(folder, "dinov2-base") == named_recipe(None, "dinov2-base")
    assert named_recipe(folder, "dinov2-base").architecture != "Sites"


def test_recipes_that_come_with_the_package_need_no_folder() -> None:
    """Each is exact, or within a thousandth, and has the parameters of the published checkpoint."""
    published = {
        "clip-vit-large-patch14": 427_616_513,
        "deberta-v3-base": 183_831_552,
        "dinov2-base": 86_580_480,
        "dit-xl-2-256": 749_826_464,
        "flux.1-dev": 11_901_408_320,
        "gemma-3-12b": 12_187_325_040,
        "gemma-3-27b": 27_432_406_640,
        "gemma-3-4b": 4_300_079_472,
        "lfm2-1.2b": 1_170_340_608,
        "llama-3.2-11b-vision": 10_642_941_475,
        "llava-1.5-7b": 7_063_427_072,
        "paligemma-3b-pt-224": 2_923_466_480,
        "siglip-base-patch16-224": 203_155_970,
        "stable-diffusion-3.5-large": 8_056_627_520,
        "swin-base-patch4-window7-224": 87_768_224,
        "t5-3b": 2_851_598_336,
        "wav2vec2-base": 94_396_320,
        "whisper-large-v3": 1_543_490_560,
    }
    for name in ready_recipes():
        found = named_recipe(None, name)
        assert found == recipes.read(read_configuration(Path(name)))
        assert sum(term.parameters for term in found.terms) == published[name]
        assert found.fit.recipe_flops == pytest.approx(found.fit.executed_flops, rel=1e-3)
    assert {*ready_recipes()} == published.keys()


def model(body: dict[str, Any]) -> ModelBody:
    found = said(mfu=0.4, model=body).model
    assert found is not None
    return found


def warnings(body: ModelBody) -> tuple[str, ...]:
    """What is said of a model beside an MFU that does not need it."""
    report = said(mfu=0.4).model_copy(update={"model": body})
    return completed(report, None, ONE, None).stated.warnings


def test_a_token_costs_what_the_formulas_count() -> None:
    counted = flops.count(flops.read(config("llama-3-8b")), flops.fixed(1, tokens=8192))
    found = flops_per_token(model(LLAMA))
    assert found == pytest.approx(float(counted.model_flops_per_step) / 8192)
    assert warnings(model(LLAMA)) == ()


def test_the_parts_of_a_model_count() -> None:
    def count(**changes: Any) -> float:
        return flops_per_token(model({**LLAMA, **changes}))

    assert count(forward_only=True) == pytest.approx(count() / 3)
    assert count(batch_size=16) == pytest.approx(count())
    assert count(lora_rank=8, lora_targets=("q_proj",)) < count(lora_rank=8) < count()
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
def test_a_configuration_that_cannot_be_counted_is_named(wrong: dict[str, Any]) -> None:
    body = model({"config": wrong, "seq_len": 8192})
    for count in (flops_per_token, counted_step):
        with pytest.raises(ReportError) as error:
            count(body)
        assert (error.value.reason, error.value.field) == (ReportRejection.OUT_OF_RANGE, "model")
    assert warnings(body)[0].startswith("model: ")


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
    assert "has no stream 'audio'" in warnings(model({**body, "lengths": {"audio": 5}}))[0]


def test_a_recipe_that_comes_to_nothing_is_refused() -> None:
    terms = [{"name": "x", "part": "mlp", "tower": "language", "forward": {"tokens": 0}}]
    body = model({"recipe": {**RECIPE, "terms": terms}})
    assert "has no FLOPs at these lengths" in warnings(body)[0]


@pytest.mark.parametrize(
    ("adapters", "executed"),
    [
        ({}, 3_008_512),
        ({"lora_rank": 4, "lora_targets": ("q_proj", "v_proj")}, 2_356_224),
    ],
)
def test_a_reference_is_counted_as_dpo_runs_it(adapters: dict[str, Any], executed: int) -> None:
    """FLOPs of a token that torch's FlopCounterMode saw in TRL 1.16's DPOTrainer, which attends to every pair."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 512,
        "tie_word_embeddings": False,
    }
    model = ModelBody(config=config, seq_len=64, reference=True, **adapters)
    assert flops_per_token(model) == pytest.approx(executed, rel=0.02)
