"""A recipe stands wherever a config.json does: `flops`, `mfu` and `explain` count it, without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ofu_exporter.cli import cli
from tests.flops.counting import CONFIGS, LLAMA
from tests.flops.test_recipes import RECIPE, forward
from tests.helpers.in_process import as_json, shown

H100 = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(RECIPE))
    return str(path)


def test_flops_of_a_recipe_at_its_own_lengths_and_at_others(recipe: str) -> None:
    own = as_json("flops", recipe, "--forward-only")
    assert own["model_flops_per_step"] == forward(64, 1)
    other = as_json("flops", recipe, "--forward-only", "--seq-len", "40", "--length", "images=3")
    assert other["model_flops_per_step"] == forward(40, 3)
    assert other["family"] == "recipe"
    half = as_json("flops", recipe, "--forward-only", "--full-attention")
    assert half["model_flops_per_step"] == forward(64, 1, every_pair=True)


def test_mfu_of_a_recipe_is_its_throughput_over_the_peak(recipe: str) -> None:
    """FLOPs of a step of 64 tokens, 1e9 steps a second, on 8 GPUs of 989.4 TFLOP/s."""
    step = as_json("flops", recipe)["model_flops_per_step"]
    out = as_json("mfu", recipe, "--gpu", H100, "--gpus", "8", "--tokens-per-second", "64e9")
    assert out["mfu"] == pytest.approx(step * 1e9 / (8 * 989.4e12), rel=1e-3)


def test_explain_takes_a_recipe(recipe: str) -> None:
    """A job that reports at every pair, where the model attends to half of them."""
    step = as_json("flops", recipe)["model_flops_per_step"]
    every = as_json("flops", recipe, "--full-attention")["model_flops_per_step"]
    found = as_json(
        *("explain", "--config", recipe, "--mfu", str(0.2 * every / step), "--ofu", "0.2"),
        *("--training", "--recompute", "none", "--gpu", H100, "--gpus", "8"),
        *("--precision", "bf16", "--ofu-stderr", "0.001"),
    )
    assert any("attention" in cause["cause"] for cause in found["causes"]), found


def test_a_ready_recipe_is_named() -> None:
    out = as_json("flops", "clip-vit-large-patch14")
    assert out["parameters"]["total"] == 427_616_513


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({**RECIPE, "terms": [{"name": "x", "part": "soul"}]}))
    result = CliRunner().invoke(cli, ["flops", str(path)])
    assert result.exit_code != 0
    assert "terms.0.part: Input should be" in str(result.exception or result.output)


def test_saving_needs_an_execution(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["flops", LLAMA, "--save", str(tmp_path / "x.json")])
    assert result.exit_code == 2
    assert "--save needs --executed" in result.output
    result = CliRunner().invoke(cli, ["flops", LLAMA, LLAMA, "--executed"])
    assert (result.exit_code, "--executed takes one configuration" in result.output) == (2, True)


@pytest.mark.slow
def test_an_execution_is_saved_and_counted_in_a_process_without_torch(tmp_path: Path) -> None:
    """To the digit what the closed form counts."""
    for library in ("torch", "transformers"):
        pytest.importorskip(library, reason="pip install --group test-torch")
    config = json.loads((CONFIGS / "qwen3-8b.json").read_text())
    small = {**config, "num_hidden_layers": 2, "max_window_layers": 2}
    small.pop("layer_types", None)
    (tmp_path / "config.json").write_text(json.dumps(small))
    model, saved = str(tmp_path / "config.json"), str(tmp_path / "own.json")
    shown("flops", model, "--executed", "--seq-len", "512", "--save", saved)
    program = (
        "import sys; sys.modules['torch'] = None; from ofu_exporter.cli import cli; "
        f"cli(['flops', {saved!r}, '--seq-len', '4096', '--format', 'json'])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    counted = json.loads(run.stdout)
    closed = as_json("flops", model, "--seq-len", "4096")
    assert counted["model_flops_per_step"] == closed["model_flops_per_step"]
    assert counted["parameters"] == closed["parameters"]
    pace = ("--gpu", H100, "--gpus", "8", "--tokens-per-second", "8e4", "--seq-len", "512")
    assert as_json("mfu", model, "--executed", *pace)["mfu"] == as_json("mfu", model, *pace)["mfu"]
