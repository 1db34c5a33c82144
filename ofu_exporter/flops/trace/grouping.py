"""Groups the products that torch executed into the terms of a recipe: those of one name that are counted alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from ofu_exporter.flops.recipes import Matrix, RecipeTerm
from ofu_exporter.flops.terms import Part
from ofu_exporter.flops.trace.recorder import CONVOLUTION_NAMES, Recorder, TracedProduct

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
    is_routed: bool = False
    matrix: tuple[int, int] | None = None
    is_causal: bool = False
    window: int | None = None
    chunk: int | None = None
    gradients: tuple[Fraction, Fraction] = (Fraction(1), Fraction(1))


def groups(products: Iterable[TracedProduct]) -> dict[Group, int]:
    """FLOPs of the forward pass of each group."""
    members: Counter[Group] = Counter()
    for each in products:
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
        product.is_causal,
        product.window,
        product.chunk,
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


@dataclass
class Accounts:
    """Gives each parameter of a model to one term."""

    recorder: Recorder
    tokens: Fraction
    """Tokens of the recorded batch, by which the active parameters are known."""
    is_composed: bool
    """Whether the model has towers beside a language model."""

    def __post_init__(self) -> None:
        self._left = dict(self.recorder.parameters)
        self._members: dict[Group, list[TracedProduct]] = {}
        for each in self.recorder.products:
            self._members.setdefault(group_of(each), []).append(each)

    def terms(self, polynomials: dict[Group, dict[str, Fraction]]) -> Iterator[RecipeTerm]:
        """The terms of a recipe: tables, the groups, and parameters that no product has."""
        looked_up = self._taken(self.recorder.looked_up)
        yield from self._without_products(TABLES, Part.EMBEDDING, looked_up)
        for group, polynomial in polynomials.items():
            yield self._term(group, polynomial)
        yield from self._without_products(REST, Part.NORM, self._taken({*self._left}))

    def _taken(self, storages: set[int]) -> int:
        return sum(self._left.pop(each).numel() for each in storages & self._left.keys())

    def _without_products(self, name: str, part: Part, number: int) -> Iterator[RecipeTerm]:
        if number:
            tower = self._tower(LANGUAGE)
            yield RecipeTerm(
                name=name, part=part.value, tower=tower, parameters=number, active=number
            )

    def _tower(self, name: str) -> str:
        return name if self.is_composed else "model"

    def _term(self, group: Group, polynomial: dict[str, Fraction]) -> RecipeTerm:
        members = self._members.get(group, [])
        stored = self._taken({each.weights.storage for each in members if each.weights})
        used = int(sum(each.flops for each in members) / 2 / self.tokens)
        is_paired = any("*" in factor for factor in polynomial)
        return RecipeTerm(
            name=group.name,
            part=part_of(group, polynomial).value,
            tower=self._tower(group.tower),
            in_layers=group.in_layers,
            forward={factor: exactly(value) for factor, value in polynomial.items()},
            gradients=(exactly(group.gradients[0]), exactly(group.gradients[1])),
            causal=group.is_causal and is_paired,
            window=group.window if is_paired else None,
            chunk=group.chunk if is_paired else None,
            parameters=stored,
            active=min(stored, used) if group.is_routed else stored,
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
