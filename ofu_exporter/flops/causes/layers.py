"""Causes in the layers, which are counted wrongly: wrong widths, wrong kinds, all experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial, wraps

from ofu_exporter.flops import Part
from ofu_exporter.flops.causes import (
    CauseFacts,
    Hypothesis,
    LayerChange,
    MfuCause,
    Side,
    cause,
    each_layer,
    every_pair,
    in_part,
    layers_of,
    miscount,
)
from ofu_exporter.flops.causes.attention import attends_in_windows, without_windows
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.flops.mixers import GroupedAttention, LatentAttention
from ofu_exporter.flops.shapes import Decoder, Experts, Layer, Mlp
from ofu_exporter.flops.terms import Term

ATTENTION = (GroupedAttention, LatentAttention)
EXPERTS = {"experts": "are counted"}
CAPACITY = (1.25, 1.5, 2.0)
"""Usual capacity factors: places of an expert over its share of the tokens."""
TENSOR_PARALLEL = (2, 4, 8, 16)
"""Usual numbers of ranks that share each layer of an engine's model."""
FEWEST_KEPT = 0.4
"""The least share of the tokens that experts keep in practice."""


def _in_layers(
    rarity: float, says: Mapping[str, str] | None = None
) -> Callable[[LayerChange], MfuCause]:
    """Makes a cause of a change of layers; none where no layer changes."""

    def named(change: LayerChange) -> MfuCause:
        @wraps(change)
        def changed(step: CountedStep) -> CountedStep:
            return each_layer(step, change)

        def applies(step: CountedStep) -> bool:
            shape = step.model.shape
            return any(shape and change(layer, shape) != layer for layer in layers_of(step))

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
    layers = layers_of(facts.step)
    mixers = [layer.mixer for layer in layers if isinstance(layer.mixer, ATTENTION)]
    blocks = [layer.feed_forward for layer in layers if layer.feed_forward]
    dense = [block for block in blocks if isinstance(block, Mlp)]
    if len(mixers) == len(layers) or not mixers or not blocks:
        return
    block = (dense or blocks)[0]
    says = {"layers": "are all of one kind", **({"experts": "are not counted"} if dense else {})}
    every = Layer(mixers[0], block)
    yield Hypothesis(miscount=lambda step: each_layer(step, lambda *_: every), says=says)


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
        yield Hypothesis(evidence, miscount=lambda step: each_layer(step, narrow))


def _other_gating(layer: Layer, _: Decoder) -> Layer:
    block = layer.feed_forward
    return replace(layer, feed_forward=block and replace(block, gated=not block.gated))


@cause(2.5, needs=("config",))
def gating_miscounted(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Feed-forward blocks are counted with a matrix too many or too few."""
    if not any(layer.feed_forward for layer in layers_of(facts.step)):
        return
    change = partial(each_layer, change=_other_gating)
    yield Hypothesis(miscount=change)
    if facts.step and attends_in_windows(facts.step):  # GeGLU in Megatron-Bridge 0.3
        yield Hypothesis(
            f"{gating_miscounted.meaning}, and windows as the whole sequence",
            miscount=lambda step: without_windows(change(step)),
            says={"cores": "are counted"},
        )


def _of_4h(layer: Layer, shape: Decoder) -> Layer:
    is_plain = isinstance(layer.feed_forward, Mlp)
    return replace(layer, feed_forward=Mlp(4 * shape.hidden, False)) if is_plain else layer


@cause(2.5, needs=("config",))
def mlp_as_4h(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Feed-forward blocks are counted as two matrices of 4 times the hidden size."""
    shape = facts.step.model.shape if facts.step else None
    if not any(shape and _of_4h(layer, shape) != layer for layer in layers_of(facts.step)):
        return
    change = partial(each_layer, change=_of_4h)
    yield Hypothesis(miscount=change)
    yield Hypothesis(
        f"{mlp_as_4h.meaning}, and attention with every pair, as for GPT-3",
        miscount=lambda step: change(every_pair(step)),
        says={"cores": "are counted"},
    )


@_in_layers(2.5)
def groups_ignored(layer: Layer, _: Decoder) -> Layer:
    """Heads share keys and values, and the count gives each its own projections."""
    return _attention(layer, lambda mixer: replace(mixer, groups=mixer.heads))


def may_drop_tokens(step: CountedStep) -> bool:
    """Whether the model has routed experts, which may drop tokens or have empty places."""
    return any(isinstance(layer.feed_forward, Experts) for layer in layers_of(step))


def _with_capacity(factor: float) -> Callable[[CountedStep], CountedStep]:
    """The step with the tokens of the routed experts times this factor."""

    def more(term: Term) -> Term:
        is_routed = not term.name.startswith("shared_expert")
        return replace(term, flops=round(term.flops * factor)) if is_routed else term

    return lambda step: step.edited(in_part(Part.EXPERTS, more))


@cause(2.5, needs=("config",))
def capacity_counted(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Experts are counted with a capacity factor, and the kernels run no empty place."""
    if facts.step and may_drop_tokens(facts.step):
        for factor in CAPACITY:
            evidence = f"experts are counted with a capacity factor of {factor}, which none runs"
            yield Hypothesis(evidence, miscount=_with_capacity(factor), says=EXPERTS)


def _on_each_of(ranks: int) -> Callable[[CountedStep], CountedStep]:
    """The step with its feed-forward blocks counted as often as there are ranks."""

    def more(term: Term) -> Term:
        is_whole = term.part in (Part.MLP, Part.EXPERTS)
        return replace(term, flops=term.flops * ranks) if is_whole else term

    return lambda step: step.edited(more)


@cause(1.5)
def mlp_on_each_rank(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The engine counts the whole MLP on each tensor-parallel rank, as SGLang does."""
    if facts.step and facts.engine == "sglang":
        for ranks in (each for each in TENSOR_PARALLEL if each <= (facts.gpus or each)):
            evidence = f"SGLang counts the whole MLP on each of {ranks} tensor-parallel ranks"
            # Of experts it counts one dense width, which may be that of one expert or of all that a token goes to.
            is_sparse = may_drop_tokens(facts.step)
            yield Hypothesis("" if is_sparse else evidence, miscount=_on_each_of(ranks))


@cause(3.0, needs=("config",), shown_ratio="computed, for factors of 1 to 2", side=Side.HARDWARE)
def capacity_run(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The hardware runs the empty places of a capacity factor, which MFU rightly leaves out."""
    if facts.step and may_drop_tokens(facts.step):
        most = _with_capacity(CAPACITY[-1])(facts.step).flops()
        yield Hypothesis(ratio=1.0, lowest=facts.step.flops() / most, is_alone=True)


@cause(3.0, needs=("config",), shown_ratio="computed, up to 60 % of them", side=Side.HARDWARE)
def tokens_dropped(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Full experts drop tokens, which the count has."""
    if facts.step and may_drop_tokens(facts.step):
        fewest = _with_capacity(FEWEST_KEPT)(facts.step).flops()
        yield Hypothesis(ratio=facts.step.flops() / fewest, lowest=1.0, is_alone=True)
