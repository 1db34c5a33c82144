"""Reads a recipe: the FLOPs of a model that was executed once, as terms that any lengths can be counted from.

`flops CONFIG --executed --save FILE` writes one (`trace/fitting.py`), and a count needs no torch. A recipe is a
configuration like any other: wherever a config.json is read, a recipe may stand. Its text may come from anybody, so
every number in it has a bound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import lcm, prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationError,
    model_validator,
)

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.modules import SAMPLE
from ofu_exporter.flops.terms import Extent, Linear, Part, Per, Term
from ofu_exporter.support.whole_file import whole_file

VERSION = 1
KEY = "recipe_version"
"""The field by which a recipe is told from a config.json."""
COUNTED = (("tokens",), ("source", "target"), ("latent",), ("image",), ("audio",))
"""The streams that a count per token divides by, as closed forms do: the first of these that a sample has."""
SAMPLES = "1"
"""The factor of what is done once per sample, however long it is."""
LARGEST = 10**30
LONGEST = 1 << 31
MOST_TERMS, MOST_FACTORS, MOST_PASSES = 512, 16, 100
MOST_IN_ALL = 1000
"""Most factors of all terms together: each is a product in every count, and an explanation counts many times.
The largest recipe that comes with this package has 42."""
MOST_BITS = 8192
"""The longest common denominator of all fractions: that of 270 with nine digits, to which a fit is rounded. The time of
a sum grows with its square."""

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\w.:+/<>() -]+$")]
StreamName = Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,31}$")]
Per_ = Annotated[str, Field(pattern=r"^(1|[a-z][a-z_]{0,31}(\*[a-z][a-z_]{0,31})?)$")]
Length = Annotated[StrictInt, Field(ge=0, le=LONGEST)]
Lengths_ = Annotated[dict[StreamName, Length], Field(max_length=8)]
Whole = Annotated[StrictInt, Field(ge=0, le=LARGEST)]
Signed = Annotated[StrictInt, Field(ge=-LARGEST, le=LARGEST)]
SHARE = re.compile(r"-?[0-9]{1,30}/[1-9][0-9]{0,11}", re.ASCII)
ShareText = Annotated[str, Field(pattern=f"^{SHARE.pattern}$")]


def _exactly(value: object) -> object:
    """Refuse what is neither in one sentence; the union alone has one for each."""
    is_whole = type(value) is int and abs(value) <= LARGEST
    if not is_whole and not (isinstance(value, str) and SHARE.fullmatch(value)):
        most = f"{LARGEST:.0e}"
        raise ValueError(f'is neither a whole number up to {most} nor a fraction such as "3/4"')
    return value


Exactly = Annotated[Signed | ShareText, BeforeValidator(_exactly)]
"""A whole number, or an exact fraction such as "3/4"."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Matrix(_Strict):
    """The sides of the matrices of a term, and how many of them the model has."""

    inputs: Annotated[StrictInt, Field(ge=1, le=LONGEST)]
    outputs: Annotated[StrictInt, Field(ge=1, le=LONGEST)]
    stored: Annotated[StrictInt, Field(ge=0, le=LONGEST)]


class RecipeTerm(_Strict):
    """Products of one kind in modules of one name."""

    name: Name
    part: Literal[tuple(part.value for part in Part)]  # type: ignore[valid-type]
    tower: Name = "model"
    in_layers: StrictBool = False
    forward: Annotated[dict[Per_, Exactly], Field(max_length=MOST_FACTORS)] = {}
    """FLOPs of a forward pass: per sample ("1"), per token, per pair ("tokens*tokens")."""
    gradients: tuple[Exactly, Exactly] = (1, 1)
    """FLOPs of the gradients of its inputs and of its weights, in forward passes."""
    causal: StrictBool = False
    """Whether a query sees only the keys before it. `forward` has every pair."""
    window: Annotated[StrictInt, Field(ge=1, le=LONGEST)] | None = None
    """How many keys a query sees, its own with them: before it if causal, else half of them on either side."""
    chunk: Annotated[StrictInt, Field(ge=1, le=LONGEST)] | None = None
    """A query sees only the keys among this many neighbours."""
    parameters: Whole = 0
    active: Whole = 0
    """Parameters that one token uses."""
    matrix: Matrix | None = None


class Fit(_Strict):
    """How exactly the terms give what was executed."""

    fitted_at: Annotated[tuple[Lengths_, ...], Field(max_length=64)]
    verified_at: Lengths_ | None
    """Lengths that were executed and not fitted; null where nothing varies."""
    executed_flops: Whole
    recipe_flops: Whole
    """Forward and backward with every pair, at `verified_at`."""


class Recipe(_Strict):
    """A model that was executed, ready to be counted."""

    recipe_version: Literal[1]
    architecture: Name
    made_with: Annotated[dict[Name, Name], Field(max_length=16)]
    """Versions of the libraries."""
    lengths: Lengths_
    """The streams of a sample, and the lengths that are counted where none are given."""
    fixed: Lengths_ = {}
    """What else the model was executed with, which cannot be changed."""
    towers: Annotated[tuple[Name, ...], Field(min_length=1, max_length=16)] = ("model",)
    layers: Annotated[StrictInt, Field(ge=0, le=100_000)] = 0
    trained_parameters: Whole
    terms: Annotated[tuple[RecipeTerm, ...], Field(min_length=1, max_length=MOST_TERMS)]
    fit: Fit
    notes: Annotated[tuple[Annotated[str, Field(max_length=400)], ...], Field(max_length=32)] = ()

    @model_validator(mode="before")
    @classmethod
    def _is_of_this_version(cls, value: Any) -> Any:
        version = value.get(KEY) if isinstance(value, Mapping) else VERSION
        if type(version) is not int or version != VERSION:
            what = f"{str(version)[:40]!r} cannot be read here; this version reads {VERSION}"
            raise ValueError(f"{KEY}: {what}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _is_soon_counted(cls, value: Any) -> Any:
        """Before its terms are looked at one by one, which takes the longest."""
        terms = value.get("terms") if isinstance(value, Mapping) else None
        listed = terms if isinstance(terms, list | tuple) else ()
        factors = [term.get("forward") for term in listed if isinstance(term, Mapping)]
        number = sum(max(len(each), 1) if isinstance(each, Mapping) else 1 for each in factors)
        if number > MOST_IN_ALL:
            raise ValueError(f"terms: {number} factors in all, more than {MOST_IN_ALL}")
        return value

    @model_validator(mode="after")
    def _has_what_it_names(self) -> Recipe:
        for term in self.terms:
            if term.tower not in self.towers:
                raise ValueError(f"term {term.name}: tower {term.tower} is not in towers")
            streams = {name for per in term.forward for name in per.split("*")} - {SAMPLES}
            if unknown := sorted(streams - self.lengths.keys()):
                raise ValueError(f"term {term.name}: stream {unknown[0]} is not in lengths")
            costs = [*map(Fraction, term.gradients)]
            if min(costs) < 0:
                raise ValueError(f"term {term.name}: a gradient costs less than nothing")
            if max(costs) > MOST_PASSES:
                most = f"{MOST_PASSES} forward passes"
                raise ValueError(f"term {term.name}: a gradient costs more than {most}")
        return self

    @model_validator(mode="after")
    def _can_be_summed(self) -> Recipe:
        """A single coefficient may be below 0: a convolution without padding has fewer outputs than inputs."""
        common = 1
        for term in self.terms:
            values = {per: Fraction(value) for per, value in term.forward.items()}
            for value in (*values.values(), *map(Fraction, term.gradients)):
                common = lcm(common, value.denominator)
                if common.bit_length() > MOST_BITS:
                    raise ValueError("terms: the common denominator of the fractions is too long")
            if sum(value * self._units(per) for per, value in values.items()) <= -1:
                raise ValueError(
                    f"term {term.name}: its FLOPs are below 0 at the recipe's own lengths"
                )
        return self

    def _units(self, per: str) -> int:
        """How many units a factor has at the recipe's own lengths."""
        return 1 if per == SAMPLES else prod(self.lengths[name] for name in per.split("*"))

    def text(self) -> str:
        """The recipe as it is kept: JSON, a term a line."""
        fields = self.model_dump(mode="json", exclude_defaults=True)
        terms = ",\n".join("  " + json.dumps(term) for term in fields.pop("terms"))
        head = "".join(f" {json.dumps(name)}: {json.dumps(fields[name])},\n" for name in fields)
        return f'{{\n{head} "terms": [\n{terms}\n ]\n}}\n'

    def save(self, path: str | Path) -> None:
        """Write the recipe to a file. An earlier one stays where the disk is full. Raises OSError."""
        path = Path(path)
        if path.exists() and not path.is_file():  # /dev/stdout must not be replaced
            path.write_text(self.text(), encoding="utf-8")
            return
        with whole_file(path) as file:
            file.write(self.text())

    def report(self) -> dict[str, Any]:
        """The model as a job reports it: `Reporter(model=recipe.report())`."""
        return {"recipe": self.model_dump(mode="json", exclude_defaults=True)}

    def model(self) -> Model:
        """The model, to count as one of a family."""
        streams = next((names for names in COUNTED if self.lengths.keys() & {*names}), ())
        counted = tuple(name for name in streams if name in self.lengths) or (SAMPLE,)
        return Model(
            "recipe",
            self.architecture,
            terms=tuple(part for term in self.terms for part in _parts(term, counted[0])),
            towers=self.towers,
            layers=self.layers,
            counted=counted,
            lengths={SAMPLE: 1} if counted == (SAMPLE,) else {},
            streams=tuple(self.lengths),
            usual=self.lengths,
            notes=tuple(self._warnings()),
        )

    def _warnings(self) -> Iterator[str]:
        fit = self.fit
        if fit.executed_flops != fit.recipe_flops:
            off = fit.recipe_flops / max(fit.executed_flops, 1) - 1
            at = ", ".join(f"{name}={length}" for name, length in (fit.verified_at or {}).items())
            yield f"the recipe is not exact: {off:+.3%} of what was executed at {at}"
        if self.fixed:
            lengths = ", ".join(f"{name}={length}" for name, length in self.fixed.items())
            yield f"the recipe holds for {lengths} alone"
        yield from self.notes


def tokens_of(lengths: Mapping[str, int]) -> int:
    """The tokens of a sample that a count per token divides by; 0 where it has none."""
    return next(filter(None, (sum(lengths.get(name, 0) for name in names) for names in COUNTED)), 0)


def _parts(term: RecipeTerm, main: str) -> Iterator[Term]:
    """The term once for each factor; the first has its parameters."""
    inputs, weights = (Fraction(value) for value in term.gradients)
    parameters, active = term.parameters, term.active
    for per, value in term.forward.items() or [(SAMPLES, 0)]:
        flops = Fraction(value)
        yield Term(
            term.name,
            Part(term.part),
            _extent(term, per, flops.denominator, main),
            flops.numerator,
            parameters,
            active,
            term.in_layers,
            term.tower,
            _linear(term.matrix, flops),
            (inputs, weights),
        )
        parameters = active = 0


def _extent(term: RecipeTerm, per: str, merged: int, main: str) -> Extent:
    one, _, other = per.partition("*")
    if per == SAMPLES:
        return Extent(Per.SEQUENCE, main)
    if not other:
        return Extent(Per.TOKEN, one, merged=merged)
    if one != other:
        return Extent(Per.CROSS, one, other, merged=merged)
    causal, window, chunk = term.causal, term.window, term.chunk
    return Extent(Per.PAIR, one, causal=causal, window=window, chunk=chunk, merged=merged)


def _linear(matrix: Matrix | None, flops: Fraction) -> Linear | None:
    if matrix is None:
        return None
    used = flops.numerator / Fraction(2 * matrix.inputs * matrix.outputs)
    if used.denominator != 1 or used < 0:
        return None
    return Linear(matrix.inputs, matrix.outputs, matrix.stored, int(used))


def read(config: Mapping[str, Any]) -> Recipe:
    """The recipe in a mapping. Raises ConfigError, which names the field that cannot be used."""
    try:
        return Recipe.model_validate(config)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")[:200]
        raise ConfigError(f"{where[:200]}: {message}" if where else message) from error
