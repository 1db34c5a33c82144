"""Reads names of cuBLAS' older kernels, made for one chip: `ampere_s16816gemm_bf16_128x128_ldg8_stages_32x5_tn`."""

from __future__ import annotations

import re

from ofu_exporter.hardware.tiles import NO_TILE_K, SPLIT, UNCONFIRMED, Kernel, number, side

EXAMPLE = "ampere_s16816gemm_bf16_128x128_ldg8_stages_32x5_tn"

_NAME = re.compile(
    r"(?:\b|_)(?P<chip>volta|turing|ampere)_(?:[a-z0-9]+_)?(?P<sum>[shdi])(?P<instruction>\d{3,6})gemm_"
    rf"(?P<types>(?:[a-z][a-z0-9]*_)*){side('m')}x{side('n')}(?:_[a-z0-9_]*?stages_{side('k')}x(?P<stages>\d{{1,3}}))?"
    r"[a-z0-9_]*?_[nt]{2}(?:_v\d+)?\b"
)
_CHIPS = {"volta": "sm70", "turing": "sm75", "ampere": "sm80"}
_OPERANDS = {"bf16": "bf16", "fp16": "fp16", "tf32": "tf32", "int8": "int8"}


def parse(name: str) -> Kernel | None:
    """The kernel of an older cuBLAS name; None for others, also for `ampere_sgemm_...`, which uses no tensor pipe."""
    match = _NAME.search(name)
    if match is None:
        return None
    tile_k = number(match["k"])
    return Kernel(
        family="cublas",
        architecture=_CHIPS[match["chip"]],
        precision=_precision(match["chip"], match["sum"], match["types"].split("_")),
        tile=(int(match["m"]), int(match["n"]), tile_k),
        stages=number(match["stages"]),
        cluster=(1, 1),
        unknown=(SPLIT, UNCONFIRMED) if tile_k else (NO_TILE_K, SPLIT, UNCONFIRMED),
    )


def _precision(chip: str, total: str, words: list[str]) -> str | None:
    """Precision of the operands. If none is named, FP32 sums mean TF32 operands on Ampere and FP16 on older chips."""
    named = next((_OPERANDS[word] for word in words if word in _OPERANDS), None)
    if named or total == "i":
        return named or "int8"
    if total == "d":
        return "fp64"
    return "tf32" if total == "s" and chip == "ampere" else "fp16"
