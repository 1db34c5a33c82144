"""The input of a search for the causes of a divergence."""

from __future__ import annotations

from typing import NamedTuple

from ofu_exporter.ofu.divergence import Divergence
from ofu_exporter.reports.kept_model import KeptModel
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.stated import Hardware
from ofu_exporter.values.reported import Compared


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
