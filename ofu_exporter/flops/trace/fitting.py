"""Fits the FLOPs of a model over the lengths of its inputs, and verifies them at lengths that were not fitted.

What a model executes is a polynomial of its lengths: constant, per token, per pair of tokens. So a few executions
determine every coefficient exactly, as fractions. A model whose count is none, because it pads or cuts into chunks,
shows at the lengths that were not fitted, and its recipe says by how much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import gcd, isqrt, prod

from sympy import Matrix

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.recipes import SAMPLES, Fit
from ofu_exporter.flops.trace.execution import Executed
from ofu_exporter.flops.trace.grouping import Group, groups

LengthOf = Mapping[str, int]
RunModel = Callable[[LengthOf], Executed]
NUMBERS = {"images"}
"""Streams that are numbers of equal things: what they cost is in proportion to them."""
SQUARES = {"image", "latent"}
"""Streams that are patches of a square."""
FIXED = {"frames"}
SHORTER = ((1, 2, 3, 4), (4, 5, 6, 8), (12, 13, 14, 16))
"""Lengths that are tried, in shares of the last: two to fit, one to verify."""
STEP = 256
"""Lengths are kept multiples of as much of this as the given length is: the chunks of scans, windows."""


@dataclass(frozen=True)
class Variation:
    """The lengths of one stream that are executed beside the given one."""

    stream: str
    fitted: tuple[int, ...]
    verified: int


@dataclass
class Fitted:
    """The polynomial of each group, by its factors, and how it was found."""

    at: Executed
    lengths: dict[str, int]
    fixed: dict[str, int]
    polynomials: dict[Group, dict[str, Fraction]]
    fit: Fit
    warnings: tuple[str, ...]
    """Those of all executions: masks of long texts have no values, those of short ones may hide nothing."""


def fitted(run: RunModel, lengths: LengthOf, samples: int = 1) -> Fitted:
    """The polynomials of what `run` executes of some samples, through the given lengths of each.

    Raises what `run` raises at these.
    """
    once = cache(lambda key: run(dict(key)))

    def runs(at: LengthOf) -> Executed:
        return once(tuple(sorted(each for each in at.items() if each[1])))

    full = dict(lengths)
    whole = runs(full)
    variations = [each for name in full if (each := _variation(runs, full, name)) is not None]
    shorter = {each: runs({**full, each.stream: each.fitted[0]}) for each in variations}
    of_whole = groups(whole.recorder)
    varied = [each for each in variations if groups(shorter[each].recorder) != of_whole]
    named = {each.stream for each in varied}
    unused = {each.stream for each in variations} - named
    factors = _factors(varied)
    points = [*_points(varied, full)]
    counts = [groups(runs(point).recorder) for point in points]
    everything = dict.fromkeys(group for count in counts for group in count)
    inverse = Matrix([[_value(factor, point) for factor in factors] for point in points]).inv()
    polynomials = {
        group: _polynomial(factors, inverse, [count.get(group, 0) for count in counts])
        for group in everything
    }
    verified_at = {**full, **{each.stream: each.verified for each in varied}}
    verified = runs(verified_at)
    # Each activation is computed once, of the experts that were chosen.
    needed = verified.flops - verified.recorder.recomputed - verified.recorder.unchosen
    fit = Fit(
        fitted_at=tuple({name: point[name] for name in sorted(named)} for point in points),
        verified_at={name: verified_at[name] for name in sorted(named)} if named else None,
        executed_flops=round(Fraction(needed, samples)),
        recipe_flops=round(_both_passes(polynomials, verified_at) / samples),
    )
    lengths = {name: full[name] for name in full if name in named}
    fixed = {name: full[name] for name in full if name not in named | unused}
    counted = (*map(runs, points), verified)
    warnings = tuple(dict.fromkeys(text for each in counted for text in each.warnings))
    return Fitted(whole, lengths, fixed, polynomials, fit, warnings)


def _variation(runs: RunModel, full: LengthOf, stream: str) -> Variation | None:
    """Shorter lengths of a stream at which the model runs; None where there are none."""
    if stream in FIXED or not full[stream]:
        return None
    for candidate in _candidates(full, stream):
        try:
            for length in (*candidate.fitted, candidate.verified):
                runs({**full, stream: length})
        except ConfigError:
            continue
        return candidate
    return None


def _candidates(full: LengthOf, stream: str) -> Iterator[Variation]:
    number = full[stream]
    if stream in NUMBERS:
        yield Variation(stream, (number + 1,), number + 2)  # without any, some layers do not run
        yield Variation(stream, (number - 1,), number + 1)
        yield Variation(stream, (number - 1,), number)
        return
    frames = full.get("frames", 1) if stream == "latent" else 1
    side = isqrt(number // frames) if stream in SQUARES else number
    if stream in SQUARES and side**2 * frames != number:
        return
    step = gcd(side, STEP)
    for *shares, whole in SHORTER:
        for rounded in dict.fromkeys((step, min(step, 8), 1)):
            tried = [side * share // whole // rounded * rounded for share in shares]
            if len({*tried, side, 0}) == len(tried) + 2:
                sizes = [frames * each**2 if stream in SQUARES else each for each in tried]
                yield Variation(stream, (sizes[0], sizes[1]), sizes[2])


def _factors(varied: list[Variation]) -> list[str]:
    names = [each.stream for each in varied]
    squared = [name for name in names if name not in NUMBERS]
    both = [f"{one}*{other}" for one, other in combinations(names, 2)]
    return [SAMPLES, *names, *(f"{name}*{name}" for name in squared), *both]


def _points(varied: list[Variation], full: LengthOf) -> Iterator[dict[str, int]]:
    yield dict(full)
    for each in varied:
        for length in each.fitted:
            yield {**full, each.stream: length}
    for one, other in combinations(varied, 2):
        yield {**full, one.stream: one.fitted[-1], other.stream: other.fitted[-1]}


def _value(factor: str, lengths: LengthOf) -> int:
    return 1 if factor == SAMPLES else prod(lengths[name] for name in factor.split("*"))


def _polynomial(factors: list[str], inverse: Matrix, counts: list[int]) -> dict[str, Fraction]:
    values = (Fraction(int(value.p), int(value.q)) for value in inverse * Matrix(counts))
    return {factor: value for factor, value in zip(factors, values, strict=True) if value}


def _both_passes(
    polynomials: Mapping[Group, Mapping[str, Fraction]], lengths: LengthOf
) -> Fraction:
    terms = (
        value * _value(factor, lengths) * (1 + sum(group.gradients))
        for group, polynomial in polynomials.items()
        for factor, value in polynomial.items()
    )
    return sum(terms, Fraction())
