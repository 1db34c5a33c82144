"""Attention ran as products and a softmax, each of which writes its matrix to memory."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import SOFTMAX, Kind
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.host import Scope
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 23, 0.03
REMEDY = (
    "Use torch.nn.functional.scaled_dot_product_attention, or "
    'attn_implementation="flash_attention_2" or "sdpa".'
)
_OPERATORS = ("aten::bmm", "aten::baddbmm")
_SOFTMAX = ("aten::_softmax", "aten::_softmax_backward_data", "aten::_safe_softmax", "")
"""Not its logarithm, which is a loss; "" where no operator was recorded."""


def is_of_attention(cell: TimeCell) -> bool:
    softmax = cell.family == SOFTMAX and cell.operator in _SOFTMAX
    return softmax or cell.operator in _OPERATORS or bool(cell.scope & Scope.ATTENTION)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.kind < Kind.COMMUNICATION and is_of_attention(cell))


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    softmaxes = [each for each in claimed if each.cell.family == SOFTMAX]
    products = [each for each in claimed if each.cell.operator in _OPERATORS]
    if not softmaxes or not products:
        return ""
    return (
        f"{a_step(launches(softmaxes), facts)} launches of {named(softmaxes)} beside "
        f"{a_step(launches(products), facts)} products of {named(products, 'operator')}"
    )
