"""Says what the products cost that torch's own counter leaves out or counts wrong, and which it does not know."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ofu_exporter.flops.fields import listed

aten = torch.ops.aten
WORDS = listed(
    """
    addbmm addmv addr attention bilinear bmm cdist conv convolution dot einsum fft ger gru linalg lstm matmul mm mv
    rnn tensordot vdot
    """
)
"""Words in the names of operators that multiply: one that torch's counter doesn't know is reported."""


def _vector_flops(place: int, *shapes: Sequence[int], out_shape: Any = None) -> int:
    """FLOPs of a matrix or vector, which stands at a place, by a vector: each of its elements is used once."""
    return 2 * prod(shapes[place])


def _grouped_flops(
    one: Sequence[int], other: Sequence[int], *rest: Any, out_shape: Any = None, **named: Any
) -> int:
    """FLOPs of grouped products: every row meets one group's matrix, or the rows of each group are summed over."""
    return 2 * prod(one) * other[-1]


def _convolution_backward_flops(
    gradient: Sequence[int], inputs: Sequence[int], weights: Sequence[int], *rest: Any, **named: Any
) -> int:
    """FLOPs of the gradients of a convolution, each as many as forward.

    Every position of the output (transposed: of the input) meets every weight once, so a gradient costs 2 * samples *
    positions * weights. torch's own formula multiplies the weights' gradient by the number of groups.
    """
    transposed, wanted = rest[4], rest[7]
    over = inputs if transposed else gradient
    each = 2 * over[0] * prod(over[2:]) * prod(weights)
    return each * (bool(wanted[0]) + bool(wanted[1]))


FORMULAS = {
    aten.mv: partial(_vector_flops, 0),
    aten.dot: partial(_vector_flops, 0),
    aten.addmv: partial(_vector_flops, 1),
    aten._grouped_mm: _grouped_flops,
    aten.convolution_backward: _convolution_backward_flops,
}
"""What operators cost that torch's counter leaves out or counts wrong."""


class Uncounted(TorchDispatchMode):
    """Watches for operators that multiply and that the counter does not know."""

    def __init__(self, counted: Any) -> None:
        super().__init__()
        self.counted, self.names = counted, set[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._overloadpacket not in self.counted and _multiplies(func):
            self.names.add(str(func._overloadpacket))
        return func(*args, **(kwargs or {}))


def _multiplies(func: Any) -> bool:
    """Whether an operator may be a product: by its name, or because only its library knows."""
    library, _, name = str(func._overloadpacket).partition(".")
    if library not in {"aten", "prims", "prim", "profiler", "inductor"}:
        return True
    words = {*name.split("_")}
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(
        func.name(), "CompositeImplicitAutograd"
    )
    return not composite and bool(WORDS & words) and "norm" not in words
