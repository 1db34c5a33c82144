"""Pairs of a query and a key, as terms count them."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter import flops
from ofu_exporter.flops.lengths import pairs
from ofu_exporter.flops.terms import Extent, Per
from tests.flops.counting import samples
from tests.flops.test_lengths import CAUSAL, LENGTHS, SQUARE


@given(LENGTHS)
def test_moments_say_the_same_as_the_lengths(lengths: list[int]) -> None:
    number = len(lengths)
    mean = Fraction(sum(lengths), number)
    square = Fraction(sum(length * length for length in lengths), number)
    known = flops.from_moments(number, mean, square)
    for extent in (Extent(), Extent(Per.SEQUENCE), SQUARE, CAUSAL):
        assert known.of(extent) == flops.packed(lengths).of(extent)


@given(st.integers(1, 300), st.integers(1, 60), st.booleans())
def test_chunks_count_the_pairs_in_them(length: int, chunk: int, causal: bool) -> None:
    chunks = [min(chunk, length - start) for start in range(0, length, chunk)]
    found = flops.packed([length]).of(Extent(Per.PAIR, causal=causal, chunk=chunk))
    assert found == sum(Fraction(pairs(each, causal)) for each in chunks)


def test_two_streams_meet_only_in_their_own_sample() -> None:
    step = samples([{"latent": 3, "prompt": 5}, {"latent": 7, "prompt": 2}])
    assert step.of(Extent(Per.JOINT, "latent", "prompt")) == 8**2 + 9**2
    assert step.of(Extent(Per.CROSS, "latent", "prompt")) == 15 + 14
    assert step.sequences("latent") == 2
