"""What tiles add to a job: sums of FLOPs, never means of ratios, and what is left out is said."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import effective_peak
from ofu_exporter.hardware import tiles
from ofu_exporter.hardware.tiles import Gemm
from ofu_exporter.traces import kernel_names
from ofu_exporter.traces.formats import NO_SHAPE, KernelLaunches, Profile
from ofu_exporter.traces.gemm_csv import GemmRow
from ofu_exporter.traces.tile_overhead import NO_GRAMMAR, OTHER, Overhead, overhead
from tests.traces.formats.tracing import FLASH, FP8, NVJET, XMMA

FITTING, ODD = Gemm(2048, 2048, 1024), Gemm(2176, 3000, 4096)


def found(*launches: KernelLaunches, shapes: tuple[GemmRow, ...] = ()) -> Overhead:
    return overhead([Profile("made", launches, 0.5)], shapes)


def test_flops_are_summed_by_family_and_precision() -> None:
    seen = found(
        KernelLaunches(NVJET, 3, 0.3, ODD),
        KernelLaunches(NVJET, 2, 0.1, FITTING),
        KernelLaunches(FP8, 1, 0.05, FITTING),
        KernelLaunches(XMMA, 1, 0.05, ODD),
    )
    rows = {(row.family, row.precision): row for row in seen.rows}
    assert rows.keys() == {("nvjet", "bf16"), ("nvjet", "fp8"), ("xmma", "tf32")}
    bf16 = rows["nvjet", "bf16"]
    assert (bf16.launches, bf16.bound) == (5, "exact")
    assert bf16.theoretical_flops == 3 * ODD.theoretical_flops + 2 * FITTING.theoretical_flops
    assert bf16.executed_flops == 3 * 2 * 2304 * 3072 * 4096 + 2 * FITTING.theoretical_flops
    assert seen.theoretical_flops == sum(row.theoretical_flops or 0 for row in seen.rows)
    assert seen.overhead_ratio == pytest.approx(
        seen.executed_flops / seen.theoretical_flops - 1, rel=1e-12
    )
    assert (seen.attributed_share, seen.other_seconds) == (1.0, 0.5)
    assert (rows["xmma", "tf32"].bound, seen.bound) == ("lower", "lower")


def test_one_lower_bound_makes_the_sum_one() -> None:
    assert found(KernelLaunches(NVJET, 1, 1.0, ODD)).bound == "exact"
    assert (
        found(KernelLaunches(NVJET, 1, 1.0, ODD), KernelLaunches(XMMA, 1, 1.0, ODD)).bound
        == "lower"
    )


def test_a_small_product_counts_as_little_as_it_computes() -> None:
    tiny = Gemm(1, 1, 64)
    seen = found(KernelLaunches(NVJET, 1, 1.0, FITTING), KernelLaunches(NVJET, 1, 1.0, tiny))
    wasted = kernel_names.parse(NVJET).executed_flops(tiny) - tiny.theoretical_flops
    useful = FITTING.theoretical_flops + tiny.theoretical_flops
    assert seen.overhead_ratio == pytest.approx(wasted / useful, rel=1e-12)
    assert wasted > 1000 * tiny.theoretical_flops
    assert wasted < 0.01 * useful


def test_what_has_no_grammar_or_no_shape_is_left_out_and_said() -> None:
    seen = found(
        KernelLaunches(NVJET, 1, 0.6, FITTING),
        KernelLaunches(FLASH, 1, 0.3, FITTING),
        KernelLaunches(NVJET, 2, 0.1, why=NO_SHAPE),
    )
    assert [(each.kernel, each.why) for each in seen.unattributed] == [
        (FLASH, NO_GRAMMAR),
        (NVJET, NO_SHAPE),
    ]
    assert seen.attributed_share == pytest.approx(0.6)
    assert seen.overhead_ratio == 0


def test_nothing_known_is_no_overhead_not_one_of_zero() -> None:
    seen = found(KernelLaunches(NVJET, 2, 0.1, why=NO_SHAPE))
    assert (seen.overhead_ratio, seen.precision_shares) == (None, {})
    assert seen.attributed_share == 0.0
    assert found().attributed_share is None


def test_the_share_is_of_launches_where_no_times_are_known() -> None:
    seen = found(KernelLaunches(NVJET, 3, 0.0, FITTING), KernelLaunches(FLASH, 1, 0.0))
    assert seen.attributed_share == 0.75


def test_counted_flops_are_taken_as_they_are() -> None:
    seen = found(
        KernelLaunches(XMMA, 2, 0.1, why=NO_SHAPE, counted_flops={"tf32": 300}),
        KernelLaunches("my_kernel", 1, 0.1, why=NO_SHAPE, counted_flops={"fp8": 100}),
    )
    assert [(row.family, row.precision) for row in seen.rows] == [("xmma", "tf32"), (OTHER, "fp8")]
    assert seen.precision_shares == {"tf32": 0.75, "fp8": 0.25}
    assert (seen.overhead_ratio, seen.attributed_share) == (None, 0.0)


def test_counted_flops_with_shapes_are_an_exact_overhead() -> None:
    flops = 2 * FITTING.theoretical_flops
    seen = found(
        KernelLaunches(XMMA, 2, 0.1, why=NO_SHAPE, counted_flops={"tf32": flops + flops // 50}),
        shapes=(GemmRow(FITTING, XMMA),),
    )
    assert seen.overhead_ratio == pytest.approx(0.02)
    assert seen.bound == "exact"


def test_shapes_stand_in_where_a_profile_has_none() -> None:
    without = KernelLaunches(NVJET, 3, 0.3, why=NO_SHAPE)
    one = found(without, shapes=(GemmRow(ODD, NVJET),))
    assert one.theoretical_flops == 3 * ODD.theoretical_flops
    each = found(without, shapes=(GemmRow(ODD, NVJET, 2), GemmRow(FITTING, NVJET)))
    assert each.theoretical_flops == 2 * ODD.theoretical_flops + FITTING.theoretical_flops


@pytest.mark.parametrize(
    ("shapes", "error"),
    [
        ((GemmRow(ODD, NVJET, 2),), "2 launches of 'nvjet.*', but 3 are in the profile"),
        ((GemmRow(ODD, NVJET), GemmRow(ODD, NVJET)), "2 launches of"),
        ((GemmRow(ODD, "nvjet"),), "no kernel 'nvjet' ran on a tensor pipe"),
        ((GemmRow(ODD),), "no kernel '' ran on a tensor pipe"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: tuple[GemmRow, ...], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        found(KernelLaunches(NVJET, 3, 0.3, why=NO_SHAPE), shapes=shapes)


def test_profiles_of_many_ranks_add_up() -> None:
    one = Profile("made", (KernelLaunches(NVJET, 1, 0.5, ODD),), 0.25, frozenset({"A"}))
    two = overhead([one, one])
    assert (two.theoretical_flops, two.other_seconds) == (2 * ODD.theoretical_flops, 0.5)
    assert two.gpus == {"A"}


SIDES = st.integers(1, 5000)
PRODUCTS = st.lists(
    st.tuples(
        st.sampled_from([NVJET, FP8, XMMA]), st.builds(Gemm, SIDES, SIDES, SIDES), st.integers(1, 9)
    ),
    min_size=1,
    max_size=8,
)


@given(PRODUCTS, st.floats(0.01, 1.0))
def test_with_the_effective_peak_of_these_shares_an_adjusted_ofu_is_an_mfu(
    products: list[tuple[str, Gemm, int]], busy: float
) -> None:
    """The identity behind eq. 8 and 12: tensor time at peak, over all time, without what tiles add."""
    peaks = {"bf16": 989e12, "fp8": 1979e12, "tf32": 494e12}
    seen = found(*(KernelLaunches(name, number, 0.1, gemm) for name, gemm, number in products))
    at_peak = math.fsum(row.executed_flops / peaks[row.precision] for row in seen.rows)
    seconds = at_peak / busy
    ofu = at_peak / seconds
    mfu = seen.theoretical_flops / (seconds * effective_peak(seen.precision_shares, peaks))
    assert seen.overhead_ratio is not None
    assert tiles.adjusted_utilization(ofu, seen.overhead_ratio) == pytest.approx(mfu)
