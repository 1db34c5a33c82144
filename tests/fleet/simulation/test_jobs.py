"""A mistake makes of a right MFU what its wrong formula would."""

from __future__ import annotations

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.simulation.jobs import reported_over_right
from ofu_exporter.fleet.simulation.spec import ModelSpec, Reporting

H100 = "NVIDIA H100 80GB HBM3"
LAYERS, HIDDEN, WIDTH, VOCABULARY, TOKENS = 4, 512, 2048, 1000, 1024
DENSE = ModelSpec(
    config={
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": HIDDEN,
        "intermediate_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "vocab_size": VOCABULARY,
        "tie_word_embeddings": False,
    },
    seq_len=TOKENS,
)
WEIGHTS = LAYERS * (4 * HIDDEN**2 + 3 * HIDDEN * WIDTH) + HIDDEN * VOCABULARY


def ratio(**fields: str) -> float:
    return reported_over_right(Reporting(**fields), {"dense": DENSE}, H100)  # type: ignore[arg-type]


def test_without_a_mistake_it_is_1() -> None:
    assert ratio() == 1.0
    assert ratio(model="dense") == 1.0


def test_full_attention_counts_every_pair_where_half_are_computed() -> None:
    pairs = TOKENS * (TOKENS + 1) / 2
    weights = 2 * WEIGHTS * TOKENS
    right = weights + LAYERS * 4 * HIDDEN * pairs
    wrong = weights + LAYERS * 4 * HIDDEN * TOKENS**2
    assert ratio(model="dense", mistake="full_attention_counted") == pytest.approx(
        wrong / right, rel=1e-3
    )


def test_six_per_parameter_leaves_out_the_attention_cores() -> None:
    right = 2 * WEIGHTS * TOKENS + LAYERS * 4 * HIDDEN * TOKENS * (TOKENS + 1) / 2
    expected = 2 * WEIGHTS * TOKENS / right
    assert ratio(model="dense", mistake="attention_omitted") == pytest.approx(expected, rel=1e-3)


def test_the_sparse_peak_halves_an_mfu() -> None:
    assert ratio(mistake="sparse_peak") == pytest.approx(0.5)


def test_a_convention_counts_as_it_counts() -> None:
    cores = LAYERS * 4 * HIDDEN * TOKENS
    wrong = 2 * WEIGHTS * TOKENS + cores * TOKENS
    right = 2 * WEIGHTS * TOKENS + cores * (TOKENS + 1) / 2
    assert ratio(model="dense", convention="kempner") == pytest.approx(wrong / right, rel=1e-3)


def test_what_recomputation_does_is_no_mistake_of_the_report() -> None:
    with pytest.raises(ConfigError, match="no mistake 'activation_recompute'"):
        ratio(mistake="activation_recompute")


def test_an_unknown_convention_is_refused() -> None:
    with pytest.raises(ConfigError, match="no convention 'x'"):
        ratio(model="dense", convention="x")
