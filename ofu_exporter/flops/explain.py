"""Ranks the causes that may have made a reported MFU differ from OFU, by how well they reproduce the ratio.

Every cause that the facts allow is tried alone and together with one other. Whether it fits depends only on the
measurement error. Causes that fit are sorted by chi^2/2 + rarity, which prefers common and simple ones if the numbers
cannot tell. The order is not a probability: `Explanation.tied` says how many causes the numbers cannot tell apart,
and `Explanation.telling` which facts can. Some numbers no mistake in a report can make: an OFU of almost 0, one above
what the card can do, and one against the throughput. For these there is advice instead.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import candidates, observations
from ofu_exporter.flops.candidates import (
    FITS,
    FITS_BOTH,
    RAREST_PAIR,
    Candidate,
    Combination,
    RatioRange,
)
from ofu_exporter.flops.causes import CauseFacts, MfuCause, Side, causes
from ofu_exporter.flops.causes.peaks import GIVEN_PEAK
from ofu_exporter.flops.causes.training import real_work, tile_quantization, with_whole_packs
from ofu_exporter.flops.contradictions import contradiction, wrong_peak
from ofu_exporter.flops.mfu import above_zero
from ofu_exporter.flops.observations import POINT, Observation, honest
from ofu_exporter.ofu.divergence import Divergence
from ofu_exporter.values.reported import UNDECIDED, best_fitting, fits_as_well

__all__ = ["UNDECIDED", "POINT", "Explanation", "Observation", "causes_of_report", "explain"]

SHOWN = 10
FEW_JOBS_HAVE = ("lora_rank", "repeats", "padded_to", "lengths")
"""Facts of which most jobs have none: whether they have them is asked for, and not the facts."""
THROUGHPUT = "tokens_per_second"
NEEDED_BY_THROUGHPUT = ("config", "gpu", "gpus", "precision")
TWINS = 0.01
UNTRIED_FIT = 0.1
"""How likely it is that a cause which needs the configuration fits a ratio near 1."""
UNTRIED_ABOVE, UNTRIED_BELOW = 0.5, 0.25
"""How fast that falls with the logarithm of the ratio: few counts are several times too high, fewer too low."""
BESIDES = 1.3
"""What a pair with something that the hardware runs is less rare than its score says: every third job recomputes."""
APART = 0.02
"""A throughput tells reports apart that differ by more than this share."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether reported MFU and OFU disagree, and what may have caused it."""

    observed_ratio: float | None
    """None where OFU is 0."""
    divergence: Divergence
    causes: tuple[Candidate, ...]
    """The causes that fit, likeliest first."""
    tied: int
    """How many causes fit as well as the one that fits best: the numbers can't tell these apart. 0 if none fits."""
    untried: tuple[tuple[str, str], ...]
    """Causes that were not tried, and the facts that they need: facts that every job has."""
    telling: tuple[str, ...]
    """Facts that were not given and can tell the tied causes apart, by the names of their options."""
    looked: bool
    """Whether there was anything to explain."""
    advice: str
    """What to check if no mistake in the report explains the divergence; "" otherwise."""
    of_few: tuple[tuple[str, str], ...] = ()
    """The same of jobs with adapters, repeats, padding or packs, if this is one."""


def explain(
    observation: Observation, facts: CauseFacts | None = None, *, verdict: Divergence | None = None
) -> Explanation:
    """Find what may have made an MFU differ from OFU. `verdict` is the verdict of an existing comparison.

    Raises ConfigError for impossible numbers, and for facts that contradict each other.
    """
    facts = with_whole_packs(facts or CauseFacts())
    mfu, ofu, right = observation.mfu, observation.ofu, observation.right_mfu
    compared = verdict or observations.compared(observation, facts)
    if mfu == 0:
        raise ConfigError("mfu: 0 has no ratio that could be explained")
    ratio = mfu / ofu if ofu else None
    is_impossible, advice = contradiction(observation, compared, facts)
    if is_impossible:
        return Explanation(ratio, compared, (), 0, (), (), True, advice)
    is_miscounted = right is not None and candidates.off_report(mfu, right, RatioRange()) > FITS
    peak = wrong_peak(mfu, facts)
    looked = compared.verdict.diverged or is_miscounted or bool(advice) or bool(peak)
    ranked = _ranked(observation, facts) if looked else []
    tied = best_fitting(ranked)
    is_given = {**_given(facts), THROUGHPUT: right is not None}
    if right is None and len(ranked) > 1 and not _is_decided(ranked, math.log(mfu / ofu), is_given):
        ranked = [_undecided(ranked, mfu / ofu), *ranked]
    return Explanation(
        ratio,
        compared,
        tuple(ranked[:SHOWN]),
        len(tied),
        _untried(is_given, of_few=False),
        _telling(tied, is_given) if len(tied) > 1 else (),
        looked,
        "" if ranked else peak or advice,
        _untried(is_given, of_few=True) if is_given["config"] else (),
    )


def causes_of_report(reported: float, right: float, facts: CauseFacts) -> list[Candidate]:
    """Single causes of a reported MFU that is not the right one, likeliest first. OFU is not used.

    Raises ConfigError when a ratio isn't above 0.
    """
    above_zero("reported_mfu", reported)
    above_zero("mfu", right)
    observed = math.log(reported / right)
    if candidates.off_report(reported, right, RatioRange()) <= 1:
        return []
    of_report = (
        each for each in candidates.alone(facts) if each.tried[0].cause.side is Side.REPORT
    )
    judged = ((each, candidates.off_report(reported, right, each.report)) for each in of_report)
    return candidates.best_of_each(
        each.candidate(observed, misfit, reported) for each, misfit in judged if misfit <= 1
    )


def _ranked(observation: Observation, facts: CauseFacts) -> list[Candidate]:
    alone, pairs = candidates.tried(facts)
    singles = {each.cause: each for each in _judged(observation, facts, alone)}
    if observation.right_mfu is None and (stated := _as_stated(singles.values())):
        return stated  # what the job says of itself explains it, and nothing is to blame
    together = [
        pair
        for pair in _judged(observation, facts, pairs)
        # A pair has to explain more than each of its causes alone.
        if all(pair.score < singles[slug].score for slug in pair.causes if slug in singles)
    ]
    return sorted([*singles.values(), *together], key=lambda each: _place(each, singles.values()))


def _as_stated(singles: Collection[Candidate]) -> list[Candidate]:
    """What the hardware runs, if one of it is stated and fits; [] otherwise."""
    hardware = [each for each in singles if _sides()[each.cause] is Side.HARDWARE]
    is_stated = any(each.rarity == 0 and each.misfit <= 1 for each in hardware)
    return sorted(hardware, key=lambda each: each.score) if is_stated else []


@cache
def _sides() -> Mapping[str, Side]:
    return {each.slug: each.side for each in causes()}


def _is_decided(ranked: Sequence[Candidate], observed: float, is_given: Mapping[str, bool]) -> bool:
    """Whether the first cause blames no report, or is likelier than all others together, as far as rarities say.

    Causes that correct the MFU to the same number count as one. Those that need the configuration may fit too.
    """
    first = ranked[0]
    if all(_sides()[slug] is Side.HARDWARE for slug in first.causes):
        return True
    same = [each for each in ranked if abs(each.report_ratio / first.report_ratio - 1) <= TWINS]
    others = math.fsum(_weight(each) for each in ranked if each not in same)
    if not is_given["config"]:
        spread = UNTRIED_ABOVE if observed > 0 else UNTRIED_BELOW
        fitting = UNTRIED_FIT * math.exp(-abs(observed) / spread)
        others += fitting * math.fsum(
            math.exp(-each.rarity) for each in causes() if _needs_config(each)
        )
    return math.fsum(map(_weight, same)) > others


def _weight(each: Candidate) -> float:
    """How likely a cause is beside others. What the hardware runs besides a mistake is no second mistake."""
    sides = {_sides()[slug] for slug in each.causes}
    return math.exp(BESIDES * (len(sides) > 1) - each.score)


def _needs_config(cause: MfuCause) -> bool:
    return "config" in cause.needs and not {*FEW_JOBS_HAVE} & {*cause.needs}


def _undecided(ranked: Sequence[Candidate], observed: float) -> Candidate:
    """What stands first where no cause may be named: it blames nobody."""
    evidence = f"{len(ranked)} causes fit, and none is likelier than the others together: tokens per second would tell"
    return Candidate(UNDECIDED, observed, 1.0, 0.0, evidence, ranked[0].score)


def _place(each: Candidate, singles: Collection[Candidate]) -> float:
    """The score. A pair ranks after every single cause that fits as well, unless that is rarer than any pair."""
    if len(each.causes) == 1:
        return each.score
    as_good = (one for one in singles if fits_as_well(one, each))
    ahead = (one.score for one in as_good if one.score - one.misfit**2 / 2 <= RAREST_PAIR)
    return max([each.score, *(math.nextafter(score, math.inf) for score in ahead)])


def _judged(
    observation: Observation, facts: CauseFacts, tried: Iterable[Combination]
) -> list[Candidate]:
    """The candidates that fit, best first; only the best of each cause or pair."""
    limit = FITS if observation.right_mfu is None else FITS_BOTH
    observed = math.log(observation.mfu / observation.ofu)
    possible = (each for each in tried if _is_possible(observation, facts, each))
    # Otherwise the corrected MFU would be against a peak that is known to be wrong.
    if wrong_peak(observation.mfu, facts):
        possible = (
            one for one in possible if any(GIVEN_PEAK in each.hypothesis.says for each in one.tried)
        )
    judged = ((each, *_misfit(observation, facts, each)) for each in possible)
    return candidates.best_of_each(
        each.candidate(observed, misfit, observation.mfu)
        for each, off, misfit in judged
        if off <= limit
    )


def _is_possible(observation: Observation, facts: CauseFacts, each: Combination) -> bool:
    """Whether a cause changes the ratio towards the observed one, and corrects the MFU to one that OFU allows."""
    mfu, ofu = observation.mfu, observation.ofu
    whole = each.report.times(each.hardware)
    if each.needs_right and observation.right_mfu is None:
        return False
    if mfu > ofu and whole.high <= 1:
        return False
    if mfu < ofu * honest(facts).low and whole.low >= 1:
        return False
    corrected, errors = mfu / each.report.high, 0.0 if observation.right_mfu is None else FITS_BOTH
    dropped = each.hardware.high  # tokens that a right MFU has, and the hardware does not
    return corrected <= min(1.0, (ofu + errors * observation.standard_error) * max(dropped, 1.0))


def _misfit(observation: Observation, facts: CauseFacts, each: Combination) -> tuple[float, float]:
    """Standard errors between expected and observed OFU; with a right MFU, of the report and of OFU together.

    The first number says whether a cause fits, the second how likely it is.
    """
    mfu, right, ran = observation.mfu, observation.right_mfu, each.hardware
    if all(part.cause is not tile_quantization for part in each.tried):
        ran = ran.times(RatioRange(*real_work(facts)))
    measured = (observation.ofu, observation.standard_error)
    if right is None:
        off = candidates.off_hardware(mfu, *measured, each.report.times(ran))
        return off, off
    hardware = candidates.off_hardware(right, *measured, ran)
    report = candidates.off_report(mfu, right, each.report)
    misfit = candidates.misfit_of_report(mfu, right, each.report)
    return math.hypot(report, hardware), math.hypot(misfit, hardware)


def _given(facts: CauseFacts) -> dict[str, bool]:
    step = facts.step
    return {
        "config": step is not None,
        "gpu": facts.gpu is not None,
        "gpus": facts.gpus is not None,
        "precision": facts.precision is not None,
        "peak_tflops": facts.peak_flops is not None,
        "recompute": facts.recompute is not None,
        "training": facts.forward_only is not None,
        "accumulation": facts.accumulation is not None,
        "lora_rank": step is not None and bool(step.passes.lora or step.passes.frozen),
        "repeats": step is not None and step.passes.repeats > 1,
        "padded_to": facts.executed is not None,
        "lengths": step is not None and len(step.lengths.samples) > 1,
        "pack_length": facts.pack_length is not None,
        "tile_overhead": facts.tile_overhead is not None,
    }


def _untried(is_given: Mapping[str, bool], of_few: bool) -> tuple[tuple[str, str], ...]:
    missing = ((each.slug, [n for n in each.needs if not is_given[n]]) for each in causes())
    named = (
        (slug, needs) for slug, needs in missing if bool({*FEW_JOBS_HAVE} & {*needs}) is of_few
    )
    return tuple((slug, ", ".join(needs)) for slug, needs in named if needs)


def _telling(tied: Sequence[Candidate], is_given: Mapping[str, bool]) -> tuple[str, ...]:
    """A fact that settles some of the tied causes and not all, and a throughput if the right MFUs differ."""
    settled_by = {each.slug: {*each.settled_by} for each in causes()}
    of_each = [{name for slug in each.causes for name in settled_by[slug]} for each in tied]
    named = set[str]().union(*of_each)
    some = named - named.intersection(*of_each)
    reports = [each.report_ratio for each in tied]
    if max(reports) / min(reports) > 1 + APART and not is_given[THROUGHPUT]:
        some |= {*NEEDED_BY_THROUGHPUT, THROUGHPUT}
    return tuple(name for name in is_given if name in some and not is_given[name])
