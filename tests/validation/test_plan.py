"""The products that are run: drawn as the paper draws them, the same for the same seed, in turns."""

from __future__ import annotations

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.validation import plan
from ofu_exporter.validation.plan import FULL, PRECISIONS, QUICK


def test_aligned_products_are_multiples_of_16() -> None:
    products = plan.products(FULL, PRECISIONS, seed=1)
    aligned = [each for each in products if each.kind == "aligned"]
    assert len(aligned) == FULL.aligned * len(PRECISIONS)
    assert not any(side % 16 for each in aligned for side in (each.m, each.n, each.k))


def test_unaligned_products_are_not_but_what_a_library_takes() -> None:
    products = plan.products(FULL, PRECISIONS, seed=1)
    unaligned = [each for each in products if each.kind == "unaligned"]
    assert {each.precision for each in unaligned} == {"bf16", "fp16", "tf32", "fp64", "int8"}
    for each in unaligned:
        assert all(side % 16 for side in (each.m, each.n, each.k))
        if each.precision == "int8":
            assert not any(side % 8 for side in (each.m, each.n, each.k))


def test_squares_are_multiples_of_128() -> None:
    for size in (QUICK, FULL):
        assert not any(side % 128 for side in size.squares)


def test_quick_takes_less_than_ten_minutes_whatever_runs() -> None:
    products = plan.products(QUICK, PRECISIONS, seed=1)
    seconds = sum(each.seconds for each in products)
    assert QUICK.deadline is not None
    assert seconds < QUICK.deadline < 600
    of_three = plan.products(QUICK, ("bf16", "fp8", "tf32"), seed=1)
    assert len(of_three) >= 50


def test_the_same_seed_gives_the_same_products_and_another_gives_others() -> None:
    first, again, other = (plan.products(QUICK, PRECISIONS, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_what_one_precision_runs_does_not_depend_on_the_others() -> None:
    alone = plan.products(QUICK, ("fp8",), seed=1)[1:]
    beside = [each for each in plan.products(QUICK, PRECISIONS, seed=1) if each.precision == "fp8"]
    assert list(alone) == beside


def test_precisions_take_turns() -> None:
    first = plan.products(QUICK, ("bf16", "fp8", "tf32"), seed=1)[1:7]
    assert [each.precision for each in first] == ["bf16", "fp8", "tf32"] * 2


def test_clocks_are_measured_with_noise_and_with_zeros() -> None:
    products = plan.clock_products(("bf16", "fp64"), 5.0)
    assert {(each.precision, each.zeros) for each in products} == {
        ("bf16", False),
        ("bf16", True),
        ("fp64", False),
        ("fp64", True),
    }


def test_a_precision_that_nobody_knows_is_named() -> None:
    with pytest.raises(ConfigError, match="'bf17' is not known; known: bf16, fp8"):
        plan.products(QUICK, ("bf17",), seed=1)
