"""Products of torch in every precision: what is called exists, and computes the product that is asked for.

On a CPU: the calls and their shapes, not what a GPU does with them. FP4 has no product there.
"""

from __future__ import annotations

import pytest

from ofu_exporter.errors import SourceError
from ofu_exporter.validation import Product
from ofu_exporter.validation.cuda import BUILDERS, build
from ofu_exporter.validation.session import PRECISIONS
from ofu_exporter.values.reasons import Reason

torch = pytest.importorskip("torch", reason="torch is not installed")

M, N, K = 64, 32, 128
ON_CPU = [precision for precision in PRECISIONS if precision != "fp4"]


def product(precision: str, zeros: bool = False) -> Product:
    return Product("square", precision, M, N, K, 1.0, zeros)


def test_every_precision_of_a_plan_can_be_built() -> None:
    assert set(BUILDERS) == set(PRECISIONS)


@pytest.mark.parametrize("precision", ON_CPU)
@pytest.mark.parametrize("zeros", [False, True])
def test_a_product_has_its_sides_and_is_zero_where_its_operands_are(
    precision: str, zeros: bool
) -> None:
    out = build(torch, product(precision, zeros), "cpu")()
    assert tuple(out.shape) == (M, N)  # type: ignore[attr-defined]
    assert bool((out == 0).all()) is zeros  # type: ignore[attr-defined]


def test_operands_of_fp4_are_packed_in_twos() -> None:
    """Two elements a byte, one scale for 16: whether a GPU takes them so, only a GPU can say."""
    call = build(torch, product("fp4"), "cpu")
    cells = {
        name: cell.cell_contents
        for name, cell in zip(call.__code__.co_freevars, call.__closure__ or (), strict=True)
    }
    assert tuple(cells["left"].shape) == (M, K // 2)
    assert tuple(cells["right"].shape) == (K // 2, N)
    assert cells["scale_left"].numel() == M * K // 16


def test_without_a_gpu_it_says_so() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    from ofu_exporter.validation.cuda import CudaMachine

    with pytest.raises(SourceError) as raised:
        CudaMachine(0)
    assert raised.value.reason is Reason.NO_GPU
