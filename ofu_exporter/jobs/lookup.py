"""Looks jobs up: those on the page now, and those that only the state file remembers."""

from __future__ import annotations

from collections.abc import Callable

from ofu_exporter.jobs.totals import JobTotals, merged, totals_of
from ofu_exporter.values.snapshot import JobView, Snapshot

Remembered = Callable[[str], tuple[JobTotals, ...]]
"""Returns every earlier run of a job that the state file has."""


class JobBook:
    """Finds the totals of the jobs of one node."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot | None],
        node: str,
        remembered: Remembered = lambda _: (),
        left_out: Callable[[Exception], object] = lambda _: None,
    ) -> None:
        """`snapshot` returns the snapshot that is shown now, None before the first.

        `left_out` is told why a job cannot be shown.
        """
        self._snapshot = snapshot
        self._node = node
        self._remembered = remembered
        self._left_out = left_out

    def current(self) -> list[JobTotals]:
        """The jobs that hold a GPU here, and those that ended a short while ago."""
        snapshot = self._snapshot()
        if snapshot is None:
            return []
        totals = (self._totals(view, snapshot.source.simulated) for view in snapshot.jobs)
        return [each for each in totals if each is not None]

    def _totals(self, view: JobView, simulated: bool) -> JobTotals | None:
        """A job's totals; None where one of its values cannot be, which costs no other job anything."""
        try:
            return totals_of(view, self._node, simulated)
        except ValueError as error:
            self._left_out(error)
            return None

    def find(self, job_id: str) -> JobTotals | None:
        """One job with all its runs here; None when nothing is known of it."""
        runs = {
            (run.scheduler, run.uid, run.began): run
            for run in [
                *map(_with_end, self._remembered(job_id)),
                *(job for job in self.current() if job.job_id == job_id),
            ]
        }
        if not runs:
            return None
        latest = max(runs.values(), key=lambda run: run.updated)
        return merged(
            [
                run
                for run in runs.values()
                if (run.scheduler, run.uid) == (latest.scheduler, latest.uid)
            ]
        )


def _with_end(run: JobTotals) -> JobTotals:
    """A run from the file. One without an end ended while no agent watched, when it was last seen."""
    return run if run.ended is not None else run.model_copy(update={"ended": run.updated})
