"""Looks for the causes of a difference between reported MFU and OFU, with the facts that the job reported."""

from __future__ import annotations

from ofu_exporter import flops
from ofu_exporter.flops import Part, explain
from ofu_exporter.flops.causes import CauseFacts, without
from ofu_exporter.reports.cause_question import CauseQuestion
from ofu_exporter.reports.hardware import Hardware
from ofu_exporter.reports.messages import MfuReport, out_of_range
from ofu_exporter.reports.reported_model import UNCOUNTABLE, counted_step, flops_per_token
from ofu_exporter.values.reported import Causes, LikelyCause

ENGINES = frozenset({"vllm", "sglang"})
"""Frameworks that only serve."""


def facts_of(report: MfuReport, hardware: Hardware, peak_flops: float | None) -> CauseFacts:
    """The facts of a report for an explanation. Raises ReportError for a model that cannot be counted."""
    recompute = report.recompute
    step = None if report.model is None else counted_step(report.model)
    engine = report.framework if report.framework in ENGINES else ""
    if step is not None and engine:
        step = step.edited(without(Part.HEAD))  # it runs for the last token of a prompt alone
    is_peak_known = report.peak_tflops is not None or report.mfu is None
    return CauseFacts(
        step=step,
        forward_only=report.model.forward_only if report.model else bool(engine) or None,
        engine=engine,
        recompute=None if recompute is None else flops.Recompute(recompute),
        gpu=hardware.name if hardware.is_in_table else None,
        present=hardware.present,
        gpus=report.gpus,
        precision=report.shares(),
        peak_flops=peak_flops if is_peak_known else None,
        tile_overhead=report.tile_overhead,
        tile_overhead_bound=report.tile_overhead_bound,
        accumulation=report.accumulation,
        pack_length=report.pack_length,
    )


def likely_causes(question: CauseQuestion) -> Causes:
    """What may have made a job's reports differ from OFU; nothing if no MFU was reported.

    Raises ConfigError for facts that contradict each other, ReportError for a model that cannot be counted.
    """
    sums, divergence, _, hardware, peak, _ = question
    if not sums.mfu or sums.ofu is None:
        return Causes()
    report = question.whole_report()
    error = max(explain.POINT, min(divergence.error.largest, 1.0))
    observation = explain.Observation(sums.mfu, sums.ofu, error, right_mfu(report, peak))
    facts = facts_of(report, hardware, peak)
    try:
        explanation = explain.explain(observation, facts, verdict=divergence)
    except UNCOUNTABLE as fault:
        # The search changes the model that the report gave, which may break it.
        detail = f"cannot be explained: {type(fault).__name__}: {fault}"
        raise out_of_range("model", detail) from fault
    fitting = (
        LikelyCause(each.cause, each.expected_ratio, each.misfit, each.evidence)
        for each in explanation.causes
    )
    return Causes(tuple(fitting), explanation.tied, explanation.advice)


def right_mfu(report: MfuReport, peak_flops: float | None) -> float | None:
    """The MFU that follows from the job's throughput; None where model, throughput, GPUs or peak are not known."""
    if report.model is None or report.tokens_per_second is None:
        return None
    if report.gpus is None or peak_flops is None:
        return None
    rate = report.tokens_per_second * flops_per_token(report.model)
    return rate / (report.gpus * peak_flops)
