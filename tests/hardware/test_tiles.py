"""What a product costs in whole tiles: the paper's two roundings, the worked examples, and a walk over every tile."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware import tiles
from ofu_exporter.hardware.tiles import Gemm, Kernel
from ofu_exporter.traces import kernel_names

SIDE = st.integers(1, 20_000)
GEMMS = st.builds(Gemm, SIDE, SIDE, SIDE, st.integers(1, 8))
KERNELS = st.builds(
    Kernel,
    family=st.just("nvjet"),
    architecture=st.just("sm90"),
    precision=st.just("bf16"),
    tile=st.tuples(st.integers(8, 384), st.integers(8, 384), st.integers(16, 256)),
    cluster=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)


def walked(kernel: Kernel, gemm: Gemm) -> int:
    """The FLOPs of every step of every tile of every cluster that has work, one after another."""
    (tile_m, tile_n, tile_k), (cluster_m, cluster_n) = kernel.tile, kernel.cluster or (1, 1)
    assert tile_k
    flops = 0
    for _ in range(gemm.batch):
        for _ in range(0, gemm.m, tile_m * cluster_m):
            for _ in range(0, gemm.n, tile_n * cluster_n):
                for _ in range(cluster_m * cluster_n):
                    for _ in range(0, gemm.k, tile_k):
                        flops += 2 * tile_m * tile_n * tile_k
    return flops


WORKED = """
nvjet_sm90_hsh_256x160_64x4_2x1 4096 4096 4096 -> 4096 4160 4096 1.562
nvjet_sm90_hsh_256x160_64x4_2x1 8192 8192 8192 -> 8192 8320 8192 1.562
nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT 2176 3000 4096 -> 2304 3072 4096 8.424
nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN 4096 4096 1000 -> 4224 4224 1024 8.9
nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT 4096 11008 4096 -> 4096 11008 4096 0.0
nvjet_sm100_tst_256x128_64x5_2x2_2cta_h_bz_TNT 4352 4224 4096 -> 4608 4352 4096 9.091
nvjet_sm100_tst_64x16_64x16_2x4_2cta_h_bz_splitK_TNT 17 2048 2048 -> 128 2048 2048 652.941
nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT 4096 4096 4096 -> 4096 4096 4096 0.0
nvjet_sm103_oohsh_128x128_256x7_2x2_2cta_v_bz_Avec16UE4M3_Bvec16UE4M3_TNT 2048 7168 2048 -> 2048 7168 2048 0.0
"""
"""A kernel and the sides of a product; the sides that are computed, and how many percent more that is."""


@pytest.mark.parametrize("row", WORKED.strip().splitlines())
def test_worked_examples(row: str) -> None:
    asked, computed = row.split(" -> ")
    name, *sides = asked.split()
    *effective, percent = computed.split()
    cost = tiles.cost(kernel_names.parse(name), [Gemm(*map(int, sides))])
    assert cost.effective == (tuple(map(int, effective)),)
    assert cost.executed_flops == 2 * math.prod(map(int, effective))
    assert cost.overhead_ratio * 100 == pytest.approx(float(percent), abs=1e-3)


@pytest.mark.slow
def test_the_closed_form_is_what_a_walk_over_the_tiles_counts() -> None:
    draw = random.Random(2605)
    for _ in range(10_000):
        kernel = Kernel(
            "nvjet",
            "sm90",
            "bf16",
            (draw.randrange(8, 257, 8), draw.randrange(8, 257, 8), draw.choice((32, 64, 128, 256))),
            cluster=(draw.choice((1, 2, 4)), draw.choice((1, 2, 4))),
        )
        gemm = Gemm(
            draw.randint(1, 700), draw.randint(1, 700), draw.randint(1, 700), draw.randint(1, 3)
        )
        assert kernel.executed_flops(gemm) == walked(kernel, gemm), (kernel, gemm)


@given(KERNELS, GEMMS)
def test_padding_is_less_than_one_cluster_of_tiles(kernel: Kernel, gemm: Gemm) -> None:
    tile_m, tile_n, tile_k = kernel.tile
    cluster_m, cluster_n = kernel.cluster or (1, 1)
    m, n, k = kernel.effective(gemm)
    assert 0 <= m - gemm.m < tile_m * cluster_m
    assert 0 <= n - gemm.n < tile_n * cluster_n
    assert 0 <= k - gemm.k < (tile_k or 1)
    assert tiles.cost(kernel, [gemm]).overhead_ratio >= 0


@given(KERNELS, GEMMS)
def test_what_fits_whole_clusters_has_no_overhead(kernel: Kernel, gemm: Gemm) -> None:
    fitting = Gemm(*kernel.effective(gemm), gemm.batch)
    assert tiles.cost(kernel, [fitting]).overhead_ratio == 0


@given(KERNELS, st.lists(GEMMS, min_size=1, max_size=5))
def test_groups_add_up(kernel: Kernel, gemms: list[Gemm]) -> None:
    whole = tiles.cost(kernel, gemms)
    assert whole.executed_flops == sum(tiles.cost(kernel, [gemm]).executed_flops for gemm in gemms)
    assert len(whole.effective) == len(gemms)


def test_every_product_of_a_batch_is_rounded_up_by_itself() -> None:
    kernel = kernel_names.parse("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT")
    one, many = Gemm(100, 100, 64), Gemm(100, 100, 64, 3)
    assert kernel.executed_flops(many) == 3 * kernel.executed_flops(one)
    assert kernel.executed_flops(many) > kernel.executed_flops(Gemm(300, 100, 64))


def test_an_empty_group_costs_nothing() -> None:
    kernel = kernel_names.parse("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT")
    full = Gemm(128, 256, 64)
    assert tiles.cost(kernel, [full, Gemm(0, 256, 64)]).executed_flops == kernel.executed_flops(
        full
    )
    with pytest.raises(ConfigError, match="has no FLOPs"):
        tiles.cost(kernel, [Gemm(0, 256, 64)])


def test_emulated_products_are_run_several_times() -> None:
    name = "cutlass3x_sm100_tensorop_s256x128x16_9xbf16gemm_f32_f32_f32_f32_f32_256x128x16_0_tnn_align4"
    kernel = kernel_names.parse(name)
    assert (kernel.precision, kernel.products) == ("bf16", 9)
    assert tiles.cost(kernel, [Gemm(256, 128, 64)]).overhead_ratio == 8


def test_what_is_not_in_the_name_is_not_rounded() -> None:
    kernel = kernel_names.parse("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn")
    assert kernel.effective(Gemm(100, 100, 100)) == (128, 128, 100)
    assert kernel.bound == "lower"


@pytest.mark.parametrize("side", [-1, 1.5, True, 10**200])
def test_a_side_is_a_whole_number(side: int) -> None:
    with pytest.raises(ConfigError, match=r"n: .* is not a whole number"):
        Gemm(1, side, 1)


def test_adjusted_ofu() -> None:
    assert tiles.adjusted_utilization(0.51, 0.02) == pytest.approx(0.5)
