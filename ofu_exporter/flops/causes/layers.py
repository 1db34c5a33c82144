"""Causes in the layers, which are counted wrongly: wrong widths, wrong kinds, all experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ofu_exporter.flops.causes import (
    NOTHING,
    CauseFacts,
    CountedStep,
    Hypothesis,
    MfuCause,
    miscount,
)
from ofu_exporter.flops.shapes import (
    Decoder,
    Experts,
    GroupedAttention,
    LatentAttention,
    Layer,
    Mlp,
)

ATTENTION = (GroupedAttention, LatentAttention)
EXPERTS = {"experts": "are counted"}


def _layers(step: CountedStep) -> tuple[Layer, ...]:
    return step.model.shape.layers if step.model.shape else ()


def _each(step: CountedStep, change: Callable[[Layer], Layer]) -> CountedStep:
    """The step with every layer changed."""
    assert step.model.shape is not None
    shape = replace(step.model.shape, layers=tuple(map(change, step.model.shape.layers)))
    return replace(step, model=replace(step.model, shape=shape))


def _in_layers(
    slug: str,
    rarity: float,
    meaning: str,
    change: Callable[[Layer, Decoder], Layer],
    says: Mapping[str, str] = NOTHING,
) -> MfuCause:
    """A mistake that takes layers for others; there is none where no layer changes."""

    def changed(step: CountedStep) -> CountedStep:
        shape = step.model.shape
        assert shape is not None
        return _each(step, lambda layer: change(layer, shape))

    def applies(step: CountedStep) -> bool:
        shape = step.model.shape
        return any(shape and change(layer, shape) != layer for layer in _layers(step))

    return miscount(slug, rarity, meaning, applies, changed, says)


def _experts(change: Callable[[Experts], Experts]) -> Callable[[Layer, Decoder], Layer]:
    def changed(layer: Layer, _: Decoder) -> Layer:
        block = layer.feed_forward
        return replace(layer, feed_forward=change(block)) if isinstance(block, Experts) else layer

    return changed


def _attention(layer: Layer, change: Callable[[GroupedAttention], GroupedAttention]) -> Layer:
    mixer = layer.mixer
    return replace(layer, mixer=change(mixer)) if isinstance(mixer, GroupedAttention) else layer


def _all_groups(layer: Layer, _: Decoder) -> Layer:
    return _attention(layer, lambda mixer: replace(mixer, groups=mixer.heads))


def _other_gate(layer: Layer, _: Decoder) -> Layer:
    block = layer.feed_forward
    return replace(layer, feed_forward=block and replace(block, gated=not block.gated))


def _sparse(layer: Layer, shape: Decoder) -> Layer:
    sparse = shape.feed_forwards(Experts)
    some = 0 < len(sparse) < len(shape.layers)
    return replace(layer, feed_forward=sparse[0]) if some else layer


def _without_experts(layer: Layer, _: Decoder) -> Layer:
    alone = layer.mixer is None and isinstance(layer.feed_forward, Experts)
    return replace(layer, feed_forward=None) if alone else layer


def _hybrid(facts: CauseFacts) -> Iterator[Hypothesis]:
    layers = _layers(facts.step) if facts.step else ()
    mixers = [layer.mixer for layer in layers if isinstance(layer.mixer, ATTENTION)]
    blocks = [layer.feed_forward for layer in layers if layer.feed_forward]
    dense = [block for block in blocks if isinstance(block, Mlp)]
    if len(mixers) == len(layers) or not mixers or not blocks:
        return
    block = (dense or blocks)[0]
    says = {"layers": "are all of one kind", **({"experts": "are not counted"} if dense else {})}
    yield Hypothesis(
        miscount=lambda step: _each(step, lambda _: Layer(mixers[0], block)), says=says
    )


def _head_dim(facts: CauseFacts) -> Iterator[Hypothesis]:
    shape = facts.step.model.shape if facts.step else None
    if shape is None:
        return
    hidden = shape.hidden
    mixers = shape.mixers(GroupedAttention)
    wide = [mixer for mixer in mixers if mixer.head_dim != hidden // mixer.heads]

    def narrow(mixer: GroupedAttention) -> GroupedAttention:
        return replace(mixer, head_dim=hidden // mixer.heads)

    if wide:
        yield Hypothesis(
            f"heads are {wide[0].head_dim} wide, and the count takes the hidden size over the heads",
            miscount=lambda step: _each(step, lambda layer: _attention(layer, narrow)),
        )


CAUSES = (
    _in_layers(
        "all_experts_counted",
        1.5,
        "a token goes to a few experts, and the count takes all of them",
        _experts(lambda block: replace(block, active=block.experts)),
        EXPERTS,
    ),
    _in_layers(
        "latent_moe_full_hidden",
        1.0,
        "the routed experts run on a latent, and the count has them at the full hidden size",
        _experts(lambda block: replace(block, latent=None)),
        EXPERTS,
    ),
    _in_layers(
        "shared_experts_omitted",
        2.5,
        "there are shared experts, and the count leaves them out",
        _experts(lambda block: replace(block, shared_width=0, shared_gate=False)),
        EXPERTS,
    ),
    MfuCause(
        "hybrid_as_dense",
        1.0,
        _hybrid,
        ("config",),
        meaning="the layers are of several kinds, and the count takes each for attention and an MLP",
    ),
    _in_layers(
        "sparse_everywhere",
        2.5,
        "some layers are sparse, and the count takes all of them for sparse",
        _sparse,
        {"layers": "are all sparse", **EXPERTS},
    ),
    _in_layers(
        "sparse_layers_omitted",
        2.5,
        "sparse layers stand by themselves in a hybrid, and the count has nothing for them",
        _without_experts,
        {"layers": "are of several kinds", "experts": "are not counted"},
    ),
    MfuCause(
        "head_dim_from_hidden",
        2.0,
        _head_dim,
        ("config",),
        meaning="heads have a width of their own, and the count takes the hidden size over the heads",
    ),
    _in_layers(
        "gating_miscounted",
        2.5,
        "feed-forward blocks are counted with a matrix too many or too few",
        _other_gate,
    ),
    _in_layers(
        "groups_ignored",
        2.5,
        "heads share keys and values, and the count gives each its own projections",
        _all_groups,
    ),
)
