"""Makes the reports of recorded jobs again, at the times at which they were made."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ofu_exporter.errors import SourceError
from ofu_exporter.recordings.jobs import RecordedJobs, read_jobs
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.own_reports import OwnReports
from ofu_exporter.values.job import RECORDED
from ofu_exporter.values.snapshot import JobView, Snapshot

log = logging.getLogger(__name__)


class RecordedReports(OwnReports):
    kind = "recorded"
    scheduler = RECORDED
    every_seconds = 1.0

    def __init__(
        self,
        snapshot: Callable[[], Snapshot | None],
        book: ReportBook,
        path: Path,
        unix: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(snapshot, book)
        self._path = path
        self._unix_until = unix()
        """Reports that ended before are not made: an earlier agent has made them."""
        self._made_until: dict[str, float] = {}
        """By job id: Unix time of the end of the last report, whether or not it was taken in."""
        self._recorded: RecordedJobs | None = None

    def due(self, view: JobView) -> Iterator[Mapping[str, Any]]:
        """The reports that ended by now, in the run of the job that began at `started`."""
        recorded = self._recorded = self._recorded or self._read()
        job_id, started = view.job.job_id, view.job.started
        begun = [each.start for each in recorded.jobs if each.job.job_id == job_id]
        if started is None or not begun:
            return
        by = started - begun[0]
        for report in recorded.reports:
            end = report.end + by
            if report.job_id == job_id and self._last(job_id) < end <= view.updated:
                self._made_until[job_id] = end
                yield {**report.body, "start": report.body["start"] + by, "end": end}

    def _last(self, job_id: str) -> float:
        return self._made_until.get(job_id, self._unix_until)

    def _read(self) -> RecordedJobs:
        try:
            return read_jobs(self._path, RECORDED)
        except SourceError as error:
            log.warning("no recorded report is made: %s", error)
            return RecordedJobs((), (), 0.0, 0)
