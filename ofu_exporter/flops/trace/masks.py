"""Tells which keys a query sees, at any length, and which products of attention a mask is laid over.

transformers makes every mask of a function of two positions. Asked about positions far beyond any text, the function
shows its window or its chunk, wherever the model has it from. The mask is then followed to the scores that it is laid
over, so that neither names of attributes nor the way in which a layer gets its mask matter.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ofu_exporter.flops.trace.recorder import EVERY_PAIR, Mask, Recorder, TracedProduct
from ofu_exporter.flops.trace.sample import is_tensor, storage_of

FAR = 1 << 19
"""Where queries are asked what they see: beyond the windows of models."""
QUERIES = (FAR, FAR + 12_345)
KEYS = 2 * FAR
aten = torch.ops.aten
MOST_PRODUCTS = 16
"""Scores that are a sum of more products than this are no attention's."""
MASKS = "transformers.masking_utils"
UNDETERMINED = "masks may let other pairs of query and key through than are counted"
HIDES = -1e4
"""What is added to a score that is to vanish, at most."""


class PositionsBeyond(TorchFunctionMode):
    """Lets a mask look up positions beyond its text, which then goes on as it ends."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__getitem__ and isinstance(args[1], tuple):
            table, places = args
            if all(is_tensor(each) and not each.is_floating_point() for each in places):
                within = zip(places, table.shape, strict=False)
                args = (table, tuple(each.clamp(max=size - 1) for each, size in within))
        return func(*args, **(kwargs or {}))


def mask_of(function: Callable[..., Any]) -> Mask | None:
    """The mask that a function of sample, head, query and key makes; None if it is of no kind that a recipe has."""
    try:
        with _disable_current_modes(), PositionsBeyond():
            seen = {query: _seen(function, query) for query in QUERIES}
            start, _ = seen[FAR]
            before, _ = _seen(function, start - 1) if start else (0, 0)
            chunk = start - before
    except (LookupError, RuntimeError, TypeError, ValueError):
        return None
    for mask in _candidates(*seen[FAR], chunk):
        if all(_keys(mask, query) == keys for query, keys in seen.items()):
            return mask
    return None


def _seen(function: Callable[..., Any], query: int) -> tuple[int, int]:
    """The first and the last key that a query sees. Raises ValueError where it does not see all between them."""
    one = torch.zeros(1, 1, 1, 1, dtype=torch.long)
    lets_through = function(one, one, one + query, torch.arange(KEYS)[None, None, None])
    keys = lets_through.expand(1, 1, 1, KEYS).flatten().nonzero().flatten()
    first, last = int(keys[0]), int(keys[-1])
    if last - first + 1 != len(keys):
        raise ValueError(f"query {query} sees keys with gaps")
    return first, last


def _candidates(first: int, last: int, chunk: int) -> Iterator[Mask]:
    """The masks under which the first query may see these keys."""
    is_causal = last == FAR
    yield Mask(is_causal)
    yield Mask(is_causal, window=last - first + 1)
    if chunk > 0:
        yield from (Mask(is_causal=causal, chunk=chunk) for causal in (True, False))


def _keys(mask: Mask, query: int) -> tuple[int, int]:
    """The first and the last key that a query sees under a mask."""
    if mask.chunk:
        start = query - query % mask.chunk
        return start, query if mask.is_causal else start + mask.chunk - 1
    if mask.window and mask.is_causal:
        return query - mask.window + 1, query
    if mask.window:
        return query - mask.window // 2, query + mask.window // 2
    return 0, query if mask.is_causal else KEYS - 1


def pairs_let_through(func: Any, scores: Any, others: list[Any]) -> Iterator[Any]:
    """The pairs that a mask lets through, which an operator lays over scores; None for a mask without values.

    What hides nothing may be no mask: a bias of positions.
    """
    pairs = scores.shape[-2:]
    for each in others:
        if not is_tensor(each) or each.dim() < 2 or each.shape[-2:] != pairs or len({*pairs}) != 1:
            continue
        is_mask = each.dtype is torch.bool
        if each.is_meta:
            yield from [None] if is_mask else []
            continue
        with _disable_current_modes():
            lets_through = each if is_mask else each > HIDES
            if is_mask and func is not aten.where.self:
                lets_through = ~each  # masked_fill
            if not lets_through.all():
                yield lets_through.reshape(-1, *pairs).any(0)


def _differs(product: TracedProduct, visible: Any) -> bool:
    """Whether other pairs are visible than are counted; True where that cannot be seen."""
    if visible is None:
        return True
    mask = product.mask
    with _disable_current_modes():
        places = torch.arange(len(visible))
        ahead = places[None] - places[:, None]
        counted = ahead <= 0 if mask.is_causal else torch.ones_like(visible)
        if mask.window:
            counted &= ahead.abs() < (mask.window if mask.is_causal else mask.window // 2 + 1)
        if mask.chunk:
            counted &= places[None] // mask.chunk == places[:, None] // mask.chunk
        return bool((counted != visible).any())


@dataclass(frozen=True)
class ScoreMark:
    """What a tensor was made of: the scores of some products, a mask, or both."""

    products: tuple[TracedProduct, ...] = ()
    is_masked: bool = False
    mask: Mask | None = None
    """None for one that could not be determined."""


class MaskWatch(TorchDispatchMode):
    """Follows masks to the products of attention, and writes into these what their queries see."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.undetermined: set[str] = set()
        """Modules whose masks let pairs through in a way that a recipe cannot say."""
        self._visible: list[tuple[TracedProduct, Any]] = []
        """Which pairs a mask of unknown making lets through: of queries and keys, by their values."""
        self._marks: dict[int, tuple[ScoreMark, StorageWeakRef]] = {}
        """By storage. The weak reference keeps the address of a storage from being used again, and not its memory."""
        self._interface = ExitStack()

    def __enter__(self) -> MaskWatch:
        self._interface.enter_context(self._made_masks())
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._interface.close()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = len(self.recorder.products)
        result = func(*args, **(kwargs or {}))
        if self.recorder.is_backward:
            return result
        marks = [*self._marks_of((args, kwargs))]
        products = self.recorder.products[before:]
        activations = tuple(each for each in products if each.weights is None)
        if activations:
            self._lay_over(activations, marks)
            self._mark(result, ScoreMark(activations))
        elif marks and not products:
            mark = self._combined(marks)
            self._mark(result, mark)
            if mark.products and is_tensor(result):
                others = [each for each in args if not [*self._marks_of(each)]]
                visible = pairs_let_through(func, result, others)
                self._visible += [(mark.products[0], each) for each in visible]
        return result

    def warnings(self) -> Iterator[str]:
        """Which modules are counted by what they call themselves, because their masks do not say."""
        others = {each.module for each, visible in self._visible if _differs(each, visible)}
        names = sorted(
            {re.sub(r"\d+", "N", name) or "model" for name in self.undetermined | others}
        )
        if names:
            yield f"{UNDETERMINED}: {', '.join(names)}"

    def _marks_of(self, arguments: Any) -> Iterator[ScoreMark]:
        for each in pytree.tree_leaves(arguments):
            if is_tensor(each) and storage_of(each) in self._marks:
                yield self._marks[storage_of(each)][0]

    def _mark(self, result: Any, mark: ScoreMark) -> None:
        for each in pytree.tree_leaves(result):
            if is_tensor(each):
                alive = StorageWeakRef(each.untyped_storage())
                self._marks[storage_of(each)] = (mark, alive)

    def _combined(self, marks: list[ScoreMark]) -> ScoreMark:
        """The mark of what was made of marked tensors without a product: scores and their mask meet here."""
        products = tuple({id(each): each for mark in marks for each in mark.products}.values())
        masks = {mark.mask for mark in marks if mark.is_masked}
        if len(products) > MOST_PRODUCTS:
            return ScoreMark()
        if len(masks) > 1:
            masks -= {EVERY_PAIR}
        combined = ScoreMark(products, bool(masks), masks.pop() if len(masks) == 1 else None)
        if any(mark.is_masked and not mark.products for mark in marks):
            self._lay_over(products, [combined])
        return combined

    def _lay_over(self, products: tuple[TracedProduct, ...], marks: list[ScoreMark]) -> None:
        """Write into products what their queries see, if one of the marks says it."""
        masked = [mark for mark in marks if mark.is_masked]
        for product in products if masked else ():
            mask = masked[0].mask
            if mask is None:
                self.undetermined.add(product.module)
            else:
                product.mask = mask

    @contextmanager
    def _made_masks(self) -> Iterator[None]:
        """Where transformers is loaded, mark each mask that it makes."""
        masking = sys.modules.get(MASKS)
        interface = getattr(masking, "ALL_MASK_ATTENTION_FUNCTIONS", {})
        before = dict(interface)
        for name, make in before.items():
            interface[name] = partial(self._made, make)
        try:
            yield
        finally:
            for name, make in before.items():
                interface[name] = make

    def _made(self, make: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """A mask as the library makes it, which may leave out one that hides nothing in a text as short as this."""
        function = named.get("mask_function")
        mask = mask_of(function) if function is not None else None
        if mask is not None and (mask.window or mask.chunk):
            named |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        mask_tensor = make(*args, **named)
        self._mark(mask_tensor, ScoreMark(is_masked=True, mask=mask))
        return mask_tensor
