"""Groups the products that torch executed into the terms of a recipe: those of one name that are counted alike."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from ofu_exporter.flops.recipes import Matrix, RecipeTerm
from ofu_exporter.flops.terms import Part
from ofu_exporter.flops.trace.recorder import (
    CONVOLUTION_NAMES,
    EVERY_PAIR,
    Mask,
    Recorder,
    TracedProduct,
)

TOWERS = {
    "vision": re.compile(r"vision|visual|image|pixel|vit\b"),
    "sound": re.compile(r"audio|speech|sound|whisper"),
}
HEADS = re.compile(r"head|classif|score|embed_out|proj_out|predictions|logits|output_layer")
MLPS = re.compile(r"mlp|ffn|feed_forward|feedforward|intermediate|fc[12]\b|\bff\b|h_to_4h|4h_to_h")
ROUTERS = re.compile(r"router|\bgate$")
LANGUAGE = "language"
REST, TABLES = "norms and biases", "tables"


@dataclass(frozen=True)
class Group:
    """What the products of one term have in common."""

    name: str
    tower: str
    in_layers: bool
    operator: str
    has_weights: bool
    is_routed: bool
    matrix: tuple[int, int] | None
    mask: Mask
    gradients: tuple[Fraction, Fraction]


def groups(recorder: Recorder) -> dict[Group, int]:
    """FLOPs of the forward pass of each group."""
    members: Counter[Group] = Counter()
    for each in recorder.products:
        members[group_of(each)] += each.flops
    return dict(members)


def group_of(product: TracedProduct) -> Group:
    names = [part for part in product.module.split(".") if part]
    backward = Fraction(product.backward, product.flops)
    weights = Fraction(int(product.is_trained and backward >= 1))
    return Group(
        ".".join(part for part in names if not part.isdigit()) or "model",
        tower_of(product.module),
        any(part.isdigit() for part in names),
        "convolution" if product.operator in CONVOLUTION_NAMES else "product",
        product.weights is not None,
        product.weights is not None and product.weights.is_routed,
        product.matrix,
        product.mask,
        (backward - weights, weights),
    )


def tower_of(module: str) -> str:
    """The part of a composed model that a module belongs to, by its name: vision, sound or the language."""
    return next((name for name, words in TOWERS.items() if words.search(module)), LANGUAGE)


def part_of(group: Group, polynomial: dict[str, Fraction]) -> Part:
    """Which part of a model a group is, by its names and by what its count grows with."""
    if not group.has_weights:
        return Part.CORE if any("*" in per for per in polynomial) else Part.SCAN
    kinds = {
        Part.CONVOLUTION: group.operator == "convolution",
        Part.EXPERTS: group.is_routed,
        Part.ROUTER: group.in_layers and ROUTERS.search(group.name),
        Part.HEAD: not group.in_layers and HEADS.search(group.name),
        Part.MLP: MLPS.search(group.name),
        Part.MODULATION: group.in_layers and {*polynomial} == {"1"},
    }
    return next((part for part, fits in kinds.items() if fits), Part.PROJECTION)


def recipe_terms(
    recorder: Recorder,
    polynomials: Mapping[Group, dict[str, Fraction]],
    tokens: Fraction,
    is_composed: bool,
) -> Iterator[RecipeTerm]:
    """The terms of a recipe: tables, the groups, and parameters that no product has. Each parameter is in one of them.

    `tokens` are those of the recorded batch, by which the active parameters are known; `is_composed` is whether the
    model has towers beside a language model.
    """
    left = dict(recorder.parameters)
    members = defaultdict[Group, list[TracedProduct]](list)
    for each in recorder.products:
        members[group_of(each)].append(each)

    def taken(storages: set[int]) -> int:
        return sum(left.pop(each).numel() for each in storages & left.keys())

    def without_products(name: str, part: Part, storages: set[int]) -> Iterator[RecipeTerm]:
        tower = LANGUAGE if is_composed else "model"
        if number := taken(storages):
            yield RecipeTerm(
                name=name, part=part.value, tower=tower, parameters=number, active=number
            )

    yield from without_products(TABLES, Part.EMBEDDING, recorder.looked_up)
    for group, polynomial in polynomials.items():
        stored = taken({each.weights.storage for each in members[group] if each.weights})
        used = int(sum(each.flops for each in members[group]) / 2 / tokens)
        active = min(stored, used) if group.is_routed else stored
        tower = group.tower if is_composed else "model"
        yield _term(group, polynomial, tower, stored, active)
    yield from without_products(REST, Part.NORM, {*left})


def _term(
    group: Group, polynomial: dict[str, Fraction], tower: str, stored: int, active: int
) -> RecipeTerm:
    """The term of a group of products, whose weights have `stored` parameters, `active` of them for a token."""
    mask = group.mask if any("*" in factor for factor in polynomial) else EVERY_PAIR
    return RecipeTerm(
        name=group.name,
        part=part_of(group, polynomial).value,
        tower=tower,
        in_layers=group.in_layers,
        forward={factor: exactly(value) for factor, value in polynomial.items()},
        gradients=(exactly(group.gradients[0]), exactly(group.gradients[1])),
        causal=mask.is_causal,
        window=mask.window,
        chunk=mask.chunk,
        parameters=stored,
        active=active,
        matrix=_matrix(group, stored),
    )


def _matrix(group: Group, stored: int) -> Matrix | None:
    if group.matrix is None or group.operator == "convolution":
        return None
    inputs, outputs = group.matrix
    return Matrix(inputs=inputs, outputs=outputs, stored=stored // (inputs * outputs))


def exactly(value: Fraction) -> int | str:
    """A fraction as a recipe writes it."""
    if value.denominator == 1:
        return value.numerator
    near = value.limit_denominator(10**9)
    return near.numerator if near.denominator == 1 else f"{near.numerator}/{near.denominator}"
