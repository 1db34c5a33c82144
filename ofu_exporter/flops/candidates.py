"""Tries the causes of a difference alone and in pairs, and measures how far the ratio that each gives is off.

A distance between a ratio and what was observed is in standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from ofu_exporter.flops.causes import CauseFacts, Hypothesis, MfuCause, Side, causes

COUNTED = 0.01
"""The relative error of an MFU that is computed from a throughput."""
CLOCK = 0.006
"""The relative error of NVML's clock, and with it of OFU, in most windows (docs/hardware.md)."""
DIGITS = 0.0005
"""Its absolute error: jobs report three digits after the decimal point."""
PAIR = 1.0
"""Rarity that a second cause adds in addition to its own."""
RAREST_PAIR = 5.5
"""Pairs rarer than this are not tried: with enough pairs, one would fit anything."""
NEGLIGIBLE = 0.001
"""A mistake that changes an MFU by less than this share explains nothing."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio, or a range of them."""

    low: float = 1.0
    high: float = 1.0

    def times(self, other: Ratio) -> Ratio:
        return Ratio(self.low * other.low, self.high * other.high)

    def nearest(self, value: float) -> float:
        return min(max(value, self.low), self.high)


def off_report(reported: float, right: float, ratio: Ratio) -> float:
    """How far a reported MFU is from the right one times a ratio."""
    expected = right * ratio.nearest(reported / right)
    return abs(reported - expected) / math.hypot(COUNTED * expected, DIGITS)


def off_hardware(mfu: float, ofu: float, standard_error: float, ratio: Ratio) -> float:
    """How far OFU is from the OFU that follows from an MFU and a ratio.

    The error is known for OFU itself. The error of a ratio is not symmetric, and has no bound if OFU is close to 0.
    So the two are compared as OFU.
    """
    expected = min(max(ofu, mfu / ratio.high), mfu / ratio.low)
    error = math.hypot(standard_error, expected * CLOCK)
    return abs(ofu - expected) / max(error, 1e-12)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One cause or two together, and how well they fit."""

    cause: str
    """The cause's slug; for two causes `one+other`, the one that changes the ratio more comes first."""
    expected_ratio: float
    """Reported MFU over OFU if this were the cause, without what real training always runs (`training.real_work`)."""
    report_ratio: float
    """Reported MFU over the right one."""
    misfit: float
    """Standard errors between the expected and the observed ratio."""
    evidence: str
    rarity: float
    """-ln of how often the cause occurs, an estimate: 1 is common, 5 is rare."""

    @property
    def score(self) -> float:
        """Orders the candidates: the smaller, the likelier."""
        return self.misfit**2 / 2 + self.rarity

    @property
    def causes(self) -> tuple[str, ...]:
        """The slugs of the causes, one by one."""
        return tuple(self.cause.split("+"))


@dataclass(frozen=True, slots=True)
class TriedCause:
    cause: MfuCause
    hypothesis: Hypothesis
    ratio: Ratio

    @property
    def rarity(self) -> float:
        rarity = self.hypothesis.rarity
        return self.cause.rarity if rarity is None else rarity


@dataclass(frozen=True, slots=True)
class Combination:
    """One cause or two together, before they are judged."""

    tried: tuple[TriedCause, ...]
    report: Ratio
    """Reported MFU over the right one."""
    hardware: Ratio
    """The right MFU over OFU."""

    @property
    def rarity(self) -> float:
        return sum(part.rarity for part in self.tried) + PAIR * (len(self.tried) - 1)

    def candidate(self, observed: float, misfit: float, mfu: float) -> Candidate:
        """The candidate with its misfit; `observed` is the ratio that it explains, as a logarithm."""
        value, ratio = math.exp(observed), self.report.times(self.hardware)
        order = sorted(self.tried, key=lambda part: -abs(math.log(part.ratio.nearest(value))))
        evidence = "; and ".join(part.hypothesis.evidence or part.cause.meaning for part in order)
        if self.report.low == self.report.high != 1:
            evidence += f"; corrected MFU: {mfu / self.report.low:.2%}"
        return Candidate(
            "+".join(part.cause.slug for part in order),
            ratio.nearest(value),
            self.report.nearest(value),
            misfit,
            evidence,
            self.rarity,
        )


@lru_cache(8)  # a job that is asked about again has other numbers and the same facts
def tried(facts: CauseFacts) -> tuple[tuple[Combination, ...], tuple[Combination, ...]]:
    """Every hypothesis alone, and every pair of them."""
    singles = tuple(alone(facts))
    return singles, tuple(_pairs(facts, singles))


def alone(facts: CauseFacts) -> Iterator[Combination]:
    """Every hypothesis that the facts allow, with its ratio."""
    right = facts.step.flops() if facts.step else 1.0
    for cause in causes():
        for hypothesis in cause.hypotheses(facts):
            most = hypothesis.ratio
            ratio = Ratio(min(most, hypothesis.lowest or most), most)
            if hypothesis.miscount and facts.step:
                value = hypothesis.miscount(facts.step).flops() / right
                ratio = Ratio(value, value)
            if ratio.high > 0 and abs(ratio.low - 1) + abs(ratio.high - 1) > NEGLIGIBLE:
                ratios = {Side.REPORT: Ratio(), Side.HARDWARE: Ratio(), cause.side: ratio}
                yield Combination((TriedCause(cause, hypothesis, ratio),), *ratios.values())


def _pairs(facts: CauseFacts, singles: Iterable[Combination]) -> Iterator[Combination]:
    """Every pair of causes, except pairs that are too rare or cannot both be true."""
    right = facts.step.flops() if facts.step else 1.0
    parts = [one for one in singles if not one.tried[0].hypothesis.is_alone]
    parts = [one for one in parts if one.rarity + PAIR <= RAREST_PAIR]
    for one, other in combinations(parts, 2):
        (first,), (second,) = one.tried, other.tried
        ours, theirs = first.hypothesis, second.hypothesis
        is_rare = first.rarity + second.rarity + PAIR > RAREST_PAIR
        if is_rare or first.cause is second.cause or ours.contradicts(theirs):
            continue
        report = one.report.times(other.report)
        if ours.miscount and theirs.miscount and facts.step:  # which do not multiply
            value = theirs.miscount(ours.miscount(facts.step)).flops() / right
            report = Ratio(value, value)
        yield Combination((first, second), report, one.hardware.times(other.hardware))


def best_of_each(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The best of each cause or pair, best first."""
    best: dict[frozenset[str], Candidate] = {}
    for each in sorted(candidates, key=lambda each: each.score):
        best.setdefault(frozenset(each.causes), each)
    return list(best.values())
