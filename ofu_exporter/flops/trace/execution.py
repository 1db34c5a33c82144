"""Counts the FLOPs that torch executes in a forward and a backward pass over a module, by operator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.trace.masks import MaskWatch
from ofu_exporter.flops.trace.products import Uncounted
from ofu_exporter.flops.trace.recorder import Recorder
from ofu_exporter.flops.trace.shapes_only import SPREAD, ShapesOnly

FORWARD_ALONE = "count with forward only"


@dataclass(frozen=True)
class Executed:
    """What torch executed: FLOPs by operator, 2 per multiply-add."""

    forward: Mapping[str, int]
    backward: Mapping[str, int] = field(default_factory=dict)
    parameters: int = 0
    trained: int = 0
    warnings: tuple[str, ...] = ()
    recorder: Recorder | None = field(default=None, compare=False, repr=False)
    """Every product, with its module and weights."""

    @property
    def attends(self) -> bool:
        """Whether products of activations ran in a module that calls itself attention."""
        products = self.recorder.products if self.recorder else ()
        return any(each.weights is None and each.attends for each in products)

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
    start = _start(output)
    try:
        start.backward()
    except Exception as error:
        first = str(error).strip().partition("\n")[0][:200]
        raise ConfigError(f"executed: the backward pass fails: {first}; {FORWARD_ALONE}") from error


def _start(output: Any) -> Any:
    """The scalar at which the backward pass begins."""
    loss = getattr(output, "loss", None)
    plain = [*output.values()] if isinstance(output, Mapping) else output
    outputs = [loss] if loss is not None else pytree.tree_leaves(plain)
    for each in outputs:
        if isinstance(each, torch.Tensor) and each.requires_grad:
            return each.sum()
    raise ConfigError(f"executed: no output has a gradient; {FORWARD_ALONE}")


def _warnings(uncounted: Uncounted, shapes: ShapesOnly, masks: MaskWatch) -> Iterator[str]:
    if uncounted.names:
        names = ", ".join(sorted(uncounted.names))
        yield f"not counted, because torch's counter does not know them: {names}"
    routing = masks.recorder.routing
    yield from sorted(shapes.notes - ({SPREAD} if routing.computes_all else set()))
    yield from sorted(routing.warnings())
    yield from masks.warnings()
