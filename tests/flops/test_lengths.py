"""The lengths of a step: both moments matter, and a pair is counted as often as the mask lets it through."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.lengths import pairs
from ofu_exporter.flops.terms import Extent, Per
from tests.flops.counting import config

LENGTHS = st.lists(st.integers(1, 4096), min_size=1, max_size=30)
SQUARE = Extent(Per.PAIR)
CAUSAL = Extent(Per.PAIR, causal=True)


@given(LENGTHS)
def test_the_sums_of_a_packed_step(lengths: list[int]) -> None:
    step = flops.packed(lengths)
    squares = sum(length * length for length in lengths)
    assert step.tokens() == sum(lengths)
    assert step.sequences() == len(lengths)
    assert step.of(SQUARE) == squares
    assert step.of(CAUSAL) == Fraction(squares, 2)


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_causal_window_counts_the_pairs_in_it(length: int, window: int) -> None:
    exact = sum(min(query + 1, window) for query in range(length))
    # Half of the diagonal is the convention's; the triangle of a window has all of it.
    assert abs(Fraction(pairs(length, True, window)) - exact) <= Fraction(max(length, window), 2)
    if 2 * window <= length:
        assert pairs(length, True, window) == exact


@given(st.integers(1, 200), st.integers(0, 200))
def test_a_window_to_both_sides_counts_the_pairs_in_it(length: int, side: int) -> None:
    exact = sum(abs(query - key) <= side for query in range(length) for key in range(length))
    assert pairs(length, False, 2 * side + 1) == exact


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_a_window_never_adds_a_pair_and_a_longer_sequence_never_loses_one(
    length: int, window: int
) -> None:
    assert pairs(length, True, window) <= pairs(length, True)
    longer = Fraction(pairs(length + 1, True, window))
    assert Fraction(pairs(length, True, window)) <= longer
    assert pairs(length, False, 2 * window + 1) <= pairs(length, False)


@given(LENGTHS, LENGTHS)
def test_samples_add_up(one: list[int], other: list[int]) -> None:
    both = flops.packed(one) + flops.packed(other)
    assert both.of(SQUARE) == flops.packed([*one, *other]).of(SQUARE)


def test_of_a_model_that_fixes_no_length_the_moments_stay() -> None:
    known = flops.from_moments(2, 10, 101)
    assert known.with_fixed({}) == known


def test_packing_is_neither_the_longest_nor_one_long_sequence() -> None:
    model = flops.read(config("llama-3-8b"))
    lengths = [8192, 1024, 1024, 1024]
    right = flops.count(model, flops.packed(lengths)).model_flops_per_step
    padded = flops.count(model, flops.fixed(4, tokens=8192)).model_flops_per_step
    as_one = flops.count(model, flops.fixed(1, tokens=sum(lengths))).model_flops_per_step
    assert right < as_one < padded
    mean = flops.count(model, flops.fixed(4, tokens=sum(lengths) // 4)).model_flops_per_step
    assert mean < right, "the mean length loses the variance"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: flops.packed([]), "lengths: at least one sequence is needed"),
        (lambda: flops.packed([4, 0]), "lengths: 0 is not a whole number above 0"),
        (lambda: flops.packed([4, -1]), "lengths: -1 is not a whole number above 0"),
        (lambda: flops.fixed(0, tokens=4), "batch_size: 0 is not a whole number above 0"),
        (lambda: flops.fixed(1, tokens=-4), "lengths: tokens: -4 is not a number of tokens"),
        (lambda: flops.from_moments(2, 10, 99), "mean_square: 99 is below the square of the mean"),
        (lambda: flops.from_moments(2, 0.5, 1), "mean: 0.5 is below 1"),
        (lambda: flops.from_moments(0, 5, 25), "sequences: 0 is not"),
        (
            lambda: flops.from_moments(2, 5, 25) + flops.packed([5]),
            "moments describe one stream only",
        ),
        *(
            (lambda of=of: flops.from_moments(2, 5, 25).of(of), "moments describe one stream only")
            for of in (Extent(stream="image"), Extent(Per.CROSS, other="image"))
        ),
    ],
)
def test_lengths_that_cannot_be(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=message):
        make()
