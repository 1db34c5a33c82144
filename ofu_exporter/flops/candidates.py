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

FITS = 2.5
"""Most standard errors between an expected ratio that fits and the observed one."""
FITS_BOTH = 2.96
"""The same for report and OFU together, if the right MFU is known: two errors exceed it as seldom as one the former."""
COUNTED = 0.01
"""The relative error of an MFU that is computed from a throughput of other seconds, or by a slightly other formula."""
SAME_LINE = 0.0015
"""The same of one that comes from the same line of a log: throughputs have four digits."""
OF_ONE_LINE = 0.6
"""The share of reports that do."""
CLOCK = 0.006
"""The relative error of NVML's clock, and with it of OFU, in most windows (docs/hardware.md)."""
DIGITS = 0.0005
"""Its absolute error: jobs report three digits after the decimal point."""
PAIR = 1.0
"""Rarity that a second cause adds in addition to its own."""
RAREST_PAIR = 5.5
"""Pairs rarer than this are not tried: with enough pairs, one would fit anything."""
RAREST_COUNT = 4.5
"""The same of two mistakes in one count, of which each pair is counted."""
NEVER = 9.0
"""The same of a mistake in the report and work of the hardware, if the right MFU tells them apart."""
NEGLIGIBLE = 0.001
"""A mistake that changes an MFU by less than this share explains nothing."""


@dataclass(frozen=True, slots=True)
class RatioRange:
    """A ratio, or a range of them."""

    low: float = 1.0
    high: float = 1.0

    def times(self, other: RatioRange) -> RatioRange:
        return RatioRange(self.low * other.low, self.high * other.high)

    def nearest(self, value: float) -> float:
        return min(max(value, self.low), self.high)


def off_report(reported: float, right: float, ratio: RatioRange) -> float:
    """How far a reported MFU is from the right one times a ratio."""
    expected = right * ratio.nearest(reported / right)
    return abs(reported - expected) / math.hypot(COUNTED * expected, DIGITS)


def misfit_of_report(reported: float, right: float, ratio: RatioRange) -> float:
    """The same as `off_report` for the order of causes: most reports are much closer than the others.

    A mixture of two normal distributions has no standard error; this is the number of those that a single one would be
    off to be as unlikely.
    """
    expected = right * ratio.nearest(reported / right)
    off, likely, most = abs(reported - expected), 0.0, 0.0
    for share, error in ((OF_ONE_LINE, SAME_LINE), (1 - OF_ONE_LINE, COUNTED)):
        deviation = math.hypot(error * expected, DIGITS)
        likely += share / deviation * math.exp(-((off / deviation) ** 2) / 2)
        most += share / deviation
    return math.sqrt(-2 * math.log(max(likely / most, 1e-300)))


def off_hardware(mfu: float, ofu: float, standard_error: float, ratio: RatioRange) -> float:
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
    ratio: RatioRange

    @property
    def rarity(self) -> float:
        rarity = self.hypothesis.rarity
        return self.cause.rarity if rarity is None else rarity


@dataclass(frozen=True, slots=True)
class Combination:
    """One cause or two together, before they are judged."""

    tried: tuple[TriedCause, ...]
    report: RatioRange
    """Reported MFU over the right one."""
    hardware: RatioRange
    """The right MFU over OFU."""
    needs_right: bool = False
    """Whether it is tried only if the right MFU is known, and with it each of the two ratios."""

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
            ratio = RatioRange(min(most, hypothesis.lowest or most), most)
            if hypothesis.miscount and facts.step:
                value = hypothesis.miscount(facts.step).flops() / right
                ratio = RatioRange(value, value)
            if ratio.high > 0 and abs(ratio.low - 1) + abs(ratio.high - 1) > NEGLIGIBLE:
                ratios = {Side.REPORT: RatioRange(), Side.HARDWARE: RatioRange(), cause.side: ratio}
                yield Combination(
                    (TriedCause(cause, hypothesis, ratio),),
                    ratios[Side.REPORT],
                    ratios[Side.HARDWARE],
                )


def _pairs(facts: CauseFacts, singles: Iterable[Combination]) -> Iterator[Combination]:
    """Every pair of causes, except pairs that are too rare or cannot both be true."""
    right = facts.step.flops() if facts.step else 1.0
    alone = [(one, one.tried[0], one.rarity) for one in singles]
    for (one, first, rarity_of_one), (other, second, rarity_of_other) in combinations(alone, 2):
        if (rarity := rarity_of_one + rarity_of_other + PAIR) >= NEVER:
            continue
        ours, theirs = first.hypothesis, second.hypothesis
        are_counts = bool(ours.miscount and theirs.miscount)
        rarest = RAREST_COUNT if are_counts else RAREST_PAIR
        is_rare = rarity > rarest or ours.is_alone or theirs.is_alone
        needs_right = is_rare and first.cause.side is not second.cause.side
        if is_rare and not needs_right:
            continue
        if first.cause is second.cause or ours.contradicts(theirs):
            continue
        report = one.report.times(other.report)
        if are_counts and ours.miscount and theirs.miscount and facts.step:
            # Two mistakes in one count do not multiply.
            value = theirs.miscount(ours.miscount(facts.step)).flops() / right
            report = RatioRange(value, value)
        both = one.hardware.times(other.hardware)
        yield Combination((first, second), report, both, needs_right)


def best_of_each(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The best of each cause or pair, best first."""
    best: dict[frozenset[str], Candidate] = {}
    for each in sorted(candidates, key=lambda each: each.score):
        best.setdefault(frozenset(each.causes), each)
    return list(best.values())
