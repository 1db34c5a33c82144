"""Ranks the causes that may have made a reported MFU differ from OFU, by how well they reproduce the ratio.

Every cause that the facts allow is tried alone, and with one other. A fit is judged by the measurement error alone;
the order of those that fit is that of chi^2/2 + rarity, which prefers what is common and simple where numbers
cannot tell. An order is no probability: `Explanation.tied` says how many the numbers cannot tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.causes import Cause, CauseFacts, Hypothesis, Side, causes
from ofu_exporter.ofu import divergence
from ofu_exporter.ofu.divergence import Divergence, Thresholds

POINT = 0.01
"""The standard error of OFU where none is given."""
FITS = 2.5
"""Standard errors that an expected ratio may be away from the observed one."""
TILES = (0.01, 0.006)
"""Mean and standard deviation of what tiles add to any job: 0 to 2 points."""
TILES_KNOWN = 0.002
COUNTED = 0.01
"""The error of an MFU that is computed from a throughput, which jobs report with two or three digits."""
PAIR = 1.0
"""What a second cause costs beside its own rarity."""
RAREST_PAIR = 5.5
"""Pairs rarer than this are not tried: with enough pairs, one fits anything."""
SHOWN = 10
ALIKE = 2.0
"""Candidates whose chi^2 is not this much worse than the first one's are not told apart by the numbers."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was reported and measured over the same seconds, as ratios."""

    mfu: float
    ofu: float
    standard_error: float = POINT
    """Of OFU."""
    right_mfu: float | None = None
    """What the report should have been, where throughput, model and GPUs are known."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One cause or two together, and how well they fit."""

    cause: str
    """The slug; of two, the one that moves the ratio more stands first: `one+other`."""
    expected_ratio: float
    """Reported MFU over OFU if it were so, before the point or two that tiles always take."""
    misfit: float
    """Standard errors between the expected and the observed ratio."""
    evidence: str
    score: float

    @property
    def causes(self) -> tuple[str, ...]:
        """The slugs by themselves."""
        return tuple(self.cause.split("+"))


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether two numbers disagree, and why perhaps."""

    observed_ratio: float
    divergence: Divergence
    causes: tuple[Candidate, ...]
    """Those that fit, likeliest first."""
    tied: int
    """How many of them the numbers can't tell from the first one, itself included; 0 where none fits."""
    untried: tuple[tuple[str, str], ...]
    """Causes that were not tried, and the facts that they need."""
    looked: bool
    """Whether there was anything to explain."""


@dataclass(frozen=True, slots=True)
class _Ratio:
    """A ratio, or a range of them."""

    low: float = 1.0
    high: float = 1.0

    def times(self, other: _Ratio) -> _Ratio:
        return _Ratio(self.low * other.low, self.high * other.high)

    def nearest(self, value: float) -> float:
        return min(max(value, self.low), self.high)


@dataclass(frozen=True, slots=True)
class _Tried:
    cause: Cause
    hypothesis: Hypothesis
    ratio: _Ratio

    @property
    def rarity(self) -> float:
        own = self.hypothesis.rarity
        return self.cause.rarity if own is None else own


@dataclass(frozen=True, slots=True)
class _Combined:
    tried: tuple[_Tried, ...]
    report: _Ratio = field(default_factory=_Ratio)
    hardware: _Ratio = field(default_factory=_Ratio)

    @property
    def rarity(self) -> float:
        return sum(one.rarity for one in self.tried) + PAIR * (len(self.tried) - 1)


def explain(
    observation: Observation,
    facts: CauseFacts | None = None,
    *,
    verdict: Divergence | None = None,
    thresholds: Thresholds = divergence.DEFAULT,
) -> Explanation:
    """Find what may have made an MFU differ from OFU. `verdict`: the comparison, where it is made already.

    Raises ConfigError for numbers that are none, and facts that contradict each other.
    """
    facts = facts or CauseFacts()
    of = observation
    compared = verdict or divergence.compare(
        of.mfu, of.ofu, standard_error=of.standard_error, thresholds=thresholds
    )
    ratio = _ratio(of)
    miscounted = of.right_mfu is not None and abs(math.log(of.mfu / of.right_mfu)) > FITS * COUNTED
    looked = compared.verdict.diverged or miscounted
    found = _ranked(of, facts) if looked else []
    return Explanation(ratio, compared, tuple(found[:SHOWN]), _tied(found), _untried(facts), looked)


def of_report(reported: float, right: float, facts: CauseFacts) -> list[Candidate]:
    """Single causes of a reported MFU that is not the right one, likeliest first; OFU has no part in it.

    Raises ConfigError when a ratio isn't above 0.
    """
    for name, value in (("reported_mfu", reported), ("mfu", right)):
        if not math.isfinite(value) or value <= 0:
            raise ConfigError(f"{name}: {value!r} is not a number above 0")
    observed = math.log(reported / right)
    if abs(observed) <= COUNTED:
        return []
    found = []
    for one in _tried(facts):
        misfit = _distance(observed, one.ratio, COUNTED)
        if one.cause.side is Side.REPORT and misfit <= 1:
            found.append(_candidate(_one(one), observed, misfit, reported))
    return _one_each(sorted(found, key=lambda each: each.score))


def _ratio(of: Observation) -> float:
    for name, value in (("mfu", of.mfu), ("ofu", of.ofu)):
        if value == 0:
            raise ConfigError(f"{name}: 0 has no ratio to anything that could be explained")
    return of.mfu / of.ofu


def _tried(facts: CauseFacts) -> Iterator[_Tried]:
    """Every hypothesis that the facts allow, with its ratio."""
    right = facts.job.flops() if facts.job else 1.0
    for cause in causes():
        for found in cause.hypotheses(facts):
            ratio = _Ratio(min(found.ratio, found.lowest or found.ratio), found.ratio)
            if found.miscount and facts.job:
                value = found.miscount(facts.job).flops() / right
                ratio = _Ratio(value, value)
            if ratio.high > 0 and not ratio.low == ratio.high == 1:
                yield _Tried(cause, found, ratio)


def _alone(facts: CauseFacts) -> list[_Combined]:
    return [_one(tried) for tried in _tried(facts)]


def _pairs(facts: CauseFacts, alone: Sequence[_Combined]) -> Iterator[_Combined]:
    """Every cause with one other, but for pairs that are too rare."""
    right = facts.job.flops() if facts.job else 1.0
    for one, other in combinations(alone, 2):
        both = _Combined((*one.tried, *other.tried))
        slugs = {each.cause.slug for each in both.tried}
        if len(slugs) == 2 and both.rarity <= RAREST_PAIR:
            yield _together(facts, right, one, other)


def _together(facts: CauseFacts, right: float, one: _Combined, other: _Combined) -> _Combined:
    """Two mistakes of one count are counted together; everything else multiplies."""
    tried = (*one.tried, *other.tried)
    first, second = (each.hypothesis.miscount for each in tried)
    if first and second and facts.job:
        value = second(first(facts.job)).flops() / right
        return _Combined(tried, report=_Ratio(value, value))
    return _Combined(tried, one.report.times(other.report), one.hardware.times(other.hardware))


def _one(one: _Tried) -> _Combined:
    if one.cause.side is Side.REPORT:
        return _Combined((one,), report=one.ratio)
    return _Combined((one,), hardware=one.ratio)


def _ranked(of: Observation, facts: CauseFacts) -> list[Candidate]:
    alone = _alone(facts)
    singles = {each.cause: each for each in _judged(of, facts, alone)}
    pairs = [
        pair
        for pair in _judged(of, facts, _pairs(facts, alone))
        # What one cause explains needs no second one.
        if all(pair.score < singles[slug].score for slug in pair.causes if slug in singles)
    ]
    return _one_each(sorted([*singles.values(), *pairs], key=lambda each: each.score))


def _judged(of: Observation, facts: CauseFacts, tried: Iterable[_Combined]) -> list[Candidate]:
    """Those that fit, best first; of each cause or pair the best."""
    found = []
    for each in tried:
        misfit = _misfit(of, facts, each)
        if misfit <= FITS:
            found.append(_candidate(each, math.log(of.mfu / of.ofu), misfit, of.mfu))
    return _one_each(sorted(found, key=lambda each: each.score))


def _misfit(of: Observation, facts: CauseFacts, each: _Combined) -> float:
    """Standard errors: of one ratio, or where the right MFU is known, of the report's and the hardware's."""
    shift, spread = _tiles(facts, each)
    error = math.hypot(of.standard_error / of.ofu, spread)
    if of.right_mfu is None:
        whole = each.report.times(each.hardware)
        return _distance(math.log(of.mfu / of.ofu) + shift, whole, error)
    return math.hypot(
        _distance(math.log(of.mfu / of.right_mfu), each.report, COUNTED),
        _distance(math.log(of.right_mfu / of.ofu) + shift, each.hardware, error),
    )


def _tiles(facts: CauseFacts, each: _Combined) -> tuple[float, float]:
    """What tiles take from the ratio, as logarithm, and how sure that is."""
    if any(one.cause.slug == "tile_quantization" for one in each.tried):
        return 0.0, TILES_KNOWN
    if facts.tile_overhead is None:
        return TILES
    known = math.log1p(facts.tile_overhead)
    if facts.tile_overhead_bound == "lower":
        return max(known, TILES[0]), TILES[1]
    return known, TILES_KNOWN


def _distance(observed: float, expected: _Ratio, error: float) -> float:
    value = math.exp(observed)
    return abs(math.log(value / expected.nearest(value))) / max(error, 1e-9)


def _candidate(each: _Combined, observed: float, misfit: float, mfu: float) -> Candidate:
    value = math.exp(observed)
    ratio = each.report.times(each.hardware)
    order = sorted(each.tried, key=lambda one: -abs(math.log(one.ratio.nearest(value))))
    evidence = "; and ".join(one.hypothesis.evidence for one in order)
    if each.report.low == each.report.high != 1:
        evidence += f"; put right, MFU is {mfu / each.report.low:.2%}"
    return Candidate(
        "+".join(one.cause.slug for one in order),
        ratio.nearest(value),
        misfit,
        evidence,
        misfit**2 / 2 + each.rarity,
    )


def _one_each(found: Sequence[Candidate]) -> list[Candidate]:
    """The best of each cause or pair, in the given order."""
    best: dict[frozenset[str], Candidate] = {}
    for each in found:
        best.setdefault(frozenset(each.causes), each)
    return list(best.values())


def _tied(found: Sequence[Candidate]) -> int:
    if not found:
        return 0
    limit = found[0].misfit ** 2 + ALIKE
    return sum(each.misfit**2 <= limit for each in found)


def _untried(facts: CauseFacts) -> tuple[tuple[str, str], ...]:
    job = facts.job
    given = {
        "config": job is not None,
        "gpu": facts.gpu is not None,
        "precision": facts.precision is not None,
        "padded_to": facts.executed is not None,
        "lengths": job is not None and len(job.lengths.samples) > 1,
    }
    found = []
    for cause in causes():
        missing = [need for need in cause.needs if not given[need]]
        # Padding and packs are facts of few jobs; only what every job has is asked for.
        if missing and not {*missing} & {"padded_to", "lengths"}:
            found.append((cause.slug, ", ".join(missing)))
    return tuple(found)
