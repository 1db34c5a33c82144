"""Builds products in torch, operands and call, in every precision that torch supports.

A product is row-major, C[m, n] = A[m, k] B[k, n]. In the narrow precisions B is given transposed, as cuBLAS needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ofu_exporter.validation import Product

Launch = Callable[[], object]
"""Launches one product."""


def build(torch: Any, product: Product, device: str) -> Launch:
    """Make the operands of a product; returns a function that launches it. Raises torch's own errors if torch has no
    such product."""
    return BUILDERS[product.precision](torch, product, device)


def _plain(type_: str) -> Callable[[Any, Product, str], Launch]:
    """The ordinary product of two matrices of one type; sums are in FP32, those of FP64 in FP64."""

    def build_plain(torch: Any, product: Product, device: str) -> Launch:
        dtype = getattr(torch, type_)
        left = _values(torch, product, (product.m, product.k), device).to(dtype)
        right = _values(torch, product, (product.k, product.n), device).to(dtype)
        out = torch.empty((product.m, product.n), dtype=dtype, device=device)
        return lambda: torch.mm(left, right, out=out)

    return build_plain


def _tf32(torch: Any, product: Product, device: str) -> Launch:
    torch.set_float32_matmul_precision("high")  # FP32 operands are rounded to TF32
    return _plain("float32")(torch, product, device)


def _fp8(torch: Any, product: Product, device: str) -> Launch:
    """FP8 with one scale for each operand. Sums stay in the tensor pipe, as the quoted peak assumes."""
    type_ = torch.float8_e4m3fn
    left = _values(torch, product, (product.m, product.k), device).to(type_)
    right = _values(torch, product, (product.n, product.k), device).to(type_).t()
    scale = torch.ones((), device=device)
    return lambda: torch._scaled_mm(
        left,
        right,
        scale_a=scale,
        scale_b=scale,
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )


def _int8(torch: Any, product: Product, device: str) -> Launch:
    def values(rows: int, columns: int) -> Any:
        if product.zeros:
            return torch.zeros((rows, columns), dtype=torch.int8, device=device)
        return torch.randint(-128, 128, (rows, columns), dtype=torch.int8, device=device)

    left, right = values(product.m, product.k), values(product.n, product.k).t()
    return lambda: torch._int_mm(left, right)


def _fp4(torch: Any, product: Product, device: str) -> Launch:
    """NVFP4: two elements in a byte, and a scale in FP8 for every 16 elements along K."""

    def values(rows: int) -> Any:
        most = 1 if product.zeros else 256
        bytes_ = torch.randint(0, most, (rows, product.k // 2), dtype=torch.uint8, device=device)
        return bytes_.view(torch.float4_e2m1fn_x2)

    def scales(rows: int) -> Any:
        return torch.ones(rows * product.k // 16, device=device).to(torch.float8_e4m3fn)

    left, right = values(product.m), values(product.n).t()
    scale_left, scale_right = scales(product.m), scales(product.n)
    return lambda: torch._scaled_mm(
        left, right, scale_a=scale_left, scale_b=scale_right, out_dtype=torch.bfloat16
    )


def _values(torch: Any, product: Product, sides: tuple[int, int], device: str) -> Any:
    """Normally distributed numbers, like activations and weights, because the power draw depends on the values."""
    make = torch.zeros if product.zeros else torch.randn
    return make(sides, device=device)


BUILDERS: Mapping[str, Callable[[Any, Product, str], Launch]] = {
    "bf16": _plain("bfloat16"),
    "fp16": _plain("float16"),
    "tf32": _tf32,
    "fp64": _plain("float64"),
    "fp8": _fp8,
    "int8": _int8,
    "fp4": _fp4,
}
