"""Reads names of nvJet, cuBLAS' kernels for Hopper and newer: `nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT`.

The fields are precisions (of A and B, of the sum, of C and D; or of each of the five), tile m and n, tile along K
and stages, cluster, and what follows. On sm_120 there are no clusters, and the name carries the warp's tile.
"""

from __future__ import annotations

import re

from ofu_exporter.hardware.tiles import SPLIT, Kernel, side, wider

EXAMPLE = "nvjet_sm90_hsh_256x160_64x4_2x1"

_HEAD = r"\bnvjet_(?:(?P<arch>sm\d+)_)?(?P<types>[a-z]{5}|[a-z]{3})_"
_CLUSTERED = re.compile(
    _HEAD + rf"{side('m')}x{side('n')}_{side('k')}x(?P<stages>\d{{1,3}})_"
    rf"{side('cluster_m')}x{side('cluster_n')}(?P<rest>(?:_\w*)?)\b"
)
_ALONE = re.compile(
    _HEAD
    + rf"mma_{side('m')}x{side('n')}x{side('k')}_(?P<stages>\d{{1,3}})_w?\d+x\d+x\d+(?P<rest>(?:_\w*)?)\b"
)

_LETTERS = {
    "d": "fp64",
    "s": "tf32",  # FP32 that is multiplied by a tensor pipe is rounded to TF32
    "f": "tf32",
    "t": "bf16",
    "h": "fp16",
    "q": "fp8",
    "r": "fp8",
    "o": "fp4",
    "b": "int8",
}


def parse(name: str) -> Kernel | None:
    """The kernel of an nvJet name; None for others, and for 2:4 sparse ones, whose cycles count twice."""
    match = _CLUSTERED.search(name) or _ALONE.search(name)
    if match is None or "sp" in match["rest"].split("_"):
        return None
    fields = match.groupdict()
    types = fields["types"]
    operands = types[:2] if len(types) == 5 else types[:1]
    return Kernel(
        family="nvjet",
        architecture=fields["arch"],
        precision=wider(_LETTERS.get(letter) for letter in operands),
        tile=(int(fields["m"]), int(fields["n"]), int(fields["k"])),
        stages=int(fields["stages"]),
        cluster=(int(fields.get("cluster_m") or 1), int(fields.get("cluster_n") or 1)),
        unknown=(SPLIT,) if "splitK" in match["rest"] else (),
    )
