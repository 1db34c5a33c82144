"""Looks for the causes of a difference between reported MFU and OFU, with the facts that the job reported."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from ofu_exporter import flops
from ofu_exporter.errors import OfuError
from ofu_exporter.flops import explain
from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.ofu.divergence import Divergence
from ofu_exporter.reports.kept_model import MOST_CHARS, KeptModel
from ofu_exporter.reports.messages import MfuReport, out_of_range
from ofu_exporter.reports.stated import UNCOUNTABLE, Hardware, counted_step, flops_per_token
from ofu_exporter.values.job import JobKey
from ofu_exporter.values.reported import Causes, Compared, LikelyCause

log = logging.getLogger(__name__)


class CauseQuestion(NamedTuple):
    """The input of a search for the causes of one divergence."""

    sums: Compared
    divergence: Divergence
    report: MfuReport
    """The facts that the job reported."""
    hardware: Hardware
    peak_flops: float | None
    model: KeptModel | None = None
    """The model that the job reported, unless the report has it."""

    def whole_report(self) -> MfuReport:
        """The report with its model."""
        body = self.model.body() if self.model else None
        return self.report.model_copy(update={"model": body}) if body else self.report


def causes_or_none(job_id: str, question: CauseQuestion) -> Causes:
    """The likely causes of a job's divergence; none if the search fails, which is logged."""
    try:
        return likely_causes(question)
    except OfuError as error:
        log.warning("job %s: no causes looked for: %.*s", job_id, MOST_CHARS, error)
    except (
        Exception
    ):  # the configuration comes from outside; without a cause the verdict still holds
        log.exception("job %s: no causes found", job_id)
    return Causes()


def facts_of(report: MfuReport, hardware: Hardware, peak_flops: float | None) -> CauseFacts:
    """The facts of a report for an explanation. Raises ReportError for a model that cannot be counted."""
    recompute = report.recompute
    step = None if report.model is None else counted_step(report.model)
    is_peak_known = report.peak_tflops is not None or report.mfu is None
    return CauseFacts(
        step=step,
        forward_only=None if report.model is None else report.model.forward_only,
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


class CauseSearch:
    """Looks for causes on a thread of its own, one job after the other, so that no snapshot waits for them."""

    def __init__(self, explain: Callable[[JobKey], None]) -> None:
        self._explain = explain
        self._asked: dict[JobKey, None] = {}
        self._news = threading.Condition()

    def start(self) -> None:
        threading.Thread(target=self._run, name="ofu-causes", daemon=True).start()

    def ask(self, key: JobKey) -> None:
        """Have the causes of a job's divergence looked for; it does not wait."""
        with self._news:
            self._asked[key] = None
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._asked)
                key = next(iter(self._asked))
                del self._asked[key]
            self._explain(key)
