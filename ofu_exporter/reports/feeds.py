"""Runs the agent's own reporters: the pulls of serving engines, and the demo's simulated reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.pulls import Pulls
from ofu_exporter.settings import PullSetting
from ofu_exporter.values.snapshot import Snapshot

if TYPE_CHECKING:
    from ofu_exporter.reports.simulated import SimulatedReports

STOP_SECONDS = 0.2


class Feeds:
    """Runs the pulls and the simulated reports, and replaces them when the settings change."""

    def __init__(self, snapshot: Callable[[], Snapshot | None], book: ReportBook) -> None:
        self._snapshot = snapshot
        self._book = book
        self._settings: tuple[Sequence[PullSetting], bool] | None = None
        self._simulated: SimulatedReports | None = None
        self.pulls = Pulls((), book.submit)

    def run(self, pulls: Sequence[PullSetting], simulated: bool) -> None:
        """Run these pulls from now on, and no others. Does not wait for one that hangs."""
        if self._settings == (pulls, simulated):
            return
        self.stop()
        self._settings = (pulls, simulated)
        self.pulls = Pulls(pulls, self._book.submit)
        self.pulls.start()
        if simulated:
            # Imported late because few agents need this module.
            from ofu_exporter.reports.simulated import SimulatedReports  # noqa: PLC0415

            self._simulated = SimulatedReports(self._snapshot, self._book)
            self._simulated.start()

    def stop(self) -> None:
        self._settings = None
        if self._simulated is not None:
            self._simulated.stop()
            self._simulated = None
        self.pulls.stop(STOP_SECONDS)

    def outcomes(self) -> dict[tuple[str, str], int]:
        """Pulls by job and outcome."""
        return dict(self.pulls.outcomes())
