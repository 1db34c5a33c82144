"""A session: stops in time, says what it leaves out, and tells a tiling from a profile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError, GpuError
from ofu_exporter.traces.formats import KernelLaunches, Profile
from ofu_exporter.validation import session
from ofu_exporter.validation.session import FULL, PRECISIONS, QUICK, runnable, tiling
from ofu_exporter.values.reading import Reading
from ofu_exporter.values.reasons import Reason
from tests.traces.formats.tracing import FLASH, NVJET, XMMA
from tests.validation.simulation import bench, product


def test_aligned_products_are_multiples_of_16() -> None:
    products = session.products(FULL, PRECISIONS, seed=1)
    aligned = [each for each in products if each.kind == "aligned"]
    assert len(aligned) == FULL.aligned * len(PRECISIONS)
    assert not any(side % 16 for each in aligned for side in (each.m, each.n, each.k))


def test_unaligned_products_are_not_but_what_a_library_takes() -> None:
    products = session.products(FULL, PRECISIONS, seed=1)
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
    products = session.products(QUICK, PRECISIONS, seed=1)
    seconds = sum(each.seconds for each in products)
    assert QUICK.deadline is not None
    assert seconds < QUICK.deadline < 600
    of_three = session.products(QUICK, ("bf16", "fp8", "tf32"), seed=1)
    assert len(of_three) >= 50


def test_the_same_seed_gives_the_same_products_and_another_gives_others() -> None:
    first, again, other = (session.products(QUICK, PRECISIONS, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_what_one_precision_runs_does_not_depend_on_the_others() -> None:
    alone = session.products(QUICK, ("fp8",), seed=1)[1:]
    beside = [
        each for each in session.products(QUICK, PRECISIONS, seed=1) if each.precision == "fp8"
    ]
    assert list(alone) == beside


def test_precisions_take_turns() -> None:
    first = session.products(QUICK, ("bf16", "fp8", "tf32"), seed=1)[1:7]
    assert [each.precision for each in first] == ["bf16", "fp8", "tf32"] * 2


def test_clocks_are_measured_with_noise_and_with_zeros() -> None:
    products = session.clock_products(("bf16", "fp64"), 5.0)
    assert {(each.precision, each.zeros) for each in products} == {
        ("bf16", False),
        ("bf16", True),
        ("fp64", False),
        ("fp64", True),
    }


def test_a_precision_that_nobody_knows_is_named() -> None:
    with pytest.raises(ConfigError, match="'bf17' is not known; known: bf16, fp8"):
        session.products(QUICK, ("bf17",), seed=1)


PRODUCTS = [product(m=side, seconds=3.0) for side in (1024, 2048, 3072, 4096)]


def test_no_product_is_begun_that_would_end_too_late(tmp_path: Path) -> None:
    made = bench(tmp_path)
    left = made.session.run(PRODUCTS, 8.0, lambda *_: None)
    assert list(left) == PRODUCTS[2:]
    assert made.session.run(PRODUCTS, 8.0, lambda *_: None) == ()


def test_a_product_that_is_too_long_keeps_no_other_from_being_run(tmp_path: Path) -> None:
    """50 minutes of clock noise come first, and a user may have 40."""
    made = bench(tmp_path)
    long = product(m=512, seconds=60.0)
    left = made.session.run([long, *PRODUCTS], 20.0, lambda *_: None)
    assert list(left) == [long]
    assert [trial.product for trial in made.session.store.trials] == PRODUCTS


def test_every_product_is_told_before_it_is_run(tmp_path: Path) -> None:
    told: list[tuple[int, int, int]] = []
    bench(tmp_path).session.run(
        PRODUCTS, None, lambda number, of, each: told.append((number, of, each.m))
    )
    assert told == [(1, 4, 1024), (2, 4, 2048), (3, 4, 3072), (4, 4, 4096)]


def test_precisions_that_cannot_be_run_are_told_with_the_reason(tmp_path: Path) -> None:
    machine = bench(tmp_path).machine
    found, refused = runnable(machine, ("bf16", "fp4"))
    assert found == ["bf16"]
    assert refused == {"fp4": "not simulated"}
    with pytest.raises(ConfigError, match="no precision can be run here: fp4: not simulated"):
        runnable(machine, ("fp4",))


def profile(*kernels: str) -> Profile:
    gemm = product(m=2176, n=3000).gemm
    return Profile("kineto", tuple(KernelLaunches(each, 1, 1e-3, gemm) for each in kernels), 0.0)


def test_tiles_are_read_from_the_names_of_kernels() -> None:
    seen = tiling(profile(NVJET))
    assert seen.bound == "exact"
    assert seen.overhead_ratio is not None
    assert seen.kernels == (NVJET,)
    assert tiling(profile(XMMA)).bound == "lower"


def test_a_kernel_without_a_grammar_tells_nothing() -> None:
    seen = tiling(profile(FLASH))
    assert (seen.overhead_ratio, seen.attributed_share) == (None, 0.0)


def test_a_gpu_without_a_tensor_counter_ends_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(tmp_path)
    whole = made.session.watch.readings

    def blind(uuid: str, since: float, until: float) -> list[Reading]:
        return [replace(each, tensor_active=None) for each in whole(uuid, since, until)]

    monkeypatch.setattr(made.session.watch, "readings", blind)
    with pytest.raises(GpuError) as raised:
        made.session.run(PRODUCTS, None, lambda *_: None)
    assert raised.value.reason is Reason.NO_TENSOR_COUNTER
    assert made.session.store.trials == []
