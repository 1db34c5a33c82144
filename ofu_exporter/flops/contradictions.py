"""Recognises that no mistake in a report is the cause: OFU is almost 0, above the card, or against the throughput."""

from __future__ import annotations

from ofu_exporter.hardware.gpu_models import GpuModel
from ofu_exporter.ofu.divergence import Divergence, Thresholds
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


def almost_no_ofu(compared: Divergence, ofu: float, standard_error: float) -> str:
    """What to check if a job reports an MFU but its GPUs show almost none; "" otherwise."""
    if compared.verdict is not Verdict.MFU_ABOVE_OFU or ofu > max(CLEAR * standard_error, LEAST):
        return ""
    if ofu > SMALL:
        return "the error of OFU is so large that OFU may be 0: compare over a longer time"
    return (
        "the GPUs did almost nothing, and no mistake in a count explains that. Is OFU that of the job's own GPUs and "
        "nodes? Did the job run in these seconds? Does the tensor counter count? `ofu-exporter check` says"
    )


def against_throughput(
    right: float, ofu: float, standard_error: float, thresholds: Thresholds
) -> tuple[bool, str]:
    """Whether the GPUs show less than the throughput needs, which is impossible, and what to check if they differ."""
    above = max(thresholds.above, thresholds.above_relative * ofu)
    below = max(thresholds.below, thresholds.below_relative * ofu)
    ask = (
        "Are throughput, number of GPUs and configuration of this job, and OFU of all of its GPUs?"
    )
    if right - ofu > above + thresholds.standard_errors * standard_error:
        needed = f"which needs an OFU of at least {right:.2%}"
        return True, f"OFU contradicts the throughput, {needed}. {ask}"
    if ofu - right > below:
        ran = f"the GPUs ran {ofu / right:.3g} times what the throughput needs"
        return False, f"{ran}. {ask} Is the job alone on them?"
    return False, ""


def above_the_card(ofu: float, standard_error: float, row: GpuModel | None) -> str:
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
