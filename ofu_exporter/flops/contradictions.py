"""Numbers that no mistake in a report can make, and what to check instead: an OFU of almost 0, one above what the card
can do, one against the throughput, a stated peak that the card does not have."""

from __future__ import annotations

from ofu_exporter.flops.candidates import FITS, RatioRange, off_report
from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.flops.causes.layers import may_drop_tokens
from ofu_exporter.flops.mfu import SAME
from ofu_exporter.flops.observations import Observation, thresholds_of
from ofu_exporter.hardware.gpu_models import GpuModel
from ofu_exporter.ofu.divergence import Divergence
from ofu_exporter.values.reported import Verdict

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


def contradiction(
    observation: Observation, compared: Divergence, facts: CauseFacts
) -> tuple[bool, str]:
    """Whether no mistake in the report can be the cause, and what to check."""
    ofu, error, right = observation.ofu, observation.standard_error, observation.right_mfu
    advice = _above_the_card(ofu, error, facts.row())
    if right is None:
        advice = advice or _almost_no_ofu(ofu, error, compared)
    advice = advice or _of_one_gpu(observation, facts)
    if advice or right is None or compared.verdict is Verdict.INSUFFICIENT_DATA:
        return bool(advice) or ofu == 0, advice
    thresholds = thresholds_of(facts)
    ask = (
        "Are throughput, number of GPUs and configuration of this job, and OFU of all of its GPUs?"
    )
    if right - ofu > thresholds.above + thresholds.standard_errors * error:
        needed = f"which needs an OFU of at least {right:.2%}"
        may_drop = facts.step is not None and may_drop_tokens(facts.step)
        return not may_drop, f"OFU contradicts the throughput, {needed}. {ask}"
    if ofu - right > thresholds.most_below(ofu) + thresholds.standard_errors * error:
        ran = f"the GPUs ran {ofu / right:.3g} times what the throughput needs"
        return False, f"{ran}. {ask} Is the job alone on them?"
    return False, ""


def _of_one_gpu(observation: Observation, facts: CauseFacts) -> str:
    """What to check if the throughput is that of one GPU, and the report says the same of that GPU; "" otherwise."""
    mfu, right, gpus = observation.mfu, observation.right_mfu, facts.gpus
    if right is None or gpus is None or gpus < 2:
        return ""
    is_reported = off_report(mfu, right * gpus, RatioRange()) <= FITS
    if not is_reported or right > observation.ofu / 2:
        return ""
    return (
        f"the tokens per second are those of one GPU: of all {gpus} they are {gpus} times as many, and the MFU from "
        f"the throughput is {right * gpus:.2%}. Give --tokens-per-second of all GPUs together"
    )


def wrong_peak(mfu: float, facts: CauseFacts) -> str:
    """What to check if the report is known to divide by a wrong peak; "" otherwise."""
    right, stated = facts.right_peak(), facts.peak_flops
    if right is None or stated is None or abs(right / stated - 1) <= SAME:
        return ""
    return (
        f"the report divides by {stated / 1e12:,.5g} TFLOP/s, and the dense peak is {right / 1e12:,.5g}: against this "
        f"its MFU is {mfu * stated / right:.2%}. No known mistake besides explains that"
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
