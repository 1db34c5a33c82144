"""Has the causes of divergences looked for on a thread of its own, so that no snapshot waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from ofu_exporter.ofu.divergence import Divergence
from ofu_exporter.reports.kept_model import KeptModel
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.stated import Hardware
from ofu_exporter.values.job import JobKey
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
