"""Shapes of any size against the formulas written out: 6 P T + 6 q Q, in the field's own symbols."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter import flops
from tests.flops.counting import config

SIZE = st.integers(1, 64)
LENGTHS = st.lists(st.integers(1, 500), min_size=1, max_size=8)


@st.composite
def decoders(draw: st.DrawFn) -> dict[str, Any]:
    """The configuration of a small Llama."""
    groups = draw(st.integers(1, 4))
    return config(
        "llama-3-8b",
        hidden_size=draw(SIZE),
        head_dim=draw(SIZE),
        num_key_value_heads=groups,
        num_attention_heads=groups * draw(st.integers(1, 4)),
        intermediate_size=draw(SIZE),
        num_hidden_layers=draw(st.integers(1, 5)),
        vocab_size=draw(SIZE),
        attention_bias=draw(st.booleans()),
        tie_word_embeddings=draw(st.booleans()),
    )


def products(values: dict[str, Any]) -> int:
    """P: weights that a token is multiplied with, the head in, the embedding out."""
    hidden, head = values["hidden_size"], values["head_dim"]
    query, key = values["num_attention_heads"] * head, values["num_key_value_heads"] * head
    layer = hidden * (query + 2 * key) + query * hidden + 3 * hidden * values["intermediate_size"]
    return int(values["num_hidden_layers"] * layer + hidden * values["vocab_size"])


@given(decoders(), LENGTHS)
def test_dense_decoders(values: dict[str, Any], lengths: list[int]) -> None:
    model, step = flops.read(values), flops.packed(lengths)
    query = values["num_attention_heads"] * values["head_dim"]
    tokens, squares = sum(lengths), sum(length * length for length in lengths)
    cores = 6 * values["num_hidden_layers"] * query * squares
    linear = 6 * products(values) * tokens
    assert flops.count(model, step).model_flops_per_step == linear + cores
    assert flops.count(model, step, flops.How("megatron")).model_flops_per_step == linear + cores
    full = flops.How(counting=flops.Counting(causal=False))
    assert flops.count(model, step, full).model_flops_per_step == linear + 2 * cores
    kempner = flops.count(model, step, flops.How("kempner")).model_flops_per_step
    at_hidden = 12 * values["num_hidden_layers"] * values["hidden_size"] * squares
    assert kempner == linear + at_hidden


@given(decoders(), st.integers(2, 8), st.integers(1, 64))
def test_experts(values: dict[str, Any], experts: int, width: int) -> None:
    """k c h m and a router h E for what a token goes through; E c h m for what is stored."""
    hidden, layers, used = values["hidden_size"], values["num_hidden_layers"], experts // 2
    sparse = {**values, "architectures": ["MixtralForCausalLM"], "intermediate_size": width}
    sparse |= {"num_local_experts": experts, "num_experts_per_tok": used}
    sparse.pop("pretraining_tp")
    dense = {**values, "intermediate_size": width}
    one, other = (
        flops.count(flops.read(each), flops.fixed(1, tokens=8)) for each in (sparse, dense)
    )
    block = 3 * hidden * width
    more = layers * ((used - 1) * block + hidden * experts)
    assert one.model_flops_per_token - other.model_flops_per_token == 6 * more
    stored = one.parameters.total - other.parameters.total
    assert stored == layers * ((experts - 1) * block + hidden * experts)
    assert one.parameters.total - one.parameters.active == layers * (experts - used) * block


@given(decoders(), LENGTHS, st.integers(1, 500))
def test_windows_take_away_pairs_and_nothing_else(
    values: dict[str, Any], lengths: list[int], window: int
) -> None:
    step = flops.packed(lengths)
    windowed = {**values, "architectures": ["MistralForCausalLM"], "sliding_window": window}
    full, less = (flops.count(flops.read(each), step) for each in (values, windowed))
    for line, other in zip(full.lines, less.lines, strict=True):
        if line.term.part is flops.Part.CORE:
            assert other.forward <= line.forward
            assert (other.forward == line.forward) or window < max(lengths)
        else:
            assert other == line
