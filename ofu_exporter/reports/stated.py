"""Completes a report with what its job said earlier, and computes its MFU against the right dense peak.

OFU is a share of the dense peak of the precision in use, so an MFU against any other peak is converted before the two
are compared. Equation numbers are those of arXiv:2605.20799.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.flops.mfu import SAME, effective_peak, peak_mistakes, ratio_mistakes
from ofu_exporter.reports.hardware import Hardware
from ofu_exporter.reports.messages import WAYS, MfuReport, ModelBody, out_of_range
from ofu_exporter.reports.reported_model import KeptModel, count_model, keep_model, with_recipe
from ofu_exporter.values import quantities

ASSUMED = ("bf16", "fp16")
"""Precision of a job that does not report one: the first of these that its GPUs are rated in."""
LEAST_OF_TOKEN = 1e5
"""FLOPs of a token: 6 for each of 16,000 parameters."""


class Stated(NamedTuple):
    """The MFU of a report against the right peak."""

    mfu: float | None
    """MFU against `peak_flops`; None if the report has only facts."""
    peak_flops: float | None
    """Dense FLOP/s of one GPU, effective over the precisions (eq. 12); None where it is not known."""
    warnings: tuple[str, ...]


class ReportedFacts(NamedTuple):
    """What is known of a job from its reports."""

    facts: MfuReport
    """The last report, with the facts of earlier ones that it did not repeat, without its model."""
    model: KeptModel | None = None


class Completed(NamedTuple):
    """A report with what its job said earlier."""

    report: MfuReport
    facts: ReportedFacts
    stated: Stated


def completed(
    report: MfuReport,
    before: ReportedFacts | None,
    hardware: Hardware,
    recipes: Path | None,
    count: Callable[[ModelBody], KeptModel] = keep_model,
) -> Completed:
    """A report with what was known before, and its MFU against the right peak. It may read a file and count a model.

    Raises ReportError.
    """
    report, unread = with_recipe(report, recipes)
    model, uncountable = count_model(report, before.model if before else None, count)
    whole = report.with_facts(before.facts) if before else report
    whole = whole.model_copy(update={"model": None})
    stated = stated_mfu(whole, hardware, model.flops_per_token if model else None)
    warnings = (*stated.warnings, *filter(None, (unread, uncountable)))
    return Completed(report, ReportedFacts(whole, model), stated._replace(warnings=warnings))


def stated_mfu(report: MfuReport, hardware: Hardware, per_token: float | None = None) -> Stated:
    """The MFU of a report; `per_token` are the FLOPs of a token of its model, where it was counted before.

    Raises ReportError, which names the field that cannot be used.
    """
    shares, warnings = _shares(report, hardware), list[str]()
    peak = _peak(shares, hardware)
    stated = None if report.peak_tflops is None else report.peak_tflops * 1e12
    if peak is None:
        peak = stated
    elif stated is not None and abs(stated - peak) > SAME * peak:
        warnings += peak_mistakes(hardware.name, shares, stated)
        warnings.append(f"the MFU is converted to the dense peak of {peak / 1e12:.1f} TFLOP/s")
    mfu = _mfu(report, hardware, peak, stated, warnings, per_token)
    if mfu is None:
        return Stated(None, peak, tuple(warnings))
    if not mfu <= quantities.MOST:
        stated_field = next(name for name in WAYS if getattr(report, name) is not None)
        detail = f"makes an MFU of {mfu:.3g} on this hardware, which is impossible: it is a ratio, 0.4 and not 40"
        raise out_of_range(stated_field, detail)
    if report.flops_per_token is not None and report.flops_per_token < LEAST_OF_TOKEN:
        warnings.append(
            f"flops_per_token: {report.flops_per_token:g} is fewer than any model needs; in GFLOPs it is "
            f"{report.flops_per_token * 1e9:g}"
        )
    if report.gpus is not None or mfu > 1:
        warnings += ratio_mistakes(mfu, mfu, report.gpus or 1)
    return Stated(mfu, peak, tuple(warnings))


def _shares(report: MfuReport, hardware: Hardware) -> Mapping[str, float]:
    shares = report.shares()
    if shares is None:
        assumed = next((name for name in ASSUMED if name in hardware.peaks), ASSUMED[0])
        return {assumed: 1.0}
    if abs(math.fsum(shares.values()) - 1) > 1e-6:
        raise out_of_range(
            "precision", f"the shares add up to {math.fsum(shares.values()):.6g}, not 1"
        )
    return shares


def _peak(shares: Mapping[str, float], hardware: Hardware) -> float | None:
    """The peak to divide by; None where the GPUs have no known peak. Raises ReportError for a precision they lack."""
    if not hardware.peaks:
        return None
    if missing := [name for name in shares if name not in hardware.peaks]:
        raise out_of_range(
            "precision",
            f"{hardware.name or 'the GPUs'}: no known dense peak in {missing[0]}; "
            f"known: {', '.join(hardware.peaks)}",
        )
    return effective_peak(shares, hardware.peaks)


def _mfu(
    report: MfuReport,
    hardware: Hardware,
    peak: float | None,
    stated: float | None,
    warnings: list[str],
    per_token: float | None,
) -> float | None:
    if report.mfu is not None:
        return report.mfu * (stated / peak) if stated and peak else report.mfu
    if all(getattr(report, name) is None for name in WAYS):
        return None  # it has only facts
    if peak is None:
        raise out_of_range("peak_tflops", "is needed: the peak of these GPUs is not known")
    if report.tflops_per_gpu is not None:
        return report.tflops_per_gpu * 1e12 / peak
    if not report.gpus and not hardware.number:
        raise out_of_range("gpus", "is needed: the job has none that this agent measures")
    if report.gpus is None:
        warnings.append(
            f"gpus is not given: assuming that the job has only its {hardware.number} on this node"
        )
    return _flops_per_second(report, per_token) / ((report.gpus or hardware.number) * peak)


def _flops_per_second(report: MfuReport, per_token: float | None) -> float:
    if report.model_flops_per_second is not None:
        return report.model_flops_per_second
    assert report.tokens_per_second is not None
    if report.flops_per_token is not None:
        per_token = report.flops_per_token
    if per_token is None:
        raise out_of_range("tokens_per_second", "needs flops_per_token or model")
    return report.tokens_per_second * per_token
