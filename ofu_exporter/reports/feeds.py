"""Runs the agent's own reporters: the pulls of serving engines, and the reports of simulated and recorded jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pydantic import BaseModel

from ofu_exporter.recordings.options import Options
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.own_reports import OwnReports, RecordedReports, SimulatedReports
from ofu_exporter.reports.pulls import Pulls
from ofu_exporter.settings import PullSetting
from ofu_exporter.values.snapshot import Snapshot

STOP_SECONDS = 0.2
Schedulers = Mapping[str, BaseModel]
"""Options of the schedulers in use, by name."""


class Feeds:
    """Runs the pulls and the reports of jobs that are not real, and replaces them when the settings change."""

    def __init__(self, snapshot: Callable[[], Snapshot | None], book: ReportBook) -> None:
        self._snapshot = snapshot
        self._book = book
        self._settings: tuple[Sequence[PullSetting], Schedulers] | None = None
        self._own: list[OwnReports] = []
        self.pulls = Pulls((), book.submit)

    def run(self, pulls: Sequence[PullSetting], schedulers: Schedulers) -> None:
        """Run these pulls from now on and no others, and report for jobs that no training loop reports for. Does not
        wait for a pull that hangs."""
        if self._settings == (pulls, schedulers):
            return
        self.stop()
        self._settings = (pulls, schedulers)
        self.pulls = Pulls(pulls, self._book.submit)
        self.pulls.start()
        self._own = list(self._own_reports(schedulers))
        for each in self._own:
            each.start()

    def _own_reports(self, schedulers: Schedulers) -> Iterator[OwnReports]:
        if "simulate" in schedulers:
            yield SimulatedReports(self._snapshot, self._book)
        replay = schedulers.get("replay")
        if isinstance(replay, Options):
            yield RecordedReports(self._snapshot, self._book, replay.path)

    def stop(self) -> None:
        self._settings = None
        while self._own:
            self._own.pop().stop()
        self.pulls.stop(STOP_SECONDS)

    def outcomes(self) -> dict[tuple[str, str], int]:
        """Pulls by job and outcome."""
        return dict(self.pulls.outcomes())
