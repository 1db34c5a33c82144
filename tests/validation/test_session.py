"""A session: stops in time, says what it leaves out, and tells a tiling from a profile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError, GpuError
from ofu_exporter.hardware.profiles import Launches, Profile
from ofu_exporter.validation.session import runnable, tiling
from ofu_exporter.values.reading import Reading
from ofu_exporter.values.reasons import Reason
from tests.hardware.profiles.tracing import FLASH, NVJET, XMMA
from tests.validation.simulation import bench, product

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
    return Profile("kineto", tuple(Launches(each, 1, 1e-3, gemm) for each in kernels), 0.0)


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
