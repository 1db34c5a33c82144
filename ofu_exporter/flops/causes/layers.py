"""Causes in the layers, which are counted wrongly: wrong widths, wrong kinds, all experts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import wraps

from ofu_exporter.flops.causes import CauseFacts, CountedStep, Hypothesis, MfuCause, cause, miscount
from ofu_exporter.flops.mixers import GroupedAttention, LatentAttention
from ofu_exporter.flops.shapes import Decoder, Experts, Layer, Mlp

LayerChange = Callable[[Layer, Decoder], Layer]
"""Takes a layer of a decoder for another."""
ATTENTION = (GroupedAttention, LatentAttention)
EXPERTS = {"experts": "are counted"}


def _layers(step: CountedStep) -> Collection[Layer]:
    """The layers of a decoder, of which most are one object: each once."""
    layers = step.model.shape.layers if step.model.shape else ()
    return {id(layer): layer for layer in layers}.values()


def _each(step: CountedStep, change: LayerChange) -> CountedStep:
    shape = step.model.shape
    assert shape is not None
    changed = {id(layer): change(layer, shape) for layer in _layers(step)}
    layers = tuple(changed[id(layer)] for layer in shape.layers)
    return replace(step, model=replace(step.model, shape=replace(shape, layers=layers)))


def _in_layers(
    rarity: float, says: Mapping[str, str] | None = None
) -> Callable[[LayerChange], MfuCause]:
    """Makes a cause of a change of layers; none where no layer changes."""

    def named(change: LayerChange) -> MfuCause:
        @wraps(change)
        def changed(step: CountedStep) -> CountedStep:
            return _each(step, change)

        def applies(step: CountedStep) -> bool:
            shape = step.model.shape
            return any(shape and change(layer, shape) != layer for layer in _layers(step))

        return miscount(rarity, applies, says)(changed)

    return named


def _experts(layer: Layer, change: Callable[[Experts], Experts]) -> Layer:
    block = layer.feed_forward
    return replace(layer, feed_forward=change(block)) if isinstance(block, Experts) else layer


def _attention(layer: Layer, change: Callable[[GroupedAttention], GroupedAttention]) -> Layer:
    mixer = layer.mixer
    return replace(layer, mixer=change(mixer)) if isinstance(mixer, GroupedAttention) else layer


@_in_layers(1.5, EXPERTS)
def all_experts_counted(layer: Layer, _: Decoder) -> Layer:
    """A token goes to a few experts, and the count takes all of them."""
    return _experts(layer, lambda block: replace(block, active=block.experts))


@_in_layers(1.0, EXPERTS)
def latent_moe_full_hidden(layer: Layer, _: Decoder) -> Layer:
    """The routed experts run on a latent, and the count has them at the full hidden size."""
    return _experts(layer, lambda block: replace(block, latent=None))


@_in_layers(2.5, EXPERTS)
def shared_experts_omitted(layer: Layer, _: Decoder) -> Layer:
    """There are shared experts, and the count leaves them out."""
    return _experts(layer, lambda block: replace(block, shared_width=0, shared_gate=False))


@cause(1.0, needs=("config",))
def hybrid_as_dense(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The layers are of several kinds, and the count takes each for attention and an MLP."""
    layers = _layers(facts.step) if facts.step else ()
    mixers = [layer.mixer for layer in layers if isinstance(layer.mixer, ATTENTION)]
    blocks = [layer.feed_forward for layer in layers if layer.feed_forward]
    dense = [block for block in blocks if isinstance(block, Mlp)]
    if len(mixers) == len(layers) or not mixers or not blocks:
        return
    block = (dense or blocks)[0]
    says = {"layers": "are all of one kind", **({"experts": "are not counted"} if dense else {})}
    every = Layer(mixers[0], block)
    yield Hypothesis(miscount=lambda step: _each(step, lambda *_: every), says=says)


@_in_layers(2.5, {"layers": "are all sparse", **EXPERTS})
def sparse_everywhere(layer: Layer, shape: Decoder) -> Layer:
    """Some layers are sparse, and the count takes all of them for sparse."""
    sparse = shape.feed_forwards(Experts)
    some = 0 < len(sparse) < len(shape.layers)
    return replace(layer, feed_forward=sparse[0]) if some else layer


@_in_layers(2.5, {"layers": "are of several kinds", "experts": "are not counted"})
def sparse_layers_omitted(layer: Layer, _: Decoder) -> Layer:
    """Sparse layers stand by themselves in a hybrid, and the count has nothing for them."""
    alone = layer.mixer is None and isinstance(layer.feed_forward, Experts)
    return replace(layer, feed_forward=None) if alone else layer


@cause(2.0, needs=("config",))
def head_dim_from_hidden(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Heads have a width of their own, and the count takes the hidden size over the heads."""
    shape = facts.step.model.shape if facts.step else None
    mixers = shape.mixers(GroupedAttention) if shape else []
    wide = [each for each in mixers if shape and each.head_dim != shape.hidden // each.heads]

    def narrow(layer: Layer, shape: Decoder) -> Layer:
        return _attention(layer, lambda each: replace(each, head_dim=shape.hidden // each.heads))

    if wide:
        heads = f"heads are {wide[0].head_dim} wide"
        evidence = f"{heads}, and the count takes the hidden size over the heads"
        yield Hypothesis(evidence, miscount=lambda step: _each(step, narrow))


@_in_layers(2.5)
def gating_miscounted(layer: Layer, _: Decoder) -> Layer:
    """Feed-forward blocks are counted with a matrix too many or too few."""
    block = layer.feed_forward
    return replace(layer, feed_forward=block and replace(block, gated=not block.gated))


@_in_layers(2.5)
def groups_ignored(layer: Layer, _: Decoder) -> Layer:
    """Heads share keys and values, and the count gives each its own projections."""
    return _attention(layer, lambda mixer: replace(mixer, groups=mixer.heads))
