"""Ranks the causes that may have made a reported MFU differ from OFU, by how well they reproduce the ratio.

Every cause that the facts allow is tried alone and together with one other. Whether it fits depends only on the
measurement error. Causes that fit are sorted by chi^2/2 + rarity, which prefers common and simple ones if the numbers
cannot tell. The order is not a probability: `Explanation.tied` says how many causes the numbers cannot tell apart,
and `Explanation.telling` which facts can.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import contradictions, misfit, open_facts
from ofu_exporter.flops.causes import CauseFacts, Hypothesis, MfuCause, Side, causes
from ofu_exporter.flops.causes.tiles import real_work, tile_quantization
from ofu_exporter.flops.misfit import Ratio
from ofu_exporter.flops.open_facts import Tied
from ofu_exporter.ofu import divergence
from ofu_exporter.ofu.divergence import Divergence, Thresholds
from ofu_exporter.values.reported import Verdict

POINT = 0.01
"""The standard error of OFU if none is given."""
FITS = 2.5
"""Most standard errors between an expected ratio that fits and the observed one."""
FITS_BOTH = 2.96
"""The same for report and OFU together, if the right MFU is known: two errors exceed it as seldom as one the former."""
PAIR = 1.0
"""Rarity that a second cause adds in addition to its own."""
RAREST_PAIR = 5.5
"""Pairs rarer than this are not tried: with enough pairs, one would fit anything."""
SHOWN = 10
ALIKE = 2.0
"""A candidate counts as tied with the first one unless its chi^2 is worse by this much."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The reported MFU and the measured OFU of the same seconds."""

    mfu: float
    ofu: float
    standard_error: float = POINT
    """Standard error of OFU."""
    right_mfu: float | None = None
    """The MFU that the report should have, if throughput, model and GPUs are known."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One cause or two together, and how well they fit."""

    cause: str
    """The cause's slug; for two causes `one+other`, the one that changes the ratio more comes first."""
    expected_ratio: float
    """Reported MFU over OFU if this were the cause, without what real training always runs (`tiles.real_work`)."""
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
class Explanation:
    """Whether reported MFU and OFU disagree, and what may have caused it."""

    observed_ratio: float | None
    """None where OFU is 0."""
    divergence: Divergence
    causes: tuple[Candidate, ...]
    """The causes that fit, likeliest first."""
    tied: int
    """How many causes the numbers can't tell from the first, including the first; 0 if none fits."""
    untried: tuple[tuple[str, str], ...]
    """Causes that were not tried, and the facts that they need."""
    telling: tuple[str, ...]
    """Facts that were not given and can tell the tied causes apart, by the names of their options."""
    looked: bool
    """Whether there was anything to explain."""
    advice: str = ""
    """What to check if no mistake in the report explains the divergence; "" otherwise."""


NEGLIGIBLE = 0.001
"""A mistake that changes an MFU by less than this share explains nothing."""


@dataclass(frozen=True, slots=True)
class _Tried:
    cause: MfuCause
    hypothesis: Hypothesis
    ratio: Ratio

    @property
    def rarity(self) -> float:
        rarity = self.hypothesis.rarity
        return self.cause.rarity if rarity is None else rarity


@dataclass(frozen=True, slots=True)
class _Combined:
    tried: tuple[_Tried, ...]
    together: Ratio | None = None
    """The ratio of two mistakes of one count, which do not multiply."""

    @property
    def rarity(self) -> float:
        return sum(one.rarity for one in self.tried) + PAIR * (len(self.tried) - 1)

    @property
    def report(self) -> Ratio:
        """Reported MFU over the right one."""
        return self.together or self._product(Side.REPORT)

    @property
    def hardware(self) -> Ratio:
        """The right MFU over OFU."""
        return self._product(Side.HARDWARE)

    def _product(self, side: Side) -> Ratio:
        ratios = (one.ratio for one in self.tried if one.cause.side is side)
        return reduce(Ratio.times, ratios, Ratio())


def explain(
    observation: Observation,
    facts: CauseFacts | None = None,
    *,
    verdict: Divergence | None = None,
    thresholds: Thresholds = divergence.DEFAULT,
) -> Explanation:
    """Find what may have made an MFU differ from OFU. `verdict` is the verdict of an existing comparison.

    Raises ConfigError for impossible numbers, and for facts that contradict each other.
    """
    facts = facts or CauseFacts()
    error = observation.standard_error
    compared = verdict or divergence.compare(
        observation.mfu, observation.ofu, standard_error=error, thresholds=thresholds
    )
    if observation.mfu == 0:
        raise ConfigError("mfu: 0 has no ratio that could be explained")
    ratio = observation.mfu / observation.ofu if observation.ofu else None
    is_impossible, advice = _contradiction(observation, compared, thresholds, facts)
    if is_impossible:
        return Explanation(ratio, compared, (), 0, (), (), True, advice)
    looked = compared.verdict.diverged or _is_miscounted(observation) or bool(advice)
    ranked = _ranked(observation, facts) if looked else []
    best = ranked[0].misfit ** 2 if ranked else 0.0
    tied = sum(each.misfit**2 <= best + ALIKE for each in ranked)
    ties = [Tied(each.causes, each.report_ratio) for each in ranked[:tied]]
    return Explanation(
        ratio,
        compared,
        tuple(ranked[:SHOWN]),
        tied,
        open_facts.untried(facts),
        open_facts.telling(ties, facts, observation.right_mfu),
        looked,
        "" if ranked else advice,
    )


def _contradiction(
    observation: Observation, compared: Divergence, thresholds: Thresholds, facts: CauseFacts
) -> tuple[bool, str]:
    """Whether no mistake in the report can be the cause, and what to check."""
    ofu, error, right = observation.ofu, observation.standard_error, observation.right_mfu
    if impossible := contradictions.above_the_card(ofu, error, facts.row()):
        return True, impossible
    if nothing := contradictions.almost_no_ofu(compared, ofu, error):
        return True, nothing
    if right is None or compared.verdict is Verdict.INSUFFICIENT_DATA:
        return ofu == 0, ""
    return contradictions.against_throughput(right, ofu, error, thresholds)


def _is_miscounted(observation: Observation) -> bool:
    """Whether the reported MFU differs from the one that follows from the throughput."""
    right = observation.right_mfu
    return right is not None and misfit.of_report(observation.mfu, right, Ratio()) > FITS


def causes_of_report(reported: float, right: float, facts: CauseFacts) -> list[Candidate]:
    """Single causes of a reported MFU that is not the right one, likeliest first. OFU is not used.

    Raises ConfigError when a ratio isn't above 0.
    """
    for name, value in (("reported_mfu", reported), ("mfu", right)):
        if not math.isfinite(value) or value <= 0:
            raise ConfigError(f"{name}: {value!r} is not a number above 0")
    observed = math.log(reported / right)
    if misfit.of_report(reported, right, Ratio()) <= 1:
        return []
    of_report = (each for each in _alone(facts) if each.tried[0].cause.side is Side.REPORT)
    judged = ((each, misfit.of_report(reported, right, each.report)) for each in of_report)
    fitting = (_candidate(each, observed, off, reported) for each, off in judged if off <= 1)
    return _best_of_each(fitting)


def _alone(facts: CauseFacts) -> Iterator[_Combined]:
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
                yield _Combined((_Tried(cause, hypothesis, ratio),))


def _pairs(facts: CauseFacts, alone: Sequence[_Combined]) -> Iterator[_Combined]:
    """Every pair of causes, except pairs that are too rare or cannot both be true."""
    right = facts.step.flops() if facts.step else 1.0
    tried = [each for one in alone for each in one.tried if each.rarity + PAIR <= RAREST_PAIR]
    for first, second in combinations(tried, 2):
        both = _Combined((first, second))
        if both.rarity > RAREST_PAIR or first.cause is second.cause:
            continue
        if not first.hypothesis.contradicts(second.hypothesis):
            change, more = first.hypothesis.miscount, second.hypothesis.miscount
            if change and more and facts.step:
                value = more(change(facts.step)).flops() / right
                both = replace(both, together=Ratio(value, value))
            yield both


def _ranked(observation: Observation, facts: CauseFacts) -> list[Candidate]:
    alone = [*_alone(facts)]
    singles = {each.cause: each for each in _judged(observation, facts, alone)}
    pairs = [
        pair
        for pair in _judged(observation, facts, _pairs(facts, alone))
        # A pair has to explain more than each of its causes alone.
        if all(pair.score < singles[slug].score for slug in pair.causes if slug in singles)
    ]
    return sorted([*singles.values(), *pairs], key=lambda each: _place(each, singles.values()))


def _place(each: Candidate, singles: Collection[Candidate]) -> float:
    """The score. A pair ranks after every single cause that fits as well, unless that is rarer than any pair."""
    if len(each.causes) == 1:
        return each.score
    as_good = (one for one in singles if one.misfit**2 <= each.misfit**2 + ALIKE)
    ahead = (one.score for one in as_good if one.score - one.misfit**2 / 2 <= RAREST_PAIR)
    return max([each.score, *(math.nextafter(score, math.inf) for score in ahead)])


def _judged(
    observation: Observation, facts: CauseFacts, tried: Iterable[_Combined]
) -> list[Candidate]:
    """The candidates that fit, best first; only the best of each cause or pair."""
    limit = FITS if observation.right_mfu is None else FITS_BOTH
    observed = math.log(observation.mfu / observation.ofu)
    # Otherwise the corrected MFU would be above 100 %.
    possible = (each for each in tried if observation.mfu <= each.report.high)
    judged = ((each, _misfit(observation, facts, each)) for each in possible)
    return _best_of_each(
        _candidate(each, observed, off, observation.mfu) for each, off in judged if off <= limit
    )


def _misfit(observation: Observation, facts: CauseFacts, each: _Combined) -> float:
    """Standard errors between expected and observed OFU; with a right MFU, of the report and of OFU together."""
    right, ran = observation.right_mfu, each.hardware
    if all(one.cause is not tile_quantization for one in each.tried):
        ran = ran.times(Ratio(*real_work(facts)))
    ofu_and_error = (observation.ofu, observation.standard_error)
    if right is None:
        return misfit.of_hardware(observation.mfu, ofu_and_error, each.report.times(ran))
    report = misfit.of_report(observation.mfu, right, each.report)
    return math.hypot(report, misfit.of_hardware(right, ofu_and_error, ran))


def _candidate(each: _Combined, observed: float, off: float, mfu: float) -> Candidate:
    value = math.exp(observed)
    ratio = each.report.times(each.hardware)
    order = sorted(each.tried, key=lambda one: -abs(math.log(one.ratio.nearest(value))))
    evidence = "; and ".join(one.hypothesis.evidence or one.cause.meaning for one in order)
    if each.report.low == each.report.high != 1:
        evidence += f"; corrected MFU: {mfu / each.report.low:.2%}"
    return Candidate(
        "+".join(one.cause.slug for one in order),
        ratio.nearest(value),
        each.report.nearest(value),
        off,
        evidence,
        each.rarity,
    )


def _best_of_each(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The best of each cause or pair, best first."""
    best: dict[frozenset[str], Candidate] = {}
    for each in sorted(candidates, key=lambda each: each.score):
        best.setdefault(frozenset(each.causes), each)
    return list(best.values())
