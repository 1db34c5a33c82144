"""Runs a model whose weights have shapes and no values, together with small integers that have values.

Weights are on torch's meta device, so a model of any size needs little memory. But models also read the values of
integers: the sides of an image, which tokens belong to an image, where a sequence ends. So integers and masks stay on
the CPU. An operator with at least one input without values works on shapes only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ofu_exporter.flops.trace.sample import is_tensor

KEPT_VALUES = 1 << 22
"""The largest number of elements whose values are kept; larger ones (masks of long texts) keep their shape."""

aten = torch.ops.aten
CHOICES = {aten.topk.default, aten.sort.default, aten.sort.stable, aten.argmax.default}
"""Operators whose integer results depend on values, such as the experts of a token."""
EVERYWHERE = "a mask that depends on values was taken to let everything through"
SPREAD_EVENLY = "what values choose (experts of tokens, patches of an image) was spread evenly: there are no values"
FROM_LISTS = {torch.tensor, torch.as_tensor}
GROUPED = {getattr(torch, "_grouped_mm", None), getattr(torch.nn.functional, "grouped_mm", None)}
"""Products that torch has no shape for but in 16 bits."""
WITH_MASKS = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}


class BeforeOperators(TorchFunctionMode):
    """Changes what no operator shows: lists of integers become tensors on the CPU, not without values; grouped products
    run in 16 bits."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if func in GROUPED and args[0].is_meta and args[0].dtype is torch.float32:
            halves = (each.bfloat16() for each in args[:2])
            return func(*halves, *args[2:], **named).float()
        if func not in FROM_LISTS or not _wants_meta(named):
            return func(*args, **named)
        values = func(*args, **{**named, "device": "cpu"})
        return func(*args, **named) if values.is_floating_point() else values


class ShapesOnly(TorchDispatchMode):
    """A torch mode for tensors with and without values. `notes` says where a value had to be chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: set[str] = set()
        self._before = BeforeOperators()

    def __enter__(self) -> ShapesOnly:
        self._before.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._before.__exit__(*error)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run one operator. Raises torch's error if the model reads a value that does not exist."""
        named = _integers_keep_values(func, args, dict(kwargs or {}))
        tensors = [leaf for leaf in pytree.tree_leaves((args, named)) if is_tensor(leaf)]
        if not any(tensor.is_meta for tensor in tensors):
            return _with_values(func, args, named)
        if func is aten._local_scalar_dense.default and tensors[0].dtype is torch.bool:
            self.notes.add("a branch that depends on values was taken as false")
            return False
        if func is aten.nonzero.default:
            self.notes.add(EVERYWHERE)
            return _everywhere(args[0])
        if func is aten.masked_select.default:
            func, args = aten.index.Tensor, (args[0], [args[1]])
        if func in WITH_MASKS:
            if any(is_tensor(each) and _is_unknown_mask(each) for each in args[1]):
                self.notes.add(EVERYWHERE)
            args = (args[0], _positions(args[1]), *args[2:])
        shaped, named = pytree.tree_map(_shape, (args, named))
        if named.get("device") is not None:
            # A tensor without values can't be copied to a device with values.
            named["device"] = torch.device("meta")
        result = func(*shaped, **named)
        if func in CHOICES and tensors[0].is_floating_point():
            self.notes.add(SPREAD_EVENLY)
            return _chosen(func, args[0], result, named, args)
        return result


def _wants_meta(named: Mapping[str, Any]) -> bool:
    """Whether a new tensor is to have no values."""
    device = named.get("device")
    return device is not None and torch.device(device).type == "meta"


def _sizes(values: Any) -> list[int]:
    return [leaf.numel() for leaf in pytree.tree_leaves(values) if is_tensor(leaf)]


def _shape(value: Any) -> Any:
    with _disable_current_modes():
        return value.to("meta") if is_tensor(value) and value.device.type == "cpu" else value


def _integers_keep_values(func: Any, args: Any, named: dict[str, Any]) -> dict[str, Any]:
    """The named arguments, without the meta device for a new tensor of integers."""
    if not _wants_meta(named):
        return named
    first: Any = args[0] if args else None
    if is_tensor(first):
        kind = named.get("dtype") or first.dtype
        keeps_values = not first.is_meta and not kind.is_floating_point
    elif named.get("dtype") is not None:
        keeps_values = not named["dtype"].is_floating_point
    else:
        keeps_values = func._overloadpacket in {aten.arange, aten.full} and not any(
            isinstance(leaf, float) for leaf in pytree.tree_leaves(args)
        )
    return {**named, "device": torch.device("cpu")} if keeps_values else named


def _with_values(func: Callable[..., Any], args: Any, named: dict[str, Any]) -> Any:
    """The result of an operator on values, or only its shape if there would be too many values."""
    if sum(_sizes((args, named))) ** 2 > KEPT_VALUES:
        shaped, shaped_named = pytree.tree_map(_shape, (args, named))
        try:
            with _disable_current_modes():
                result = func(*shaped, **shaped_named)
        except RuntimeError:
            return func(*args, **named)  # its shape depends on values
        if max(_sizes(result), default=0) > KEPT_VALUES:
            return func(*shaped, **shaped_named)
    try:
        return func(*args, **named)
    except RuntimeError:  # the CPU has no such kernel for integers
        return func(*pytree.tree_map(_shape, args), **pytree.tree_map(_shape, named))


def _is_unknown_mask(index: Any) -> bool:
    return bool(index.dtype is torch.bool and index.is_meta)


def _everywhere(values: Any) -> Any:
    """The positions of all elements."""
    with _disable_current_modes():
        return torch.ones(values.shape, dtype=torch.bool).nonzero()


def _positions(indices: Any) -> list[Any]:
    """The indices, with each mask replaced by the positions that it lets through."""
    positions: list[Any] = []
    for index in indices:
        if is_tensor(index) and _is_unknown_mask(index):
            positions += _everywhere(index).unbind(1)
        elif is_tensor(index) and index.dtype is torch.bool:
            with _disable_current_modes():
                positions += index.nonzero().unbind(1)
        else:
            positions.append(index)
    return positions


def _chosen(func: Any, values: Any, result: Any, named: dict[str, Any], args: Any) -> Any:
    """The result, with integers that select every possibility equally often."""
    chosen = result if func is aten.argmax.default else result[1]
    if chosen.numel() > KEPT_VALUES or not values.dim():
        return result
    place = 2 if func is aten.topk.default else 1
    dim = named.get("dim", args[place] if len(args) > place else -1)
    last = values.shape[-1 if dim is None else dim]
    with _disable_current_modes():
        even = torch.arange(chosen.numel()).reshape(chosen.shape) % last
    return even if func is aten.argmax.default else (result[0], even)
