"""Describes a model as a family reads it: its terms, or the shape from which they follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.mixers import GroupedAttention
from ofu_exporter.flops.shapes import Decoder, Mlp
from ofu_exporter.flops.terms import TOKENS, Part, Per, Term


class NotDefined(ConfigError):
    """A convention that is not defined for a model of this kind."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The numbers of parameters of a model."""

    total: int
    active: int
    """Parameters that one token uses: all but those of the experts it isn't sent to."""
    embedding: int
    """Parameters of tables that are looked up, tokens and learned positions; a tied head is one of them."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model, as a family read it from a configuration."""

    family: str
    architecture: str
    shape: Decoder | None = None
    """Set if the model is or ends in a decoder. Named conventions count from it."""
    terms: tuple[Term, ...] = ()
    """The terms of everything that is not in the shape, in the order in which data flows."""
    towers: tuple[str, ...] = ("model",)
    """The parts that can be frozen as one. The last one follows the others, which are side by side."""
    layers: int = 0
    """How many repeated layers the model has."""
    counted: tuple[str, ...] = (TOKENS,)
    """The streams whose tokens, together, a count per token divides by."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """Length of the streams whose length the configuration fixes (patches of an image)."""
    streams: tuple[str, ...] = (TOKENS,)
    """The streams whose lengths the user gives; every sample has the first of them."""
    usual: Mapping[str, int] = field(default_factory=dict)
    """Lengths of streams that are counted where none are given (a recipe's own)."""
    merged: Mapping[str, int] = field(default_factory=dict)
    """How many neighbouring tokens of a stream are one of the sequence's (patches of an image)."""
    longest: int | None = None
    """Tokens of the longest sequence that the model is made for, by its configuration; None = not stated."""
    softmax_heads: int = 0
    """Heads of all layers together, if the model is a vision transformer."""
    notes: tuple[str, ...] = ()
    """Warnings that go with every count of this model."""


@dataclass(frozen=True, slots=True)
class Counting:
    """What the user chooses about how the terms themselves are counted."""

    causal: bool | None = None
    """True = causal, False = every pair, None = as the model attends and as the convention counts."""
    predictions: bool = False
    """Whether multi-token-prediction layers are trained."""
    padded_vocab_size: int | None = None
    """Rows of the head that are really multiplied, if a framework pads the vocabulary."""


def own_terms(model: Model, counting: Counting) -> tuple[Term, ...]:
    """Every product that the model executes. Raises ConfigError for causal attention of a model that attends in both
    directions only."""
    is_causal = model.shape is not None or any(term.extent.causal for term in model.terms)
    if counting.causal and not is_causal:
        both = f"{model.architecture} attends in both directions"
        raise ConfigError(f"causal: {both}; leave --causal out")
    terms = model.terms
    if shape := padded(model, counting):
        language, tower = shape.terms(counting.predictions), model.towers[-1]
        if tower != "model":
            language = tuple(replace(term, tower=tower) for term in language)
        terms += language
    return tuple(map(_without_mask, terms)) if counting.causal is False else terms


def decoder_only(
    model: Model,
    counting: Counting,
    convention: str,
    halved: bool | None = None,
    predictions: bool = False,
) -> Decoder:
    """The shape of a model that is a decoder and nothing else.

    `halved` is whether the convention counts half of the pairs or all by definition, `predictions` whether it counts
    multi-token prediction. Raises NotDefined for any other model, ConfigError for a choice that contradicts these.
    """
    shape = padded(model, counting)
    if shape is None or model.terms:
        raise NotDefined(f"convention {convention} is not defined for family {model.family}")
    if halved is not None and counting.causal not in (None, halved):
        does = "halves attention" if halved else "counts full attention"
        raise ConfigError(f"causal: convention {convention} {does} by definition")
    if counting.predictions and not predictions:
        does = "does not count multi-token prediction"
        raise ConfigError(f"predictions: convention {convention} {does}")
    return shape


def dense_decoder(model: Model, counting: Counting, convention: str) -> Decoder:
    """The shape of a decoder with attention and an MLP in every layer. Raises NotDefined for any other."""
    shape = decoder_only(model, counting, convention)
    if counting.causal is not None:
        raise ConfigError(f"causal: convention {convention} fixes what it counts of attention")
    for layer in shape.layers:
        if not isinstance(layer.mixer, GroupedAttention) or not isinstance(layer.feed_forward, Mlp):
            raise NotDefined(
                f"convention {convention} is defined for dense decoders, which {model.architecture} is not"
            )
    return shape


def dense_widths(shape: Decoder) -> tuple[int, int, int]:
    """Widths of the queries, of the keys and of all matrices of the MLPs of a dense decoder, over its layers."""
    mixers, blocks = shape.mixers(GroupedAttention), shape.feed_forwards(Mlp)
    wide, keys = sum(each.query_dim for each in mixers), sum(each.key_dim for each in mixers)
    return wide, keys, sum(block.matrices * block.width for block in blocks)


def _without_mask(term: Term) -> Term:
    if term.extent.per is not Per.PAIR:
        return term
    return replace(term, extent=replace(term.extent, causal=False, window=None, chunk=None))


def padded(model: Model, counting: Counting) -> Decoder | None:
    """The shape with the vocabulary that is really multiplied. Raises ConfigError for one below the real vocabulary,
    and for predictions that the model lacks."""
    shape, rows = model.shape, counting.padded_vocab_size
    if counting.predictions and (shape is None or not shape.predictions):
        raise ConfigError("predictions: the configuration names no multi-token-prediction layer")
    if rows is None:
        return shape
    if shape is None or shape.labels is not None:
        raise ConfigError(f"padded_vocab_size: {model.architecture} has no vocabulary to pad")
    if rows < shape.vocab:
        raise ConfigError(f"padded_vocab_size: {rows} is below vocab_size {shape.vocab}")
    return replace(shape, vocab=rows)


def parameters(terms: Sequence[Term]) -> Parameters:
    """Parameters that a model stores, from its own terms."""
    return Parameters(
        total=sum(term.parameters for term in terms),
        active=sum(term.active for term in terms),
        embedding=sum(term.parameters for term in terms if term.part is Part.EMBEDDING),
    )
