"""The simulated card: what a validation finds on it is what was put in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.validation import session
from ofu_exporter.validation.results import Result, result
from ofu_exporter.validation.session import QUICK
from tests.validation.simulation import bench, product

PRECISIONS = ("bf16", "fp8", "tf32", "fp16", "int8", "fp64")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    made = bench(tmp_path_factory.mktemp("simulated"))
    products = session.products(QUICK, PRECISIONS, seed=1)[1:]
    found = [result(trial, made.rating) for trial in made.trials(products)]
    assert None not in found
    return [each for each in found if each is not None]


def test_there_are_as_many_products_as_the_issue_asks_for(results: list[Result]) -> None:
    assert len(results) >= 60


def test_adjusted_for_tiles_ofu_is_the_mfu(results: list[Result]) -> None:
    for each in results:
        if each.is_exact:
            assert each.adjusted == pytest.approx(each.mfu, abs=0.004)


def test_without_it_ofu_is_above_by_what_tiles_add(results: list[Result]) -> None:
    for each in results:
        assert each.counted_overhead is not None
        assert each.counted_overhead > -0.01
        if each.is_exact:
            assert each.counted_overhead == pytest.approx(each.tiling.overhead_ratio, abs=0.01)


def test_names_that_tell_too_little_give_a_bound(results: list[Result]) -> None:
    tf32 = [each for each in results if each.product.precision == "tf32"]
    assert tf32
    for each in tf32:
        assert not each.is_exact
        assert each.adjusted is not None
        assert each.mfu is not None
        assert each.adjusted > each.mfu - 0.004


def test_its_error_is_the_standard_error_that_is_told(results: list[Result]) -> None:
    """Of 60 and more, at most a few are further off than 3 standard errors."""
    pairs = [(each.adjusted, each.mfu, each.stderr) for each in results if each.is_exact]
    far = [
        (adjusted, mfu)
        for adjusted, mfu, stderr in pairs
        if adjusted and mfu and stderr and abs(adjusted - mfu) > 3 * stderr
    ]
    assert len(far) < len(pairs) / 20


def test_cycle_counters_leave_no_noise(tmp_path: Path) -> None:
    made = bench(tmp_path, cycles=True)
    (trial,) = made.trials([product(seconds=20.0)])
    found = result(trial, made.rating)
    assert found is not None
    assert found.adjusted == pytest.approx(found.mfu, abs=0.0005)


def test_each_precision_is_seen_on_its_own_pipe(tmp_path: Path) -> None:
    made = bench(tmp_path)
    for precision, pipe in {"bf16": "hmma", "int8": "imma", "fp64": "dfma"}.items():
        (trial,) = made.trials([product(precision)])
        busy = {name for name, ratio in trial.readings[-2].pipes.items() if ratio}
        assert busy == {pipe}
