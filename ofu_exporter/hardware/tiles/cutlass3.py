"""Reads names of CUTLASS 3: `cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_ttt_align8`.

After the types of A, B, the sum, C and D come the tile, the cluster (absent, or 0, where it is chosen at the launch)
and the stages (0: as many as fit). A block-scaled operand has the type of its scale before its own: `ue4m3xe2m1`.
"""

from __future__ import annotations

import re

from ofu_exporter.hardware.tiles import NO_CLUSTER, SPLIT, UNCONFIRMED, Kernel, number, side, wider

EXAMPLE = "cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_ttt_align8"

_NAME = re.compile(
    r"\bcutlass3x_(?P<arch>sm\d+)a?_(?:bs)?tensorop_(?P<operation>[a-z0-9_]*?)gemm_"
    rf"(?P<types>(?:[a-z][a-z0-9]*_)+){side('m')}x{side('n')}x{side('k')}_"
    r"(?:(?P<cluster_m>\d{1,3})x(?P<cluster_n>\d{1,3})x\d+_)?(?P<stages>\d{1,3})_[nt]{3}"
)
_EMULATED = re.compile(r"(?P<products>[1-9]\d?)xbf16$")

_OPERANDS = {
    "f64": "fp64",
    "f32": "tf32",  # on a tensor pipe
    "tf32": "tf32",
    "bf16": "bf16",
    "f16": "fp16",
    "s8": "int8",
    "u8": "int8",
    "f8": "fp8",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "e3m2": "fp6",
    "e2m3": "fp6",
    "e2m1": "fp4",
    "f4": "fp4",
}


def parse(name: str) -> Kernel | None:
    """The kernel of a CUTLASS 3 name; None for others, also for SIMT and 2:4 sparse kernels."""
    match = _NAME.search(name)
    if match is None:
        return None
    emulated = _EMULATED.search(match["operation"])
    cluster_m, cluster_n = number(match["cluster_m"]), number(match["cluster_n"])
    cluster = (cluster_m, cluster_n) if cluster_m and cluster_n else None
    return Kernel(
        family="cutlass3",
        architecture=match["arch"],
        precision="bf16" if emulated else _precision(match["types"]),
        tile=(int(match["m"]), int(match["n"]), int(match["k"])),
        stages=number(match["stages"]),
        cluster=cluster,
        unknown=(SPLIT, UNCONFIRMED) if cluster else (NO_CLUSTER, SPLIT, UNCONFIRMED),
        products=int(emulated["products"]) if emulated else 1,
    )


def _precision(types: str) -> str | None:
    """Precision of the first two operands, each without its scale."""
    operands = types.removeprefix("block_scaled_").split("_")[:2]
    return wider(_OPERANDS.get(operand.rpartition("x")[2]) for operand in operands)
