"""The question what causes a divergence, and what is remembered of those asked about a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ofu_exporter.ofu.divergence import Divergence
from ofu_exporter.reports.hardware import Hardware
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.reported_model import KeptModel
from ofu_exporter.values.reported import Causes, Compared, Verdict

EXPLAIN_SECONDS = 120.0
"""Time after which a lasting divergence is explained again, at the next report."""


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

    @property
    def verdict(self) -> Verdict:
        return self.divergence.verdict

    @property
    def facts(self) -> tuple[object, ...]:
        return (self.model, *self.report.facts())


@dataclass(slots=True)
class Inquiry:
    """What was asked about the divergences of one job, and found."""

    causes: Causes = field(default_factory=Causes)
    answered: CauseQuestion | None = None
    """The question that they answer; None if none was asked yet."""
    at: float = 0.0
    """Monotonic time of the answer."""
    is_running: bool = False
    """Whether a thread is looking for causes."""

    def causes_of(self, verdict: Verdict) -> Causes | None:
        """The causes of a verdict; None if those found belong to another one, or none were looked for."""
        return self.causes if self.answered and self.answered.verdict is verdict else None

    def is_turned(self, question: CauseQuestion | None) -> bool:
        """Whether the question's verdict is a divergence of which no causes were looked for yet."""
        if self.is_running or question is None or not question.verdict.diverged:
            return False
        return self.causes_of(question.verdict) is None

    def is_due(self, question: CauseQuestion | None, now: float) -> bool:
        """Whether causes should be looked for: of a new verdict, with new facts, or after a while."""
        if self.is_running or question is None or not question.verdict.diverged:
            return False
        if self.answered is None or self.is_turned(question):
            return True
        return question.facts != self.answered.facts or now - self.at > EXPLAIN_SECONDS

    def take(self, question: CauseQuestion, causes: Causes, now: float) -> None:
        self.causes, self.answered, self.at, self.is_running = causes, question, now, False
