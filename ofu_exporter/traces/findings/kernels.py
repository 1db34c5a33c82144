"""Findings in kernels: what ran could have run in less time."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import (
    CONVOLUTION,
    ELEMENTWISE,
    FP32,
    LAYOUT,
    PRODUCT,
    SOFTMAX,
    Kind,
    architecture_of,
)
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, finding, launches, named
from ofu_exporter.traces.host import Idle, Scope
from ofu_exporter.traces.seconds import TimeCell


def _launched(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"{a_step(launches(claimed), facts)} launches of {named(claimed)}"


@finding(
    20,
    0.03,
    "Train in BF16 (torch.autocast), or allow TF32: "
    'torch.set_float32_matmul_precision("high") and torch.backends.cudnn.allow_tf32 = '
    "True; before Ampere use FP16.",
    _launched,
)
def fp32_products(cell: TimeCell, _: TraceFacts) -> float:
    """Products and convolutions ran in FP32, outside the tensor pipes."""
    return cell.family == FP32


_SLOWER = {90: 90, 100: 90, 103: 90, 107: 90, 75: 75, 80: 80}
"""By compute capability: kernels below this one use instructions that run slower there. From Ampere on to 8.9 they are
the same."""


def _launched_on(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    gpu = f"compute capability {(facts.capability or 0) / 10:.1f}"
    return f"{a_step(launches(claimed), facts)} launches on {gpu} of {named(claimed)}"


@finding(
    21,
    0.03,
    "Make sides of matrices multiples of 16 (vocabulary, hidden sizes, batch), and use "
    "a newer cuBLAS and cuDNN: on an H100, kernels for Ampere run at most 0.61 of the "
    "FLOPs a cycle.",
    _launched_on,
)
def older_instructions(cell: TimeCell, facts: TraceFacts) -> float:
    """Products ran in kernels that were made for an older GPU."""
    made_for, least = architecture_of(cell.name), _SLOWER.get(facts.capability or 0)
    is_older = made_for is not None and least is not None and made_for < least
    return cell.kind == Kind.TENSOR and is_older


def _ran_again(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    number = a_step(launches(claimed), facts)
    return f"{number} kernels of the forward pass ran in the backward pass: {named(claimed)}"


@finding(
    22,
    0.03,
    "Recompute fewer layers, or attention alone, as far as memory allows; a larger "
    "share of the memory, FSDP or offloading saves it.",
    _ran_again,
)
def recompute(cell: TimeCell, _: TraceFacts) -> float:
    """Activations were computed a second time in the backward pass."""
    return bool(cell.scope & Scope.RECOMPUTE) and cell.kind in (Kind.TENSOR, Kind.OTHER)


_OPERATORS = ("aten::bmm", "aten::baddbmm")
_SOFTMAX = ("aten::_softmax", "aten::_softmax_backward_data", "aten::_safe_softmax", "")
"""Not its logarithm, which is a loss; "" where no operator was recorded."""


def _beside_products(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    softmaxes = [each for each in claimed if each.cell.family == SOFTMAX]
    products = [each for each in claimed if each.cell.operator in _OPERATORS]
    if not softmaxes or not products:
        return ""
    return (
        f"{a_step(launches(softmaxes), facts)} launches of {named(softmaxes)} beside "
        f"{a_step(launches(products), facts)} products of {named(products, 'operator')}"
    )


@finding(
    23,
    0.03,
    "Use torch.nn.functional.scaled_dot_product_attention, or "
    'attn_implementation="flash_attention_2" or "sdpa".',
    _beside_products,
)
def unfused_attention(cell: TimeCell, _: TraceFacts) -> float:
    """Attention ran as products and a softmax, each of which writes its matrix to memory."""
    softmax = cell.family == SOFTMAX and cell.operator in _SOFTMAX
    is_part = softmax or cell.operator in _OPERATORS or bool(cell.scope & Scope.ATTENTION)
    return cell.kind < Kind.COMMUNICATION and is_part


@finding(
    24,
    0.02,
    "For convolutions use channels_last: model.to(memory_format=torch.channels_last), "
    "and the inputs, too; elsewhere avoid contiguous() after transposing.",
    _launched,
)
def layout_copies(cell: TimeCell, _: TraceFacts) -> float:
    """Tensors were copied to change the order of their dimensions."""
    return cell.kind == Kind.OTHER and (
        cell.family == LAYOUT or cell.operator == "aten::contiguous"
    )


_SINGLE = (ELEMENTWISE, "reduction", Idle.OPERATOR.value, Idle.OTHER_HOST.value)
_LEAST_LAUNCHES = 50
"""In a step. Optimizers that update all tensors at once launch fewer."""


def _of_the_optimizer(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    kernels = [each for each in claimed if each.cell.idle is None]
    if launches(kernels) < _LEAST_LAUNCHES * max(facts.steps, 1):
        return ""
    return (
        f"{a_step(launches(kernels), facts)} kernels within the optimizer's step: {named(kernels)}"
    )


@finding(25, 0.02, "fused=True or foreach=True for optimizers of torch.optim.", _of_the_optimizer)
def optimizer_per_tensor(cell: TimeCell, _: TraceFacts) -> float:
    """The optimizer launched kernels for each tensor, instead of some for all."""
    return bool(cell.scope & Scope.OPTIMIZER) and cell.family in _SINGLE


def _few_blocks(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    number = a_step(launches(claimed), facts)
    return f"{number} launches with fewer blocks than half of the SMs: {named(claimed)}"


@finding(
    26,
    0.03,
    "Larger batches, or several products in one launch: torch.bmm, grouped products, "
    "merged projections.",
    _few_blocks,
)
def small_products(cell: TimeCell, _: TraceFacts) -> float:
    """Products were too small for the GPU: most of its SMs had no block."""
    return cell.is_small and cell.family.startswith((PRODUCT, CONVOLUTION))


def _padded(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"tiles add to the FLOPs of {_launched(claimed, facts)}"


@finding(
    27,
    0.03,
    "Make sides of matrices multiples of 128, or of the tiles that `ofu-exporter tile` shows.",
    _padded,
)
def padding(cell: TimeCell, facts: TraceFacts) -> float:
    """Products computed the rest of their tiles, which is thrown away."""
    return facts.padding.get(cell.name, 0.0) if cell.kind == Kind.TENSOR else 0.0


@finding(
    28,
    0.15,
    "torch.compile, or fused kernels for normalisation, activation, dropout and loss.",
    _launched,
)
def unfused_elementwise(cell: TimeCell, _: TraceFacts) -> float:
    """Element-wise work ran as many kernels, each of which reads and writes its tensors."""
    return cell.family == ELEMENTWISE
