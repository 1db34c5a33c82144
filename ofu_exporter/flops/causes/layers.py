"""Causes in the layers, which are counted wrongly: wrong widths, wrong kinds, all experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from ofu_exporter.flops.causes import Cause, CauseFacts, Hypothesis, Side
from ofu_exporter.flops.shapes import (
    Decoder,
    Experts,
    FeedForward,
    GroupedAttention,
    LatentAttention,
    Layer,
    Mlp,
)

ATTENTION = (GroupedAttention, LatentAttention)
EXPERTS = {"experts": "are counted"}
Change = Callable[[Decoder], Decoder]


def _shape(facts: CauseFacts) -> Decoder | None:
    return facts.step.model.shape if facts.step else None


def _each(change: Callable[[Layer], Layer]) -> Change:
    return lambda shape: replace(shape, layers=tuple(map(change, shape.layers)))


def _changed(
    evidence: str, change: Callable[[Layer], Layer], says: Mapping[str, str] = MappingProxyType({})
) -> Callable[[CauseFacts], Iterator[Hypothesis]]:
    """Makes the hypothesis of a count that changes each layer; none if no layer changes."""

    def hypotheses(facts: CauseFacts) -> Iterator[Hypothesis]:
        shape = _shape(facts)
        if shape and any(change(layer) != layer for layer in shape.layers):
            yield Hypothesis(
                evidence, miscount=lambda step: step.reshaped(_each(change)), says=says
            )

    return hypotheses


def _experts(change: Callable[[Experts], Experts]) -> Callable[[Layer], Layer]:
    def changed(layer: Layer) -> Layer:
        block = layer.feed_forward
        return replace(layer, feed_forward=change(block)) if isinstance(block, Experts) else layer

    return changed


def _attention(change: Callable[[GroupedAttention], GroupedAttention]) -> Callable[[Layer], Layer]:
    def changed(layer: Layer) -> Layer:
        mixer = layer.mixer
        return replace(layer, mixer=change(mixer)) if isinstance(mixer, GroupedAttention) else layer

    return changed


def _gated(layer: Layer) -> Layer:
    block = layer.feed_forward
    return layer if block is None else replace(layer, feed_forward=_other_gate(block))


def _other_gate(block: FeedForward) -> FeedForward:
    return replace(block, gated=not block.gated)


def _hybrid(facts: CauseFacts) -> Iterator[Hypothesis]:
    shape = _shape(facts)
    mixer = next(
        (layer.mixer for layer in _layers(shape) if isinstance(layer.mixer, ATTENTION)), None
    )
    blocks = [layer.feed_forward for layer in _layers(shape) if layer.feed_forward]
    dense = next((block for block in blocks if isinstance(block, Mlp)), None)
    block = dense or next(iter(blocks), None)
    if (
        all(isinstance(layer.mixer, ATTENTION) for layer in _layers(shape))
        or not mixer
        or not block
    ):
        return
    yield Hypothesis(
        "the layers are of several kinds, and the count takes each for attention and an MLP",
        miscount=lambda step: step.reshaped(
            _each(lambda layer: Layer(mixer, block, layer.norm_parameters))
        ),
        says={"layers": "are all of one kind", **({"experts": "are not counted"} if dense else {})},
    )


def _layers(shape: Decoder | None) -> tuple[Layer, ...]:
    return shape.layers if shape else ()


def _sparse_everywhere(facts: CauseFacts) -> Iterator[Hypothesis]:
    shape = _shape(facts)
    sparse = shape.feed_forwards(Experts) if shape else []
    if sparse and len(sparse) < len(_layers(shape)):
        yield Hypothesis(
            "some layers are sparse, and the count takes all of them for sparse",
            miscount=lambda step: step.reshaped(
                _each(lambda layer: replace(layer, feed_forward=sparse[0]))
            ),
            says={"layers": "are all sparse", **EXPERTS},
        )


def _sparse_left_out(facts: CauseFacts) -> Iterator[Hypothesis]:
    shape = _shape(facts)
    alone = [layer for layer in _layers(shape) if layer.mixer is None]
    if any(isinstance(layer.feed_forward, Experts) for layer in alone):
        yield Hypothesis(
            "sparse layers stand by themselves in a hybrid, and the count has nothing for them",
            miscount=lambda step: step.reshaped(_each(_without_experts)),
            says={"layers": "are of several kinds", "experts": "are not counted"},
        )


def _without_experts(layer: Layer) -> Layer:
    alone = layer.mixer is None and isinstance(layer.feed_forward, Experts)
    return replace(layer, feed_forward=None) if alone else layer


def _head_dim(facts: CauseFacts) -> Iterator[Hypothesis]:
    shape = _shape(facts)
    wide = [
        mixer
        for mixer in (shape.mixers(GroupedAttention) if shape else [])
        if shape and mixer.head_dim != shape.hidden // mixer.heads
    ]
    if shape is None or not wide:
        return
    hidden = shape.hidden
    change = _attention(lambda mixer: replace(mixer, head_dim=hidden // mixer.heads))
    yield Hypothesis(
        f"heads are {wide[0].head_dim} wide, and the count takes the hidden size over the heads",
        miscount=lambda step: step.reshaped(_each(change)),
    )


CAUSES = (
    Cause(
        "all_experts_counted",
        Side.REPORT,
        1.5,
        _changed(
            "a token goes to a few experts, and the count takes all of them",
            _experts(lambda block: replace(block, active=block.experts)),
            EXPERTS,
        ),
        ("config",),
        meaning="a token goes to a few experts, and the count takes all of them",
    ),
    Cause(
        "latent_moe_full_hidden",
        Side.REPORT,
        1.0,
        _changed(
            "the routed experts run on a latent, and the count has them at the full hidden size",
            _experts(lambda block: replace(block, latent=None)),
            EXPERTS,
        ),
        ("config",),
        meaning="the routed experts run on a latent, and the count has them at the full hidden size",
    ),
    Cause(
        "shared_experts_omitted",
        Side.REPORT,
        2.5,
        _changed(
            "there are shared experts, and the count leaves them out",
            _experts(lambda block: replace(block, shared_width=0, shared_gate=False)),
            EXPERTS,
        ),
        ("config",),
        meaning="there are shared experts, and the count leaves them out",
    ),
    Cause(
        "hybrid_as_dense",
        Side.REPORT,
        1.0,
        _hybrid,
        ("config",),
        meaning="the layers are of several kinds, and the count takes each for attention and an MLP",
    ),
    Cause(
        "sparse_everywhere",
        Side.REPORT,
        2.5,
        _sparse_everywhere,
        ("config",),
        meaning="some layers are sparse, and the count takes all of them for sparse",
    ),
    Cause(
        "sparse_layers_omitted",
        Side.REPORT,
        2.5,
        _sparse_left_out,
        ("config",),
        meaning="sparse layers stand by themselves in a hybrid, and the count has nothing for them",
    ),
    Cause(
        "head_dim_from_hidden",
        Side.REPORT,
        2.0,
        _head_dim,
        ("config",),
        meaning="heads have a width of their own, and the count takes the hidden size over the heads",
    ),
    Cause(
        "gating_miscounted",
        Side.REPORT,
        2.5,
        _changed("feed-forward blocks are counted with a matrix too many or too few", _gated),
        ("config",),
        meaning="feed-forward blocks are counted with a matrix too many or too few",
    ),
    Cause(
        "groups_ignored",
        Side.REPORT,
        2.5,
        _changed(
            "heads share keys and values, and the count gives each its own projections",
            _attention(lambda mixer: replace(mixer, groups=mixer.heads)),
        ),
        ("config",),
        meaning="heads share keys and values, and the count gives each its own projections",
    ),
)
