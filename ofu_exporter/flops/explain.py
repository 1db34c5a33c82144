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

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import candidates
from ofu_exporter.flops.candidates import RAREST_PAIR, Candidate, Combination, Ratio
from ofu_exporter.flops.causes import CauseFacts, Side, causes
from ofu_exporter.flops.causes.peaks import GIVEN_PEAK
from ofu_exporter.flops.causes.training import real_work, tile_quantization, with_whole_packs
from ofu_exporter.flops.mfu import SAME, above_zero
from ofu_exporter.hardware.gpu_models import GpuModel
from ofu_exporter.ofu import divergence
from ofu_exporter.ofu.divergence import Divergence
from ofu_exporter.values.reported import Verdict

POINT = 0.01
"""The standard error of OFU if none is given."""
FITS = 2.5
"""Most standard errors between an expected ratio that fits and the observed one."""
FITS_BOTH = 2.96
"""The same for report and OFU together, if the right MFU is known: two errors exceed it as seldom as one the former."""
SHOWN = 10
ALIKE = 2.0
"""A candidate counts as tied with the first one unless its chi^2 is worse by this much."""

CLEAR = 3.0
"""OFU must be above 0 by this number of standard errors before a ratio to it has a meaning."""
SMALL = 0.05
"""An OFU above this is not almost 0, unless its error is too large to tell."""
LEAST = 0.001
"""An OFU below this is almost 0, even if its error is small."""
FASTEST = 1.16
"""Highest SM clock over tensor clock of the data-center GPUs (H100 NVL); some GeForce cards have 1.28."""
MEASURED = 0.02
"""A larger standard error of OFU says nothing of what the card can do."""

FEW_JOBS_HAVE = {"padded_to", "lengths", "tile_overhead"}
"""Facts of padding, packs and tiles, which are not asked for to try a cause."""
THROUGHPUT = "tokens_per_second"
NEEDED_BY_THROUGHPUT = ("config", "gpu", "gpus", "precision")
APART = 0.02
"""A throughput tells reports apart that differ by more than this share."""


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
    """Causes that were not tried, and the facts that they need. Only facts that every job has are named."""
    telling: tuple[str, ...]
    """Facts that were not given and can tell the tied causes apart, by the names of their options."""
    looked: bool
    """Whether there was anything to explain."""
    advice: str = ""
    """What to check if no mistake in the report explains the divergence; "" otherwise."""


def explain(
    observation: Observation, facts: CauseFacts | None = None, *, verdict: Divergence | None = None
) -> Explanation:
    """Find what may have made an MFU differ from OFU. `verdict` is the verdict of an existing comparison.

    Raises ConfigError for impossible numbers, and for facts that contradict each other.
    """
    facts = with_whole_packs(facts or CauseFacts())
    mfu, ofu, right = observation.mfu, observation.ofu, observation.right_mfu
    compared = verdict or divergence.compare(mfu, ofu, standard_error=observation.standard_error)
    if mfu == 0:
        raise ConfigError("mfu: 0 has no ratio that could be explained")
    ratio = mfu / ofu if ofu else None
    is_impossible, advice = _contradiction(observation, compared, facts)
    if is_impossible:
        return Explanation(ratio, compared, (), 0, (), (), True, advice)
    is_miscounted = right is not None and candidates.off_report(mfu, right, Ratio()) > FITS
    wrong_peak = _wrong_peak(mfu, facts)
    looked = compared.verdict.diverged or is_miscounted or bool(advice) or bool(wrong_peak)
    ranked = _ranked(observation, facts) if looked else []
    best = ranked[0].misfit ** 2 if ranked else 0.0
    tied = sum(each.misfit**2 <= best + ALIKE for each in ranked)
    is_given = {**_given(facts), THROUGHPUT: right is not None}
    return Explanation(
        ratio,
        compared,
        tuple(ranked[:SHOWN]),
        tied,
        _untried(is_given),
        _telling(ranked[:tied], is_given) if tied > 1 else (),
        looked,
        "" if ranked else wrong_peak or advice,
    )


def _contradiction(
    observation: Observation, compared: Divergence, facts: CauseFacts
) -> tuple[bool, str]:
    """Whether no mistake in the report can be the cause, and what to check."""
    ofu, error, right = observation.ofu, observation.standard_error, observation.right_mfu
    if advice := _above_the_card(ofu, error, facts.row()) or _almost_no_ofu(ofu, error, compared):
        return True, advice
    if right is None or compared.verdict is Verdict.INSUFFICIENT_DATA:
        return ofu == 0, ""
    thresholds = divergence.DEFAULT
    above = max(thresholds.above, thresholds.above_relative * ofu)
    below = max(thresholds.below, thresholds.below_relative * ofu)
    ask = (
        "Are throughput, number of GPUs and configuration of this job, and OFU of all of its GPUs?"
    )
    if right - ofu > above + thresholds.standard_errors * error:
        needed = f"which needs an OFU of at least {right:.2%}"
        return True, f"OFU contradicts the throughput, {needed}. {ask}"
    if ofu - right > below:
        ran = f"the GPUs ran {ofu / right:.3g} times what the throughput needs"
        return False, f"{ran}. {ask} Is the job alone on them?"
    return False, ""


def _wrong_peak(mfu: float, facts: CauseFacts) -> str:
    """What to check if the report is known to divide by a wrong peak; "" otherwise."""
    right, given = facts.right_peak(), facts.peak_flops
    if right is None or given is None or abs(right / given - 1) <= SAME:
        return ""
    return (
        f"the report divides by {given / 1e12:,.5g} TFLOP/s, and the dense peak is {right / 1e12:,.5g}: against this "
        f"its MFU is {mfu * given / right:.2%}. No known mistake besides explains that"
    )


def _above_the_card(ofu: float, standard_error: float, row: GpuModel | None) -> str:
    """What to check if an OFU is more than the GPU can have at its highest clock; "" otherwise."""
    most = FASTEST
    if row and row.tensor_clock_hz and row.max_sm_clock_hz:
        most = max(row.max_sm_clock_hz / row.tensor_clock_hz, 1.0)
    if ofu <= most + CLEAR * min(standard_error, MEASURED):
        return ""
    card = row.key if row else "a data-center GPU"
    unnamed = "" if row else " Which GPU is it (--gpu)?"
    return (
        f"an OFU of {ofu:.0%} is impossible: {card} has at most {most:.0%}, at its highest clock.{unnamed} "
        "Is OFU divided by the tensor clock of this GPU?"
    )


def _almost_no_ofu(ofu: float, standard_error: float, compared: Divergence) -> str:
    """What to check if a job reports an MFU but its GPUs show almost none; "" otherwise."""
    if compared.verdict is not Verdict.MFU_ABOVE_OFU or ofu > max(CLEAR * standard_error, LEAST):
        return ""
    if ofu > SMALL:
        return "the error of OFU is so large that OFU may be 0: compare over a longer time"
    return (
        "the GPUs did almost nothing, and no mistake in a count explains that. Is OFU that of the job's own GPUs and "
        "nodes? Did the job run in these seconds? Does the tensor counter count? `ofu-exporter check` says"
    )


def causes_of_report(reported: float, right: float, facts: CauseFacts) -> list[Candidate]:
    """Single causes of a reported MFU that is not the right one, likeliest first. OFU is not used.

    Raises ConfigError when a ratio isn't above 0.
    """
    above_zero("reported_mfu", reported)
    above_zero("mfu", right)
    observed = math.log(reported / right)
    if candidates.off_report(reported, right, Ratio()) <= 1:
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
    together = [
        pair
        for pair in _judged(observation, facts, pairs)
        # A pair has to explain more than each of its causes alone.
        if all(pair.score < singles[slug].score for slug in pair.causes if slug in singles)
    ]
    return sorted([*singles.values(), *together], key=lambda each: _place(each, singles.values()))


def _place(each: Candidate, singles: Collection[Candidate]) -> float:
    """The score. A pair ranks after every single cause that fits as well, unless that is rarer than any pair."""
    if len(each.causes) == 1:
        return each.score
    as_good = (one for one in singles if one.misfit**2 <= each.misfit**2 + ALIKE)
    ahead = (one.score for one in as_good if one.score - one.misfit**2 / 2 <= RAREST_PAIR)
    return max([each.score, *(math.nextafter(score, math.inf) for score in ahead)])


def _judged(
    observation: Observation, facts: CauseFacts, tried: Iterable[Combination]
) -> list[Candidate]:
    """The candidates that fit, best first; only the best of each cause or pair."""
    limit = FITS if observation.right_mfu is None else FITS_BOTH
    observed = math.log(observation.mfu / observation.ofu)
    # Otherwise the corrected MFU would be above 100 %, or against a peak that is known to be wrong.
    possible = (each for each in tried if observation.mfu <= each.report.high)
    if _wrong_peak(observation.mfu, facts):
        possible = (
            one for one in possible if any(GIVEN_PEAK in each.hypothesis.says for each in one.tried)
        )
    judged = ((each, _misfit(observation, facts, each)) for each in possible)
    return candidates.best_of_each(
        each.candidate(observed, off, observation.mfu) for each, off in judged if off <= limit
    )


def _misfit(observation: Observation, facts: CauseFacts, each: Combination) -> float:
    """Standard errors between expected and observed OFU; with a right MFU, of the report and of OFU together."""
    mfu, right, ran = observation.mfu, observation.right_mfu, each.hardware
    if all(part.cause is not tile_quantization for part in each.tried):
        ran = ran.times(Ratio(*real_work(facts)))
    measured = (observation.ofu, observation.standard_error)
    if right is None:
        return candidates.off_hardware(mfu, *measured, each.report.times(ran))
    report = candidates.off_report(mfu, right, each.report)
    return math.hypot(report, candidates.off_hardware(right, *measured, ran))


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
        "padded_to": facts.executed is not None,
        "lengths": step is not None and len(step.lengths.samples) > 1,
        "pack_length": facts.pack_length is not None,
        "tile_overhead": facts.tile_overhead is not None,
    }


def _untried(is_given: Mapping[str, bool]) -> tuple[tuple[str, str], ...]:
    missing = ((each.slug, [n for n in each.needs if not is_given[n]]) for each in causes())
    common = ((slug, needs) for slug, needs in missing if needs and not FEW_JOBS_HAVE & {*needs})
    return tuple((slug, ", ".join(needs)) for slug, needs in common)


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
