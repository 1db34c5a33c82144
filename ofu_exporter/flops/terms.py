"""Defines the terms whose sum is a count of FLOPs. Each is done once per token, per sequence or per pair of tokens.

A multiply-add is two FLOPs. Everything here is an integer or an exact fraction, so that a count equals another
counter's formula exactly, without a tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from math import lcm

Exact = int | Fraction
"""A whole number of FLOPs, or an exact fraction if a count was divided by tokens."""

TOKENS = "tokens"
"""The stream of tokens of a model that has only one."""


class Part(str, Enum):
    """Which part of a model a term belongs to."""

    EMBEDDING = "embedding"
    """A table that is looked up: parameters, no FLOPs."""
    PROJECTION = "projection"
    """The linear layers around an attention core, a scan or a recurrence."""
    CORE = "core"
    """QK^T and PV: products of activations, no weights."""
    SCAN = "scan"
    """The recurrence of a state-space or linear-attention layer."""
    CONVOLUTION = "convolution"
    MLP = "mlp"
    EXPERTS = "experts"
    ROUTER = "router"
    MODULATION = "modulation"
    """Linear layers of a diffusion transformer that run once per sample, on the time embedding."""
    NORM = "norm"
    """Parameters of normalisations and other vectors: no matrix product, so no FLOPs."""
    PREDICTION = "prediction"
    """The projection that joins hidden state and embedding before a multi-token-prediction layer."""
    HEAD = "head"
    """The layers that turn the last hidden state into logits, pixels or latents."""


class Per(str, Enum):
    """The unit for each of which a term is done once."""

    TOKEN = "token"
    SEQUENCE = "sequence"
    PAIR = "pair"
    """Every pair of a query and a key of one sequence that the mask lets through."""
    CROSS = "cross"
    """Every pair of a token of one stream and a token of another of the same sample."""
    JOINT = "joint"
    """Every pair of tokens of two concatenated streams."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How often a term is done: once per token, sequence or pair of a stream of tokens."""

    per: Per = Per.TOKEN
    stream: str = TOKENS
    other: str = ""
    """The second stream of CROSS (the keys) and JOINT."""
    causal: bool = False
    """PAIR: a query sees the keys up to its own position only."""
    window: int | None = None
    """PAIR: a query sees only this number of these keys, the nearest with its own; on both sides if not causal."""
    chunk: int | None = None
    """PAIR: a query sees only keys in its own chunk of this many neighbouring tokens."""
    merged: int = 1
    """TOKEN, PAIR: this many neighbouring tokens are one, on the side of the queries (patches of an image)."""
    most: int | None = None
    """PAIR: every query sees as many keys as the sequence has, but at most this many: a window, roughly (verl)."""


PER_TOKEN = Extent()
PER_SEQUENCE = Extent(Per.SEQUENCE)


@dataclass(frozen=True, slots=True)
class Linear:
    """The matrices of a linear term, whose sides change the count of adapters (LoRA)."""

    inputs: int
    outputs: int
    stored: int
    """How many such matrices the model has, over all layers and experts."""
    used: int
    """How often one unit of the extent goes through them: a token through some experts, a sample at each position."""


@dataclass(frozen=True, slots=True)
class Term:
    """One line of a count, summed over all layers that have it."""

    name: str
    part: Part
    extent: Extent = PER_TOKEN
    flops: int = 0
    """FLOPs of one forward pass per unit of the extent."""
    parameters: int = 0
    """Weights and biases that the model stores for the term."""
    active: int = 0
    """The parameters that one token uses."""
    in_layers: bool = True
    """Whether the term is in the repeated layers, which activation recomputation runs again."""
    tower: str = "model"
    """The part of a composed model that is frozen or trained as one: `vision`, `language`, ..."""
    linear: Linear | None = None
    gradients: tuple[Exact, Exact] | None = None
    """What the gradients of its inputs and its weights cost, in forward passes; None = (1, 1), of a core (2, 0)."""

    @property
    def has_weights(self) -> bool:
        """False for products of activations. A tied head has weights, though they're stored elsewhere."""
        return self.part is not Part.CORE


def merge(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Add up terms of one name, extent and tower, and drop those that have neither FLOPs nor parameters.

    The order is that of first appearance.
    """
    alike: dict[tuple[str, Extent, str], list[Term]] = {}
    for term in terms:
        if term.flops or term.parameters:
            alike.setdefault((term.name, term.extent, term.tower), []).append(term)
    return tuple(group[0] if len(group) == 1 else _sum(group) for group in alike.values())


def _sum(terms: list[Term]) -> Term:
    return replace(
        terms[0],
        flops=sum(term.flops for term in terms),
        parameters=sum(term.parameters for term in terms),
        active=sum(term.active for term in terms),
        linear=_same_sides([term.linear for term in terms]),
    )


def _same_sides(merged: list[Linear | None]) -> Linear | None:
    linears = [linear for linear in merged if linear is not None]
    if len(linears) != len(merged) or len({(each.inputs, each.outputs) for each in linears}) != 1:
        return None
    stored, used = (sum(each.stored for each in linears), sum(each.used for each in linears))
    return replace(linears[0], stored=stored, used=used)


def total(values: Iterable[Exact]) -> Exact:
    """A sum; an integer where it is whole."""
    listed = [*values]
    rest = [value for value in listed if isinstance(value, Fraction)]
    number = sum(value for value in listed if isinstance(value, int))
    if not rest:
        return number
    common = lcm(*(value.denominator for value in rest))  # once, not at each addition
    parts = sum(value.numerator * (common // value.denominator) for value in rest)
    return whole(Fraction(number * common + parts, common))


def whole(value: Exact) -> Exact:
    """The value; an integer where it is whole."""
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value
