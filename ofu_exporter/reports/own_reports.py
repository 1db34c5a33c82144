"""A thread that reports for jobs whose scheduler has no training loops to do it: simulated and recorded jobs."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ofu_exporter.errors import OfuError
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.values.snapshot import JobView, Snapshot

log = logging.getLogger(__name__)


class OwnReports(ABC):
    """Reports for the jobs of one scheduler, and for nobody else's."""

    kind: str
    scheduler: str
    every_seconds: float
    """Time between two looks at the jobs."""

    def __init__(self, snapshot: Callable[[], Snapshot | None], book: ReportBook) -> None:
        self._snapshot = snapshot
        self._book = book
        self._stop = threading.Event()
        self.until: dict[str, float] = {}
        """By job id: Unix time of the end of the last report that was taken in."""

    @abstractmethod
    def due(self, view: JobView) -> Iterable[Mapping[str, Any]]:
        """The bodies of the reports that are due for one job. Times are Unix times."""

    def start(self) -> None:
        thread = threading.Thread(target=self._run, name=f"ofu-{self.kind}-reports", daemon=True)
        thread.start()

    def stop(self) -> None:
        self._stop.set()

    def report(self, view: JobView) -> None:
        """Report for one job, if it is one of this scheduler's."""
        if view.job.scheduler != self.scheduler:
            return
        for body in self.due(view):
            try:
                self._book.submit(dict(body))
                self.until[view.job.job_id] = body["end"]
            except OfuError as error:
                log.warning("%s report of job %s: %s", self.kind, view.job.job_id, error)

    def _run(self) -> None:
        while not self._stop.wait(self.every_seconds):
            snapshot = self._snapshot()
            for view in snapshot.jobs if snapshot else ():
                self.report(view)
