"""Counts the FLOPs that torch executes in a forward and a backward pass over a module, by operator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.fields import names_in
from ofu_exporter.flops.trace.masks import MaskWatch
from ofu_exporter.flops.trace.recorder import Recorder
from ofu_exporter.flops.trace.shapes_only import SPREAD_EVENLY, ShapesOnly

FORWARD_ALONE = "count with forward only"
WORDS = names_in(
    """
    addbmm addmv addr attention bilinear bmm cdist conv convolution dot einsum fft ger gru linalg lstm matmul mm mv
    rnn tensordot vdot
    """
)
"""Words in the names of operators that multiply: one that torch's counter doesn't know is reported."""


@dataclass(frozen=True)
class Executed:
    """What torch executed: FLOPs by operator, 2 per multiply-add."""

    forward: Mapping[str, int]
    backward: Mapping[str, int]
    parameters: int
    trained: int
    warnings: tuple[str, ...]
    recorder: Recorder = field(compare=False, repr=False)
    """Every product, with its module and weights."""

    @property
    def attends(self) -> bool:
        """Whether products of activations ran in a module that calls itself attention."""
        return any(each.weights is None and each.attends for each in self.recorder.products)

    @property
    def forward_flops(self) -> int:
        return sum(self.forward.values())

    @property
    def flops(self) -> int:
        return self.forward_flops + sum(self.backward.values())


def executed(module: Any, inputs: Any, backward: bool = True) -> Executed:
    """What torch executes of a module on inputs: a tuple of arguments, or named ones.

    The module may be on the meta device (`with torch.device("meta"): ...`), where its size costs no memory and its
    passes cost no time. The backward pass begins at `loss` if the output has one, otherwise at the first output that
    has a gradient. Attention runs every pair of query and key, as kernels without fusion do.

    Raises ConfigError where the output has no gradient or the backward pass fails, and what the module raises.
    """
    args, named = ((), inputs) if isinstance(inputs, Mapping) else (tuple(inputs), {})
    recorder = Recorder(module, dict(module.named_parameters()))
    uncounted, shapes = Uncounted(recorder.flop_registry), ShapesOnly()
    masks = MaskWatch(recorder)
    tensors = [*module.parameters(), *pytree.tree_leaves((args, named))]
    on_meta = any(isinstance(each, torch.Tensor) and each.is_meta for each in tensors)
    gradients = torch.enable_grad() if backward else torch.no_grad()
    without_values = shapes if on_meta else contextlib.nullcontext()
    with sdpa_kernel(SDPBackend.MATH), recorder, uncounted, gradients, without_values, masks:
        output = module(*args, **named)
        forward = recorder.by_operator()
        if backward:
            recorder.is_backward = True
            _backward(output)
        both = recorder.by_operator()
    return Executed(
        dict(forward),
        dict(both - forward),
        parameters=sum(each.numel() for each in module.parameters()),
        trained=sum(each.numel() for each in module.parameters() if each.requires_grad),
        warnings=tuple(_warnings(uncounted, shapes, masks)),
        recorder=recorder,
    )


def _backward(output: Any) -> None:
    loss = getattr(output, "loss", None)
    plain = [*output.values()] if isinstance(output, Mapping) else output
    outputs = [loss] if loss is not None else pytree.tree_leaves(plain)
    tensors = (each for each in outputs if isinstance(each, torch.Tensor))
    start = next((each.sum() for each in tensors if each.requires_grad), None)
    if start is None:
        raise ConfigError(f"executed: no output has a gradient; {FORWARD_ALONE}")
    try:
        start.backward()
    except Exception as error:
        first = str(error).strip().partition("\n")[0][:200]
        raise ConfigError(f"executed: the backward pass fails: {first}; {FORWARD_ALONE}") from error


def _warnings(uncounted: Uncounted, shapes: ShapesOnly, masks: MaskWatch) -> Iterator[str]:
    if uncounted.names:
        names = ", ".join(sorted(uncounted.names))
        yield f"not counted, because torch's counter does not know them: {names}"
    routing = masks.recorder.routing
    yield from sorted(shapes.notes - ({SPREAD_EVENLY} if routing.computes_all else set()))
    yield from sorted(routing.warnings())
    yield from masks.warnings()


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
