"""Recipes are counted without torch by formulas written out here, and hostile ones are refused in a sentence."""

from __future__ import annotations

import copy
import json
import math
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import recipes

FIT = {
    "fitted_at": [{"tokens": 64}, {"tokens": 16}, {"tokens": 32}],
    "verified_at": {"tokens": 48},
    "executed_flops": 1000,
    "recipe_flops": 1000,
}
RECIPE: dict[str, Any] = {
    "recipe_version": 1,
    "architecture": "Own",
    "made_with": {"torch": "2.13.0"},
    "lengths": {"tokens": 64, "images": 1},
    "towers": ["vision", "language"],
    "layers": 2,
    "trained_parameters": 700,
    "fit": FIT,
    "terms": [
        {"name": "tower.patch", "part": "convolution", "tower": "vision", "gradients": [0, 1]}
        | {"forward": {"images": 6000}, "parameters": 300, "active": 300},
        {"name": "layers.q_proj", "part": "projection", "tower": "language", "in_layers": True}
        | {"forward": {"tokens": 2 * 2 * 8 * 16}, "parameters": 256, "active": 256}
        | {"matrix": {"inputs": 8, "outputs": 16, "stored": 2}},
        {"name": "layers.attn", "part": "core", "tower": "language", "in_layers": True}
        | {"forward": {"tokens*tokens": 32}, "gradients": [2, 0], "causal": True},
        {"name": "layers.local", "part": "core", "tower": "language", "in_layers": True}
        | {"forward": {"tokens*tokens": 4}, "gradients": [2, 0], "causal": True, "window": 4},
        {"name": "merge", "part": "projection", "tower": "language"}
        | {"forward": {"tokens": "10/4", "1": 7}, "gradients": [1, 0]},
    ],
}


def read(**changes: Any) -> flops.Model:
    return flops.read({**copy.deepcopy(RECIPE), **changes})


def forward(tokens: int, images: int, *, every_pair: bool = False) -> Fraction:
    """FLOPs of a forward pass of one sample, written out; a window of 4 sees 4 L - 6 pairs."""
    pairs = Fraction(tokens**2, 1 if every_pair else 2)
    local = tokens**2 if every_pair else 4 * tokens - 6
    return images * 6000 + tokens * 512 + 32 * pairs + 4 * local + Fraction(10, 4) * tokens + 7


@pytest.mark.parametrize(("tokens", "images"), [(64, 1), (40, 3), (8, 0)])
def test_a_recipe_is_counted_at_any_lengths(tokens: int, images: int) -> None:
    lengths = flops.fixed(3, tokens=tokens, images=images)
    alone = flops.How(passes=flops.Passes(forward_only=True))
    assert flops.count(read(), lengths, alone).model_flops_per_step == 3 * forward(tokens, images)
    every = flops.How(flops.How().convention, flops.Counting(causal=False), alone.passes)
    counted = flops.count(read(), lengths, every)
    assert counted.model_flops_per_step == 3 * forward(tokens, images, every_pair=True)
    both = flops.count(read(), lengths)
    missing = images * 6000 + Fraction(10, 4) * tokens + 7
    assert both.model_flops_per_step == 3 * (3 * forward(tokens, images) - missing)


@pytest.mark.parametrize(
    ("limit", "pairs"),
    [
        ({"causal": True, "window": 4}, 4 * 10 - 6),
        ({"causal": False, "window": 5}, 5 * 10 - 2 * 3),
        ({"causal": True, "chunk": 4}, 8 + 8 + 2),
        ({"causal": False, "chunk": 4}, 16 + 16 + 4),
    ],
)
def test_a_core_has_the_pairs_of_its_window_or_chunk(limit: dict[str, Any], pairs: int) -> None:
    """10 tokens: a triangle and a band, a band on both sides, two chunks of 4 and one of 2."""
    core = {"name": "attn", "part": "core", "forward": {"tokens*tokens": 32}, "gradients": [2, 0]}
    model = read(lengths={"tokens": 10}, towers=["model"], terms=[{**core, **limit}])
    counted = flops.count(model, flops.fixed(1, tokens=10))
    assert counted.model_flops_per_step == 3 * 32 * pairs


def test_a_frozen_tower_and_adapters_follow_from_the_terms() -> None:
    lengths, whole = flops.fixed(1, tokens=64, images=1), 3 * forward(64, 1)
    frozen = flops.Passes(frozen=frozenset({"vision"}))
    counted = flops.count(read(), lengths, flops.How(passes=frozen))
    merge = Fraction(10, 4) * 64 + 7
    assert counted.model_flops_per_step == whole - merge - 2 * 6000
    lora = flops.Passes(lora=flops.Lora(4))
    counted = flops.count(read(), lengths, flops.How(passes=lora))
    adapters = 3 * 2 * 64 * 2 * 4 * (8 + 16)
    weights = 64 * 512
    assert counted.model_flops_per_step == whole - merge - 2 * 6000 - weights + adapters


def test_a_recipe_names_its_own_lengths_and_streams() -> None:
    model = read()
    assert (model.usual, model.streams, model.counted) == (
        {"tokens": 64, "images": 1},
        ("tokens", "images"),
        ("tokens",),
    )
    with pytest.raises(ConfigError, match="the length of stream 'images' is missing"):
        flops.count(model, flops.fixed(1, tokens=64))
    with pytest.raises(ConfigError, match="has no stream 'audio'; known: tokens, images"):
        flops.count(model, flops.fixed(1, tokens=64, images=1, audio=5))


@pytest.mark.parametrize("convention", ["palm", "megatron", "verl", "kempner"])
def test_a_named_convention_is_not_defined_for_a_recipe(convention: str) -> None:
    with pytest.raises(ConfigError, match=r"not defined for .*; defined for it: model"):
        flops.count(read(), flops.fixed(1, tokens=64, images=1), flops.How(convention))


def test_a_recipe_that_is_not_exact_warns() -> None:
    model = read(fit={**FIT, "recipe_flops": 1010}, fixed={"frames": 8}, notes=["a branch"])
    assert model.notes == (
        "the recipe is not exact: +1.000% of what was executed at tokens=48",
        "the recipe holds for frames=8 alone",
        "a branch",
    )


def test_a_recipe_is_written_as_it_was_read(tmp_path: Path) -> None:
    recipe = recipes.read(RECIPE)
    recipe.save(tmp_path / "own.json")
    assert recipes.read(json.loads((tmp_path / "own.json").read_text())) == recipe
    assert recipes.read(recipe.report()["recipe"]) == recipe


def test_a_recipe_is_read_and_counted_without_torch_in_under_a_millisecond() -> None:
    """The best of many: the machine may be busy."""
    program = (
        "import sys; from ofu_exporter.flops import recipes; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    recipe, lengths, best = recipes.read(RECIPE), flops.fixed(1, tokens=64, images=1), math.inf
    for _ in range(50):
        began = time.perf_counter()
        assert flops.count(recipe.model(), lengths).model_flops_per_step > 0
        best = min(best, time.perf_counter() - began)
    assert best < 1e-3


def changed(path: str, value: Any) -> dict[str, Any]:
    """The recipe with one field replaced."""
    whole = copy.deepcopy(RECIPE)
    inner: Any = whole
    *names, last = path.split(".")
    for name in names:
        inner = inner[int(name) if name.isdigit() else name]
    inner[last] = value
    return whole


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("recipe_version", 2, "recipe_version: '2' cannot be read here; this version reads 1"),
        ("recipe_version", True, "recipe_version: 'True' cannot be read here"),
        ("recipe_version", 1.0, "recipe_version: '1.0' cannot be read here"),
        ("recipe_version", "9" * 10_000, "recipe_version: '9999"),
        ("terms", [], "terms: "),
        ("terms", RECIPE["terms"] * 200, "terms: "),
        ("terms.0.forward", {"tokens": math.nan}, "terms.0.forward.tokens"),
        ("terms.0.forward", {"tokens": math.inf}, "terms.0.forward.tokens"),
        ("terms.0.forward", {"tokens": 1e308}, "terms.0.forward.tokens"),
        ("terms.0.forward", {"tokens": 10**31}, "terms.0.forward.tokens"),
        ("terms.0.forward", {"tokens": True}, "terms.0.forward.tokens"),
        ("terms.0.forward", {"tokens": "1/0"}, "terms.0.forward.tokens"),
        ("terms.0.forward", {"tokens": "1e9/2"}, "terms.0.forward.tokens"),
        ("terms.0.forward", {"tokens**9": 1}, "terms.0.forward"),
        ("terms.0.forward", {"a*b*c": 1}, "terms.0.forward"),
        ("terms.0.forward", {"audio": 1}, "stream audio is not in lengths"),
        ("terms.0.forward", {f"x{'a' * n}": 1 for n in range(20)}, "terms.0.forward"),
        ("terms.1.forward", {"tokens": 1.5}, "terms.1.forward.tokens: is neither a whole number"),
        ("terms.1.forward", {"tokens": -1}, "term layers.q_proj: its FLOPs are below 0"),
        ("terms.1.forward", {"tokens": -2, "1": 100}, "term layers.q_proj: its FLOPs are below 0"),
        ("terms.0.gradients", ["-1/2", 1], "a gradient costs less than nothing"),
        ("terms.0.gradients", [10**9, 1], "a gradient costs more than"),
        ("terms.0.tower", "tail", "tower tail is not in towers"),
        ("terms.0.name", "\u202e", "terms.0.name"),
        ("terms.0.part", "soul", "terms.0.part"),
        ("terms.0.surprise", 1, "terms.0.surprise"),
        ("terms.1.matrix", {"inputs": 0, "outputs": 1, "stored": 1}, "terms.1.matrix.inputs"),
        ("terms.2.window", 0, "terms.2.window"),
        ("terms.2.chunk", 0, "terms.2.chunk"),
        ("lengths", {"tokens": 10**12}, "lengths.tokens"),
        ("lengths", {"../../etc": 1}, "lengths"),
        ("layers", 10**9, "layers"),
        ("towers", [], "towers"),
        ("notes", ["x" * 10_000], "notes.0"),
        ("fit", None, "fit: "),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence_that_names_it(
    path: str, value: Any, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        flops.read(changed(path, value))
    assert text in str(caught.value)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_a_coefficient_may_be_below_zero_where_its_module_is_not() -> None:
    """A convolution without padding: L - 3 outputs. Where it has none, the recipe says nothing."""
    terms = [{"name": "conv", "part": "convolution", "forward": {"tokens": 10, "1": -30}}]
    model = read(terms=terms, towers=["model"])
    assert flops.count(model, flops.fixed(1, tokens=8, images=0)).model_flops_per_step == 150
    with pytest.raises(ConfigError, match="lengths: conv has FLOPs below 0 at these lengths"):
        flops.count(model, flops.fixed(1, tokens=2, images=0))


def test_fractions_that_take_seconds_to_sum_are_refused_before_they_are_summed() -> None:
    """Denominators near 10^12 without a common factor; a fit has some hundred of 10^9 at most."""
    streams = {f"s{chr(97 + n)}": 8 for n in range(8)}
    denominators = iter(range(10**12 - 1, 0, -2))
    terms = [
        {"name": "x", "part": "mlp"}
        | {"forward": {name: f"1/{next(denominators)}" for name in streams}}
        for _ in range(recipes.MOST_IN_ALL // len(streams))
    ]
    with pytest.raises(ConfigError, match="the common denominator of the fractions is too long"):
        read(lengths=streams, towers=["model"], terms=terms)
    fit = [{**term, "forward": {"sa": f"1/{10**9 - n}"}} for n, term in enumerate(terms[:100])]
    assert read(lengths=streams, towers=["model"], terms=fit).terms


def test_a_recipe_has_so_many_factors_in_all() -> None:
    """Each is a product in every count; a term without any is counted as one."""
    one = {"name": "x", "part": "mlp", "forward": {"tokens": 1, "1": 1}}
    most = [one] * (recipes.MOST_IN_ALL // 2 - 1) + [{"name": "y", "part": "mlp"}] * 2
    with pytest.raises(ConfigError, match="1001 factors in all, more than 1000"):
        read(terms=[*most, {"name": "z", "part": "mlp"}], towers=["model"])
    read(terms=most, towers=["model"])


@pytest.mark.parametrize(
    ("name", "empty"), [("t5-3b", {"source": 0, "target": 100}), ("flux.1-dev", {"latent": 0})]
)
def test_a_sample_without_its_first_stream_is_refused(name: str, empty: dict[str, int]) -> None:
    model = flops.read_file(Path(name))
    lengths = flops.fixed(1, **{**model.usual, **empty})
    with pytest.raises(ConfigError, match=f"lengths: {next(iter(empty))} must be at least 1"):
        flops.count(model, lengths)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["tokens", "1", "tokens*tokens", "1/3", "-9/7", "core", "vision"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
PATHS = st.sampled_from(
    [
        *RECIPE,
        *(f"terms.{n}.{name}" for n in range(5) for name in recipes.RecipeTerm.model_fields),
        *("terms.0.forward.tokens", "terms.2.forward.tokens*tokens", "fit.executed_flops"),
    ]
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(PATHS, VALUES, st.integers(0, 1 << 31))
def test_any_recipe_is_counted_or_refused(path: str, value: Any, tokens: int) -> None:
    """Nothing else is raised, and no number comes out that is not above 0 and finite."""
    try:
        model = flops.read(changed(path, value))
        count = flops.count(model, flops.fixed(1, **{**model.usual, "tokens": tokens}))
    except ConfigError as error:
        refusal = str(error)
    else:
        refusal = ""
        assert math.isfinite(float(count.model_flops_per_step))
    assert len(refusal) < 1000


def test_a_full_disk_leaves_the_earlier_recipe_as_it_was(tmp_path: Path) -> None:
    """RLIMIT_FSIZE makes the kernel refuse the write, as a full disk does."""
    path = tmp_path / "own.json"
    path.write_text("the earlier one")
    program = (
        "import resource, sys; from ofu_exporter.flops.config_file import read_configuration;"
        "from ofu_exporter.flops import recipes; from pathlib import Path;"
        "recipe = recipes.read(read_configuration(Path('gemma-3-4b')));"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); recipe.save(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=False
    )
    assert "File too large" in done.stderr
    assert path.read_text() == "the earlier one"
    assert [*tmp_path.iterdir()] == [path]


def test_a_recipe_goes_into_a_pipe_and_does_not_take_its_place(tmp_path: Path) -> None:
    recipe, pipe = recipes.read(RECIPE), tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        received = pool.submit(pipe.read_text)
        recipe.save(pipe)
        assert received.result(timeout=300) == recipe.text()
    assert pipe.is_fifo()
