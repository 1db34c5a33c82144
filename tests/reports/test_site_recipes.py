"""A job names a recipe, which is in the site's folder; what is wrong with it is a sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError, ReportError
from ofu_exporter.flops import recipes
from ofu_exporter.flops.config_file import read_configuration, ready_recipes
from ofu_exporter.reports.site_recipes import named_recipe, with_recipe
from tests.flops.test_recipes import RECIPE
from tests.helpers.desk import said


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
    with pytest.raises(ConfigError, match=r"pipe\.json is not a file"):
        named_recipe(folder, "pipe")


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
