"""Reads what the name of a kernel says of its tiles, by the grammar of each library that puts them there.

To add a grammar, add an entry to `GRAMMARS`: a kernel name that it reads, and a function from a name to the kernel, or
None where the name is another family's, is 2:4 sparse or runs on no tensor pipe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware.tiles import Kernel

UNCONFIRMED = "no counted FLOPs confirm that kernels of this family run no more than their tiles"
SPLIT = "the name does not say into how many parts K is split, each of which is rounded up"
NO_CLUSTER = "the name does not carry the cluster"
NO_TILE_K = "the name does not carry the tile along K"

WIDEST_FIRST = ("fp64", "tf32", "bf16", "fp16", "int8", "fp8", "fp6", "fp4", "int4")
"""Operands of two precisions are multiplied in the wider one."""
_TYPES = {
    **{"f64": "fp64", "tf32": "tf32", "bf16": "bf16", "f16": "fp16"},
    **{"i8": "int8", "s8": "int8", "u8": "int8", "s4": "int4", "u4": "int4"},
    **{"f8": "fp8", "e4m3": "fp8", "e5m2": "fp8", "e3m2": "fp6", "e2m3": "fp6"},
    **{"e2m1": "fp4", "f4": "fp4"},
}
"""Precision by the words that names have for a type."""


def _side(name: str) -> str:
    """The pattern of a side of a tile or a cluster: no kernel has a side of 0, or a huge one."""
    return rf"(?P<{name}>[1-9]\d{{0,4}})"


_TILE = f"{_side('m')}x{_side('n')}"
_CLUSTER = r"(?P<cluster_m>\d{1,3})x(?P<cluster_n>\d{1,3})x\d+"
_STAGES = r"(?P<stages>\d{1,3})"


def _kernel(
    family: str,
    fields: Mapping[str, str | None],
    architecture: str | None,
    precision: str | None,
    has_clusters: bool = True,
    unknown: tuple[str, ...] = (SPLIT, UNCONFIRMED),
) -> Kernel:
    """The kernel of the fields of a name. A cluster or stages of 0, or none, are chosen at the launch."""
    m, n, tile_k, stages = (int(fields[name] or 0) for name in ("m", "n", "k", "stages"))
    cluster_m, cluster_n = (int(fields.get(f"cluster_{side}") or 0) for side in "mn")
    cluster = (cluster_m, cluster_n) if has_clusters else (1, 1)
    unknown = unknown if all(cluster) else (NO_CLUSTER, *unknown)
    return Kernel(
        family=family,
        architecture=architecture,
        precision=precision,
        tile=(m, n, tile_k or None),
        stages=stages or None,
        cluster=cluster if all(cluster) else None,
        unknown=unknown if tile_k else (NO_TILE_K, *unknown),
    )


def _wider(precisions: Iterable[str | None]) -> str | None:
    """The widest of some precisions; None where one of them is not known."""
    names = set(precisions)
    return None if None in names else next((each for each in WIDEST_FIRST if each in names), None)


_CUBLAS = re.compile(
    r"(?:\b|_)(?P<chip>volta|turing|ampere)_(?:[a-z0-9]+_)?(?P<sum>[shdi])(?P<instruction>\d{3,6})gemm_"
    rf"(?P<types>(?:[a-z][a-z0-9]*_)*){_TILE}(?:_[a-z0-9_]*?stages_{_side('k')}x{_STAGES})?"
    r"[a-z0-9_]*?_[nt]{2}(?:_v\d+)?\b"
)
_CUBLAS_TYPES = ("bf16", "fp16", "tf32", "int8")
_CHIPS = {"volta": "sm70", "turing": "sm75", "ampere": "sm80"}


def _cublas(name: str) -> Kernel | None:
    """cuBLAS' older kernels, made for one chip; not `ampere_sgemm_...`, which uses no tensor pipe.

    If no operand is named, FP32 sums mean TF32 operands on Ampere and FP16 on older chips.
    """
    match = _CUBLAS.search(name)
    if match is None:
        return None
    chip, total = match["chip"], match["sum"]
    by_sum = {"i": "int8", "d": "fp64", "s": "tf32" if chip == "ampere" else "fp16", "h": "fp16"}
    named = next((word for word in match["types"].split("_") if word in _CUBLAS_TYPES), None)
    return _kernel(
        "cublas", match.groupdict(), _CHIPS[chip], named or by_sum[total], has_clusters=False
    )


_CUTLASS_2 = re.compile(
    r"\bcutlass_(?P<arch>\d+)_(?:wmma_)?tensorop_(?:[a-z0-9]+_)?"
    r"(?P<sum>[shdi])(?P<instruction>\d{3,6})(?P<math>[a-z0-9]*?)gemm_(?P<types>(?:[a-z][a-z0-9]*_)*)"
    rf"{_TILE}_{_side('k')}x{_STAGES}_[nt]{{2}}"
)
_BY_SUM = {"d": "fp64", "s": "tf32", "h": "fp16"}
"""Precision by the type of the sum, if no operand is named: FP64, FP32 on a tensor pipe, FP16."""


def _cutlass2(name: str) -> Kernel | None:
    """CUTLASS 2; not its SIMT and 2:4 sparse kernels."""
    match = _CUTLASS_2.search(name)
    if match is None:
        return None
    words = (match["math"], *match["types"].split("_"))
    precision = _wider(_TYPES[word] for word in words if word in _TYPES)
    precision = precision or _BY_SUM.get(match["sum"])
    return _kernel(
        "cutlass2", match.groupdict(), f"sm{match['arch']}", precision, has_clusters=False
    )


_CUTLASS_3 = re.compile(
    r"\bcutlass3x_(?P<arch>sm\d+)a?_(?:bs)?tensorop_(?P<operation>[a-z0-9_]*?)gemm_"
    rf"(?P<types>(?:[a-z][a-z0-9]*_)+){_TILE}x{_side('k')}_(?:{_CLUSTER}_)?{_STAGES}_[nt]{{3}}"
)
_EMULATED = re.compile(r"(?P<products>[1-9]\d?)xbf16$")
_TYPES_3 = {**_TYPES, "f32": "tf32"}  # on a tensor pipe


def _cutlass3(name: str) -> Kernel | None:
    """CUTLASS 3; not its SIMT and 2:4 sparse kernels.

    After the types of A, B, the sum, C and D come the tile, the cluster and the stages. A block-scaled operand has the
    type of its scale before its own: `ue4m3xe2m1`.
    """
    match = _CUTLASS_3.search(name)
    if match is None:
        return None
    if emulated := _EMULATED.search(match["operation"]):
        kernel = _kernel("cutlass3", match.groupdict(), match["arch"], "bf16")
        return replace(kernel, products=int(emulated["products"]))
    operands = match["types"].removeprefix("block_scaled_").split("_")[:2]
    precision = _wider(_TYPES_3.get(operand.rpartition("x")[2]) for operand in operands)
    return _kernel("cutlass3", match.groupdict(), match["arch"], precision)


_NVJET = r"\bnvjet_(?:(?P<arch>sm\d+)_)?(?P<types>[a-z]{5}|[a-z]{3})_"
_NVJET_CLUSTERED = re.compile(
    _NVJET + rf"{_TILE}_{_side('k')}x{_STAGES}_{_side('cluster_m')}x{_side('cluster_n')}"
    r"(?P<rest>(?:_\w*)?)\b"
)
_NVJET_ALONE = re.compile(
    _NVJET + rf"mma_{_TILE}x{_side('k')}_{_STAGES}_w?\d+x\d+x\d+(?P<rest>(?:_\w*)?)\b"
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


def _nvjet(name: str) -> Kernel | None:
    """nvJet, cuBLAS' kernels for Hopper and newer; not its 2:4 sparse ones, whose cycles count twice.

    The fields are precisions (of A and B, of the sum, of C and D; or of each of the five), tile m and n, tile along K
    and stages, cluster, and what follows. On sm_120 there are no clusters, and the name carries the warp's tile.
    """
    match = _NVJET_CLUSTERED.search(name) or _NVJET_ALONE.search(name)
    if match is None or "sp" in match["rest"].split("_"):
        return None
    fields, types = match.groupdict(), match["types"]
    return _kernel(
        family="nvjet",
        fields=fields,
        architecture=match["arch"],
        precision=_wider(map(_LETTERS.get, types[:2] if len(types) == 5 else types[:1])),
        has_clusters="cluster_m" in fields,
        unknown=(SPLIT,) if "splitK" in match["rest"] else (),
    )


_XMMA = re.compile(
    r"\b(?P<arch>sm\d{2,3})_xmma_gemm_[a-z0-9]+_(?P<product>bf16|f16|tf32|e4m3|e5m2|i8|s8|f64)[a-z0-9]+_"
    rf"[a-z0-9]+_[nt]{{2}}_[nt]_tilesize{_TILE}x{_side('k')}(?!\d)"
    rf"(?:_cgasize{_CLUSTER})?(?:_stage{_STAGES})?"
)
_FIRST_WITH_CLUSTERS = 90


def _xmma(name: str) -> Kernel | None:
    """XMMA; not its FP32 products, which no tensor pipe runs.

    The three words after `gemm` are the types of A and B, of product and sum, and of C. Only some names have `cgasize`,
    the cluster; before Hopper there are no clusters.
    """
    match = _XMMA.search(name)
    if match is None:
        return None
    has_clusters = int(match["arch"].removeprefix("sm")) >= _FIRST_WITH_CLUSTERS
    return _kernel("xmma", match.groupdict(), match["arch"], _TYPES[match["product"]], has_clusters)


class Grammar(NamedTuple):
    example: str
    read: Callable[[str], Kernel | None]


GRAMMARS: Mapping[str, Grammar] = {
    "cublas": Grammar("ampere_s16816gemm_bf16_128x128_ldg8_stages_32x5_tn", _cublas),
    "cutlass2": Grammar(
        "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8", _cutlass2
    ),
    "cutlass3": Grammar(
        "cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_ttt_align8",
        _cutlass3,
    ),
    "nvjet": Grammar("nvjet_sm90_hsh_256x160_64x4_2x1", _nvjet),
    "xmma": Grammar(
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32_stage4_warpsize2x2x1_tensor16x8x16",
        _xmma,
    ),
}
"""By the name of the family."""


@lru_cache(1 << 10)
def find(name: str) -> Kernel | None:
    """The kernel that a name describes, or None where no family knows the name."""
    kernels = (grammar.read(name) for grammar in GRAMMARS.values())
    return next((kernel for kernel in kernels if kernel), None)


def parse(name: str) -> Kernel:
    """The kernel that a name describes. Raises ConfigError, which lists the grammars."""
    if kernel := find(name):
        return kernel
    families = ", ".join(f"{family} ({grammar.example})" for family, grammar in GRAMMARS.items())
    raise ConfigError(
        f"kernel {name!r} fits no known grammar, is 2:4 sparse or runs on no tensor pipe; known: {families}"
    )
