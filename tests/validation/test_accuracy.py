"""Table II, the curves and the bounds, from results that are known."""

from __future__ import annotations

import pytest

from ofu_exporter.validation import Kind, Product, Tiling, accuracy
from ofu_exporter.validation.accuracy import AccuracyRow, ErrorBounds
from ofu_exporter.validation.results import Result
from ofu_exporter.values.reported import Bound
from tests.helpers.every import every


def made(
    mfu: float | None,
    ofu: float,
    overhead: float | None = None,
    bound: Bound = "exact",
    precision: str = "bf16",
    kind: Kind = "aligned",
    side: int = 4096,
    peak: float = 1e15,
) -> Result:
    product = Product(kind, precision, side, side, side, 3.0)
    achieved = (mfu or 0.5) * peak
    tiling = Tiling(overhead, bound, 1.0, ())
    return Result(product, 2.0, achieved, 0.7e9, ofu, 0.001, mfu, tiling)


def only(results: list[Result], bounds: ErrorBounds | None = None) -> AccuracyRow:
    (row,) = accuracy.rows(results, bounds or ErrorBounds())
    return row


def test_errors_are_those_of_the_paper() -> None:
    row = only([made(0.50, 0.51), made(0.50, 0.53), made(0.50, 0.49), made(0.50, 0.56)])
    assert row.raw.products == 4
    assert row.raw.mean_absolute == pytest.approx((1 + 3 + 1 + 6) / 4)
    assert row.raw.mean == pytest.approx((1 + 3 - 1 + 6) / 4)
    assert (row.raw.within_2, row.raw.within_5) == (0.5, 0.75)
    assert (row.exact, row.lower) == (None, None)


def test_what_is_known_of_tiles_and_what_is_a_bound_are_two_estimators() -> None:
    row = only([made(0.5, 0.55, 0.1), made(0.5, 0.55, 0.05, "lower"), made(0.5, 0.6)])
    assert row.raw.products == 3
    assert row.exact is not None
    assert (row.exact.products, row.exact.within_2) == (1, 1.0)
    assert row.exact.mean_absolute == pytest.approx(0.0, abs=1e-9)
    assert row.lower is not None
    assert row.lower.products == 1
    assert row.lower.mean == pytest.approx(100 * (0.55 / 1.05 - 0.5))


@every(
    [
        ([made(0.5, 0.519, 0.03)], "inside"),
        ([made(0.5, 0.521, 0.042)], "outside"),
        ([made(0.5, 0.515, 0.0)], "outside"),
        ([made(0.5, 0.515, 0.0, "lower")], "inside"),
        ([made(0.5, 0.9, 0.5, kind="unaligned")], "not_judged"),
        ([made(None, 0.5)], "not_judged"),
        ([], "not_judged"),
        ([made(0.5, 0.51), made(0.5, 0.6, precision="fp8")], "outside"),
    ]
)
def test_a_card_is_judged_by_aligned_products_and_exact_tiles(
    results: list[Result], wanted: str
) -> None:
    assert accuracy.verdict(accuracy.rows(results, ErrorBounds())) == wanted


def test_bounds_can_be_others() -> None:
    assert only([made(0.5, 0.53)], ErrorBounds(raw=4.0)).raw_verdict == "inside"
    assert only([made(0.5, 0.53)], ErrorBounds(raw=2.9)).raw_verdict == "outside"


def test_the_curve_has_both_overheads_by_size() -> None:
    points = accuracy.curve(
        [
            made(0.5, 0.55, 0.09, kind="square", side=2048),
            made(0.4, 0.5, 0.2, kind="square", side=1024),
            made(0.4, 0.5),
        ]
    )
    assert [round(point.side) for point in points] == [1024, 2048]
    assert [point.tile_overhead for point in points] == [0.2, 0.09]
    assert [point.counted_overhead for point in points] == pytest.approx([0.25, 0.1])


def test_speed_ups_are_of_equal_squares() -> None:
    """A peak twice as high, at 0.6 of it instead of 0.5."""
    squares = [
        made(0.5, 0.5, precision="tf32", kind="square", peak=5e14),
        made(0.6, 0.66, precision="bf16", kind="square", peak=1e15),
        made(0.6, 0.66, precision="bf16", kind="square", side=999),
    ]
    (found,) = accuracy.speed_ups(squares)
    assert (found.precision, found.base, found.side) == ("bf16", "tf32", 4096)
    assert found.achieved == pytest.approx(2.4)
    assert found.by_ofu == pytest.approx(2.64)
    assert found.of_peaks == pytest.approx(2.0)


def test_without_a_base_there_are_no_speed_ups() -> None:
    assert accuracy.speed_ups([made(0.5, 0.5, precision="fp8", kind="square")]) == ()
