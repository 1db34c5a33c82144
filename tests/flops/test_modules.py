"""Module formulas against a plain loop over every product, and against the numbers of DeepSpeed's profiler."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import modules


def positions(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Places where the whole kernel fits, tried one after the other."""
    reach = dilation * (kernel - 1)
    return len(range(-padding, size + padding - reach, stride))


@given(
    st.integers(1, 40), st.integers(1, 5), st.integers(1, 4), st.integers(0, 4), st.integers(1, 3)
)
def test_output_size_counts_the_places_where_a_kernel_fits(
    size: int, kernel: int, stride: int, padding: int, dilation: int
) -> None:
    expected = positions(size, kernel, stride, padding, dilation)
    if expected <= 0:
        with pytest.raises(ConfigError, match="reaches beyond the padded input"):
            modules.output_size([size], kernel, stride, padding, dilation)
    else:
        assert modules.output_size([size], kernel, stride, padding, dilation) == (expected,)


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 3))
def test_same_is_as_large_as_its_input_under_even_kernels_too(
    size: int, kernel: int, dilation: int
) -> None:
    assert modules.output_size([size, size], kernel, 1, "same", dilation) == (size, size)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_a_convolution_is_its_products(
    dims: int, groups: int, kernel: int, stride: int, transposed: bool
) -> None:
    inputs, outputs, size = 2 * groups, 3 * groups, 6
    term = modules.convolution(
        inputs, outputs, kernel, [size] * dims, stride=stride, groups=groups, transposed=transposed
    )
    weights = outputs * (inputs // groups) * kernel**dims
    places = size if transposed else positions(size, kernel, stride, 0, 1)
    assert term.flops == 2 * weights * places**dims
    assert term.parameters == weights + outputs


def test_valid_is_no_padding() -> None:
    assert modules.output_size([10], 3, padding="valid") == (8,)


@pytest.mark.parametrize(("kind", "gates"), [("rnn", 1), ("gru", 3), ("lstm", 4)])
@given(st.integers(1, 3), st.booleans(), st.integers(1, 9))
def test_a_recurrent_net_is_its_matrices(
    kind: str, gates: int, layers: int, bidirectional: bool, steps: int
) -> None:
    directions, inputs, hidden = 1 + bidirectional, 5, 7
    weights = sum(
        directions * gates * hidden * ((inputs if layer == 0 else hidden * directions) + hidden)
        for layer in range(layers)
    )
    term = modules.recurrent(
        kind, inputs, hidden, steps, num_layers=layers, bidirectional=bidirectional
    )
    assert term.flops == 2 * weights * steps
    assert term.parameters == weights + layers * directions * 2 * gates * hidden


def test_an_lstm_with_a_projection() -> None:
    term = modules.recurrent("lstm", 5, 8, 1, proj_size=3, bias=False)
    assert term.flops == 2 * (4 * 8 * (5 + 3) + 8 * 3)
    assert term.parameters == 4 * 8 * (5 + 3) + 8 * 3


def test_tables_and_norms_have_parameters_and_no_flops() -> None:
    table, norm = modules.embedding(100, 8), modules.normalisation(8)
    assert (table.flops, table.parameters) == (0, 800)
    assert (norm.flops, norm.parameters) == (0, 16)
    assert (table.name, norm.name) == ("embedding", "norm")


def test_attention_between_queries_and_keys() -> None:
    term = modules.attention(8, 2, queries=3, keys=5)
    assert term.flops == 2 * (2 * 64 * 3 + 2 * 64 * 5 + 2 * 8 * 15)


def test_a_model_of_modules() -> None:
    """A convolution, an LSTM over its 30 columns and a classifier, twice over two samples."""
    listed: list[dict[str, Any]] = [
        {"module": "convolution", "in_channels": 1, "out_channels": 4, "kernel_size": 3}
        | {"input_size": [32, 32]},
        {"module": "recurrent", "kind": "lstm", "input_size": 120, "hidden_size": 16}
        | {"sequence_length": 30},
        {"module": "linear", "in_features": 16, "out_features": 10, "repeat": 2},
    ]
    model = flops.read({"architectures": ["Modules"], "modules": listed})
    counted = flops.count(model, flops.fixed(2), flops.How(passes=flops.Passes(forward_only=True)))
    convolution, lstm, linear = 2 * 36 * 900, 2 * 64 * 136 * 30, 2 * 2 * 160
    assert counted.model_flops_per_step == 2 * (convolution + lstm + linear)
    assert counted.model_flops_per_token == counted.model_flops_per_sequence


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: modules.convolution(3, 4, 3, [8], groups=2),
            "groups: 2 must divide in_channels 3",
        ),
        (lambda: modules.convolution(3, 4, 3, [8] * 4), "input_size: .* has 4 dimensions"),
        (lambda: modules.convolution(0, 4, 3, [8]), "in_channels: 0 is not a whole number"),
        (lambda: modules.convolution(3, 4, [3, 3], [8]), "kernel_size: 2 values for 1 dimensions"),
        (lambda: modules.output_size([8], 3, 2, "same"), "padding: 'same' needs stride 1, not 2"),
        (lambda: modules.output_size([8], 3, 1, "full"), "padding: 'full' is not known"),
        (lambda: modules.recurrent("mgu", 3, 4, 5), "'mgu' is not known; known: gru, lstm, rnn"),
        (lambda: modules.recurrent("gru", 3, 4, 5, proj_size=2), "proj_size: 2 needs an lstm"),
        (lambda: modules.recurrent("lstm", 3, 4, 0), "sequence_length: 0 is not"),
        (lambda: modules.attention(8, 3, 1, 1), "num_heads: 3 must divide embed_dim 8"),
    ],
)
def test_modules_that_cannot_be(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([], "modules is empty"),
        ([3], r"modules\[0\] 3 is not a module; known: attention, convolution"),
        ([{"module": "pool"}], r"modules\[0\] 'pool' is not known"),
        ([{"module": "linear", "in_features": 3}], r"modules\[0\] linear\(\) missing"),
        ([{"module": "linear", "in": 3}], r"modules\[0\] in is not known; known: in_features"),
        (
            [{"module": "linear", "in_features": 3, "out_features": 3, "repeat": 0}],
            r"modules\[0\] repeat: 0 is not",
        ),
    ],
)
def test_lists_of_modules_that_cannot_be(listed: list[object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        flops.read({"architectures": ["Modules"], "modules": listed})


def test_adapters_beside_linear_modules() -> None:
    """Frozen weights cost 4 per multiply-add and position, an adapter's 6; each position goes through both."""
    sides = {"in_features": 300, "out_features": 200, "bias": False}
    of = {"architectures": ["Modules"], "modules": [{"module": "linear", "positions": 7, **sides}]}
    passes = flops.Passes(lora=flops.Lora(8, ("linear",)))
    counted = flops.count(flops.read(of), flops.fixed(3), flops.How(passes=passes))
    adapter = 8 * (300 + 200)
    assert counted.model_flops_per_step == 3 * 7 * (4 * 300 * 200 + 6 * adapter)


def test_adapters_beside_a_module_without_sides_are_refused() -> None:
    of = {
        "architectures": ["Modules"],
        "modules": [
            {"module": "attention", "embed_dim": 64, "num_heads": 4, "queries": 9, "keys": 9}
        ],
    }
    passes = flops.Passes(lora=flops.Lora(8, ("attention",)))
    with pytest.raises(ConfigError, match="attention has no sides of its own to adapt"):
        flops.count(flops.read(of), flops.fixed(1), flops.How(passes=passes))


def test_a_module_that_occurs_often_has_adapters_as_often() -> None:
    once = {"module": "linear", "in_features": 300, "out_features": 200, "bias": False}
    lora = flops.How(passes=flops.Passes(lora=flops.Lora(8, ("linear",))))
    repeated, listed = (
        flops.count(
            flops.read({"architectures": ["Modules"], "modules": modules}), flops.fixed(2), lora
        )
        for modules in ([{**once, "repeat": 5}], [once] * 5)
    )
    adapter = 8 * (300 + 200)
    assert repeated.model_flops_per_step == 2 * 5 * (4 * 300 * 200 + 6 * adapter)
    assert repeated.model_flops_per_step == listed.model_flops_per_step
    assert repeated.parameters == listed.parameters
    assert repeated.parameters.total == 5 * 300 * 200, "adapters are not the model's"
