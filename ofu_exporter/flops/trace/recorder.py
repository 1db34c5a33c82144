"""Records every product that torch executes: in which module, with which weights, and what its gradients cost.

The counter is torch's own. A product of the forward pass is found again in the backward pass by the number that
autograd gives its node, so that each product knows which of its gradients were computed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

import torch
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from ofu_exporter.flops.trace.routing import Routing
from ofu_exporter.flops.trace.sample import is_tensor, storage_of

aten = torch.ops.aten
SECOND = {aten.mm: 1, aten.bmm: 1, aten._grouped_mm: 1, aten.mv: 0, aten.convolution: 1}
SECOND |= {aten.addmm: 2, aten.baddbmm: 2}
"""The place of the weights among the arguments of a product, where it has some."""
GATHERS = {aten.index, aten.index_select, aten.gather}
LOOKED_UP = {aten.embedding, aten._embedding_bag}
CONVOLUTIONS = {aten.convolution, aten._convolution, aten.convolution_overrideable}
CONVOLUTION_NAMES = {str(each).removeprefix("aten.") for each in CONVOLUTIONS}
WHOLE = "Global"
"""The name that torch's counter gives to the sum over all modules."""


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


@dataclass
class Weights:
    """A parameter that takes part in a product, as it is or changed by operators that are no products."""

    storage: int
    """The storage of the parameter."""
    numel: int
    is_routed: bool = False
    """Whether tokens choose what they are multiplied by: experts."""


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees, in a text of any length."""

    is_causal: bool = False
    window: int | None = None
    """How many, its own with them: before it, or half of them on either side."""
    chunk: int | None = None
    """Only those among this many neighbours, which see each other."""


EVERY_PAIR = Mask()


@dataclass
class TracedProduct:
    """One product of the forward pass."""

    module: str
    operator: str
    flops: int
    """What the model needs of what is executed."""
    backward: int = 0
    """FLOPs of its gradients, of which the model needs the same share."""
    share: Fraction = Fraction(1)
    weights: Weights | None = None
    is_trained: bool = False
    """Whether its weights want a gradient."""
    matrix: tuple[int, int] | None = None
    """The sides of its weights, if they are a matrix."""
    mask: Mask = EVERY_PAIR
    attends: bool = False
    """Whether its module, or one around it, calls itself attention."""

    @property
    def kind(self) -> tuple[str, str, int]:
        """What a product that is computed again has in common with the first."""
        return (self.module, self.operator, self.flops)


class Untracked(nullcontext[None]):
    """Replaces torch's tracker of modules: everything belongs to the whole model.

    The tracker fails in a forward-only pass if a module is given parts of parameters as inputs (DeBERTa).
    """

    parents = frozenset({WHOLE})


class FusedAttention(TorchFunctionMode):
    """Sees whether torch's own attention, which runs as plain products here, was asked to be causal."""

    def __init__(self) -> None:
        super().__init__()
        self.is_causal: bool | None = None
        """None outside of it, and where a mask was given."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func is not torch.nn.functional.scaled_dot_product_attention:
            return func(*args, **named)
        is_masked = (args[3] if len(args) > 3 else named.get("attn_mask")) is not None
        is_causal = bool(args[5] if len(args) > 5 else named.get("is_causal", False))
        self.is_causal = None if is_masked else is_causal
        try:
            return func(*args, **named)
        finally:
            self.is_causal = None


class Recorder(FlopCounterMode):
    """Torch's counter, which also keeps every product of a module with these parameters."""

    def __init__(self, module: Any, parameters: Mapping[str, Any]) -> None:
        super().__init__(display=False, custom_mapping=FORMULAS)
        self.mod_tracker = Untracked()
        self.products: list[TracedProduct] = []
        self.parameters = {storage_of(each): each for each in parameters.values()}
        """One parameter of each storage."""
        self.looked_up: set[int] = set()
        """Storages of tables that are looked up."""
        self.is_backward = False
        self.recomputed = 0
        """FLOPs of activations that are computed again in the backward pass."""
        self.unchosen = 0
        """FLOPs of experts that their token did not choose."""
        self.routing = Routing()
        self._is_decoder = type(module).__name__.endswith("ForCausalLM")
        self._names = {id(each): name for name, each in module.named_modules()}
        self._stack: list[Any] = [module]
        self._nodes: dict[int, TracedProduct] = {}
        self._alike: dict[tuple[str, str, int], deque[TracedProduct]] = {}
        self._fused = FusedAttention()
        self._weights = {
            storage: Weights(storage, each.numel()) for storage, each in self.parameters.items()
        }
        self._kept: list[Any] = []
        """Tensors whose storages are known by their address, which nothing else may get."""

    def __enter__(self) -> Recorder:
        self._watch = ExitStack()
        # A handle of a hook removes it when its context ends.
        self._watch.enter_context(hooks.register_module_forward_pre_hook(self._begin))
        self._watch.enter_context(hooks.register_module_forward_hook(self._end, always_call=True))
        self._watch.enter_context(self._fused)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        ended = super().__exit__(*error)
        self._watch.close()
        return ended

    def layers(self) -> int:
        """How many members the longest list of modules has."""
        lists: Counter[str] = Counter()
        for name in self._names.values():
            before, _, last = name.rpartition(".")
            lists[before] += last.isdigit()
        return max(lists.values(), default=0)

    def by_operator(self) -> Counter[str]:
        counts = self.get_flop_counts().get(WHOLE, {})
        return Counter({str(name).removeprefix("aten."): int(n) for name, n in counts.items()})

    def _begin(self, module: Any, *_: Any) -> None:
        self._stack.append(module)

    def _end(self, module: Any, *_: Any) -> None:
        if self._stack[-1] is module:
            self._stack.pop()

    def _count_flops(self, func_packet: Any, out: Any, args: Any, kwargs: Any) -> Any:
        formula = self.flop_registry.get(func_packet)
        if formula is None:
            self._follow(func_packet, out, args, kwargs)
            return out
        flops = int(formula(*args, **kwargs, out_val=out))
        if self.is_backward and len(self._stack) == 1:
            self._add_gradient(flops)
        elif flops:
            product = self._product(func_packet, args, flops)
            if self.is_backward:
                self.recomputed += flops
                product = self._first(product)
            else:
                self.unchosen += flops - product.flops
                self.products.append(product)
                self._alike.setdefault(product.kind, deque()).append(product)
            self._nodes[torch._C._autograd._get_sequence_nr() - 1] = product
        return super()._count_flops(func_packet, out, args, kwargs)

    def _first(self, again: TracedProduct) -> TracedProduct:
        """The product that is computed again: its gradients may come through the second one."""
        alike = self._alike.get(again.kind)
        return alike.popleft() if alike else again

    def _add_gradient(self, flops: int) -> None:
        node = torch._C._current_autograd_node()
        product = self._nodes.get(node._sequence_nr()) if node is not None else None
        if product is not None:
            needed = int(flops * product.share)
            self.unchosen += flops - needed
            product.backward += needed

    def _product(self, operator: Any, args: Any, flops: int) -> TracedProduct:
        weights, tensor = self._weights_of(operator, args)
        product = TracedProduct(self._name(), str(operator).removeprefix("aten."), flops)
        if weights is None:
            product.mask = self._mask()
            classes = (type(each).__name__ for each in self._stack)
            product.attends = any("attention" in name.lower() for name in classes)
            return product
        product.weights, product.is_trained = weights, bool(tensor.requires_grad)
        if operator is aten.bmm and tensor is args[1] and tensor.numel() == weights.numel:
            product.share = self.routing.share(product.module, args[0], tensor)
            product.flops = int(flops * product.share)
            product.weights = replace(weights, is_routed=weights.is_routed or product.share < 1)
        if operator not in CONVOLUTIONS and tensor.dim() >= 2:
            product.matrix = (int(tensor.shape[-2]), int(tensor.shape[-1]))
        return product

    def _weights_of(self, operator: Any, args: Any) -> tuple[Weights | None, Any]:
        first = SECOND.get(operator, 1)
        others = [place for place in range(min(len(args), 3)) if place != first]
        for place in (first, *others):
            tensor = args[place] if place < len(args) else None
            is_bias = operator in {aten.addmm, aten.baddbmm} and place == 0
            if is_tensor(tensor) and not is_bias:
                weights = self._weights.get(storage_of(tensor))
                if weights is not None and (operator is not aten.convolution or place < 2):
                    return weights, tensor
        return None, None

    def _mask(self) -> Mask:
        """The mask of the attention that runs, as the modules say of themselves."""
        if self._fused.is_causal is not None:
            return Mask(self._fused.is_causal)
        for module in reversed(self._stack):
            causal = getattr(module, "is_causal", None)
            causal = getattr(module, "is_decoder", None) if causal is None else causal
            if isinstance(causal, bool):
                window = getattr(module, "sliding_window", None)
                has_window = causal and type(window) is int and window > 0
                return Mask(causal, window if has_window else None)
        return Mask(self._is_decoder)

    def _name(self, around: int = 0) -> str:
        """The name of the module that runs, or of the one around it."""
        for module in reversed(self._stack[: len(self._stack) - around]):
            if id(module) in self._names:
                return str(self._names[id(module)])
        return ""

    def _follow(self, operator: Any, out: Any, args: Any, kwargs: Any) -> None:
        """Keep what is made of parameters alone for weights: a copy, a part, another type, chosen experts."""
        tensors = [each for each in pytree.tree_leaves((args, kwargs)) if is_tensor(each)]
        if not tensors or self.is_backward:
            return
        self.routing.follow(operator, args, self._name(around=1))
        if operator in LOOKED_UP:
            self.looked_up |= {storage_of(each) for each in tensors} & self._weights.keys()
            return
        values = [each for each in tensors if each.is_floating_point()]
        origins = [self._weights.get(storage_of(each)) for each in values]
        if not origins or None in origins:
            return
        largest = max((each for each in origins if each), key=lambda each: each.numel)
        is_routed = largest.is_routed or (operator in GATHERS and len(values) < len(tensors))
        derived = Weights(largest.storage, largest.numel, is_routed)
        for each in pytree.tree_leaves(out):
            if is_tensor(each) and storage_of(each) not in self._weights:
                self._weights[storage_of(each)] = derived
                self._kept.append(each)
