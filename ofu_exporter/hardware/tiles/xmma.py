"""Reads names of XMMA's kernels, such as
`sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cgasize2x1x1_warpgroupsize1x1x1_execute_...`.

The three words after `gemm` are the types of A and B, of product and sum, and of C. Only some names have `cgasize`,
the cluster; before Hopper there are no clusters.
"""

from __future__ import annotations

import re

from ofu_exporter.hardware.tiles import NO_CLUSTER, SPLIT, UNCONFIRMED, Kernel, number, side

EXAMPLE = (
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32_stage4_warpsize2x2x1_tensor16x8x16"
)

_NAME = re.compile(
    r"\b(?P<arch>sm\d{2,3})_xmma_gemm_[a-z0-9]+_(?P<product>bf16|f16|tf32|e4m3|e5m2|i8|s8|f64)[a-z0-9]+_"
    rf"[a-z0-9]+_[nt]{{2}}_[nt]_tilesize{side('m')}x{side('n')}x{side('k')}(?!\d)"
    r"(?:_cgasize(?P<cluster_m>\d{1,3})x(?P<cluster_n>\d{1,3})x\d+)?(?:_stage(?P<stages>\d{1,3}))?"
)
_PRODUCTS = {
    "bf16": "bf16",
    "f16": "fp16",
    "tf32": "tf32",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "i8": "int8",
    "s8": "int8",
    "f64": "fp64",
}
FIRST_WITH_CLUSTERS = 90


def parse(name: str) -> Kernel | None:
    """The kernel of an XMMA name; None for others, and for FP32 products, which no tensor pipe runs."""
    match = _NAME.search(name)
    if match is None:
        return None
    cluster_m, cluster_n = number(match["cluster_m"]), number(match["cluster_n"])
    cluster = (cluster_m, cluster_n) if cluster_m and cluster_n else None
    if int(match["arch"].removeprefix("sm")) < FIRST_WITH_CLUSTERS:
        cluster = (1, 1)
    return Kernel(
        family="xmma",
        architecture=match["arch"],
        precision=_PRODUCTS[match["product"]],
        tile=(int(match["m"]), int(match["n"]), int(match["k"])),
        stages=number(match["stages"]),
        cluster=cluster,
        unknown=(SPLIT, UNCONFIRMED) if cluster else (NO_CLUSTER, SPLIT, UNCONFIRMED),
    )
