"""Says of the name of what ran on a GPU which of the four kinds of work it is, and which family a user knows it by."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from ofu_exporter.traces.formats import on_tensor_pipe
from ofu_exporter.traces.timeline import MOST_NAMES


class Kind(IntEnum):
    """A kind of work. Where several run at once, the time counts as the first of them."""

    TENSOR = 0
    OTHER = 1
    COMMUNICATION = 2
    COPY = 3


COPY_NAME = re.compile(r"Mem(?:cpy|set)")
COMMUNICATION_NAME = re.compile(
    r"^(?:void )?(?:nccl|rccl|mscclpp?|nvshmem|deep_?ep)|nccl\w*kernel", re.IGNORECASE
)
"""A kernel that is a collective by name; streams do not tell it."""
ALL_TO_ALL = "all-to-all"
SEND_RECEIVE = "send and receive"
ATTENTION, CONVOLUTION, FP32, PRODUCT = "attention", "convolution", "FP32 product", "product"
ELEMENTWISE, SOFTMAX, NORMALISATION, OPTIMIZER = (
    "element-wise",
    "softmax",
    "normalisation",
    "optimizer",
)
LAYOUT, OTHER = "layout copy", "other"

_FAMILIES = {
    FP32: r"simt|(?<![a-z0-9])[sdc]gemm_|sgemm|scudnn|[dw]grad\w*_engine<float|f32f32_f32f32_f32|gemv",
    LAYOUT: r"n[cd]?hwto|nhwcton|to_?nhwc|transpose|permute(?!\w*emb|_\d+D)|im2col|col2im",
    OPTIMIZER: r"multi_tensor_apply|fused_?adam|fusedoptimizer|adam\w*functor|\blamb",
    SOFTMAX: r"softmax",
    NORMALISATION: r"norm|\bbn_|welford|groupnorm|gammabeta",
    "embedding": r"embedding|permute_pooled|jagged|fbgemm_gpu|bounds_check_indices",
    "pooling": r"pool",
    "reduction": r"reduce|cub::.*(?:scan|sum)|argmax",
    "sort and index": r"sort|index|gather|scatter|topk|catarray|nonzero|unique|cub::",
    ELEMENTWISE: r"elementwise|triton_poi|pointwise|dropout|activation|gelu|silu|relu|foreach|fillfunctor|copy_kernel",
}
_PATTERNS = {family: re.compile(pattern, re.IGNORECASE) for family, pattern in _FAMILIES.items()}
_ATTENTION = re.compile(r"flash|fmha|sdpa|attention|attn|\bmha", re.IGNORECASE)
_CONVOLUTION = re.compile(r"fprop|dgrad|wgrad|conv|implicit_gemm", re.IGNORECASE)
_COLLECTIVES = {
    "all-reduce": r"all_?reduce",
    "reduce-scatter": r"reduce_?scatter",
    "all-gather": r"all_?gather",
    ALL_TO_ALL: r"all_?to_?all|deep_?ep",
    SEND_RECEIVE: r"send|recv",
    "broadcast": r"broadcast",
}
_COLLECTIVE_PATTERNS = {
    family: re.compile(pattern, re.IGNORECASE) for family, pattern in _COLLECTIVES.items()
}
_ARCHITECTURE = re.compile(
    r"(?:sm_?|cutlass(?:3x_sm|_))(?P<number>[5-9]\d|1[0-2]\d)|(?P<chip>volta|turing|ampere|hopper)",
    re.IGNORECASE,
)
_CHIPS = {"volta": 70, "turing": 75, "ampere": 80, "hopper": 90}


@lru_cache(MOST_NAMES)
def kind_of(name: str) -> Kind:
    """The kind of work of a kernel, copy or memset by its name."""
    if COPY_NAME.match(name):
        return Kind.COPY
    if COMMUNICATION_NAME.search(name):
        return Kind.COMMUNICATION
    return Kind.TENSOR if on_tensor_pipe(name) else Kind.OTHER


@lru_cache(MOST_NAMES)
def kernel_family(name: str) -> str:
    """The family of a kernel, copy or memset: what its work is for, and of products for which GPU it was made."""
    kind = kind_of(name)
    if kind is Kind.COPY:
        return name.partition(" (")[0] if name.startswith("Memcpy") else "memset"
    if kind is Kind.COMMUNICATION:
        return _first(_COLLECTIVE_PATTERNS, name, "other communication")
    if _ATTENTION.search(name):
        return ATTENTION
    if kind is Kind.TENSOR:
        family, made_for = (
            CONVOLUTION if _CONVOLUTION.search(name) else PRODUCT,
            architecture_of(name),
        )
        return f"{family} sm_{made_for}" if made_for else family
    return _first(_PATTERNS, name, OTHER)


def collective_of(name: str, operator: str) -> str:
    """Which collective a kernel ran: by what launched it, because NCCL runs several in a kernel of one name."""
    return _first(_COLLECTIVE_PATTERNS, operator, "") or kernel_family(name)


def _first(patterns: dict[str, re.Pattern[str]], name: str, default: str) -> str:
    return next((family for family, pattern in patterns.items() if pattern.search(name)), default)


@lru_cache(MOST_NAMES)
def architecture_of(name: str) -> int | None:
    """The compute capability, times ten, that a kernel was made for, where its name says it: 80 for `sm80_xmma_...`."""
    match = _ARCHITECTURE.search(name)
    if match is None:
        return None
    return _CHIPS[match["chip"].lower()] if match["chip"] else int(match["number"])
