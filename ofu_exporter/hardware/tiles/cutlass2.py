"""Reads names of CUTLASS 2: `cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8`; no clusters."""

from __future__ import annotations

import re

from ofu_exporter.hardware.tiles import SPLIT, UNCONFIRMED, Kernel, side, wider

EXAMPLE = "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8"

_NAME = re.compile(
    r"\bcutlass_(?P<arch>\d+)_(?:wmma_)?tensorop_(?:[a-z0-9]+_)?"
    r"(?P<sum>[shdi])(?P<instruction>\d{3,6})(?P<math>[a-z0-9]*?)gemm_(?P<types>(?:[a-z][a-z0-9]*_)*)"
    rf"{side('m')}x{side('n')}_{side('k')}x(?P<stages>\d{{1,3}})_[nt]{{2}}"
)

_OPERANDS = {
    "bf16": "bf16",
    "f16": "fp16",
    "tf32": "tf32",
    "s8": "int8",
    "u8": "int8",
    "s4": "int4",
    "u4": "int4",
    "e4m3": "fp8",
    "e5m2": "fp8",
}
_BY_SUM = {"d": "fp64", "s": "tf32", "h": "fp16"}
"""Precision by the type of the sum, if no operand is named: FP64, FP32 on a tensor pipe, FP16."""


def parse(name: str) -> Kernel | None:
    """The kernel of a CUTLASS 2 name; None for others, also for SIMT and 2:4 sparse kernels."""
    match = _NAME.search(name)
    if match is None:
        return None
    words = (match["math"], *match["types"].split("_"))
    named = wider(_OPERANDS[word] for word in words if word in _OPERANDS)
    return Kernel(
        family="cutlass2",
        architecture=f"sm{match['arch']}",
        precision=named or _BY_SUM.get(match["sum"]),
        tile=(int(match["m"]), int(match["n"]), int(match["k"])),
        stages=int(match["stages"]),
        cluster=(1, 1),
        unknown=(SPLIT, UNCONFIRMED),
    )
