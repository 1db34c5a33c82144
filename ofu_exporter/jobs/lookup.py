"""Finds jobs: those on the page now, and those that only the state file remembers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ofu_exporter.jobs.served_totals import ServedTotals, merged_served, served_totals
from ofu_exporter.jobs.totals import JobTotals, merged, totals_of
from ofu_exporter.values.served import Served
from ofu_exporter.values.snapshot import JobView, Snapshot

Remembered = Callable[[str], tuple[JobTotals, ...]]
"""Returns every earlier run of a job that the state file has."""


class JobBook:
    def __init__(
        self,
        snapshot: Callable[[], Snapshot | None],
        node: str,
        remembered: Remembered = lambda _: (),
        left_out: Callable[[Exception], object] = lambda _: None,
        served: Callable[[], Mapping[str, Served]] = dict,
        last: Callable[[], Iterable[JobTotals]] = tuple,
    ) -> None:
        """`snapshot` returns the snapshot that is shown now, None before the first.

        `left_out` is called with the reason why a job cannot be shown; `served` tells what pulled engines served, by
        the id that they were set up with; `last` gives the records of the state file that were written last.
        """
        self._snapshot = snapshot
        self._node = node
        self._remembered = remembered
        self._left_out = left_out
        self._served = served
        self._last = last

    def current(self) -> list[JobTotals]:
        """The jobs that hold a GPU here, and those that ended a short while ago."""
        snapshot = self._snapshot()
        if snapshot is None:
            return []
        totals = (self._totals(view, snapshot.source.simulated) for view in snapshot.jobs)
        served = {name: served_totals(each) for name, each in self._served().items()}
        return [with_served(each, served) for each in totals if each is not None]

    def with_ended(self) -> Iterator[JobTotals]:
        """The same, and what the state file remembers of others: a bounded number, the last first, each once."""
        records = set()
        for job in itertools.chain(self.current(), map(_with_end, self._last())):
            record = job.scheduler, job.job_id, job.began
            if record not in records:
                records.add(record)
                yield job

    def _totals(self, view: JobView, simulated: bool) -> JobTotals | None:
        """A job's totals; None if one of its values is impossible. Other jobs are not affected."""
        try:
            return totals_of(view, self._node, simulated)
        except ValueError as error:
            self._left_out(error)
            return None

    def find(self, job_id: str) -> JobTotals | None:
        """One job with all records of its last run here, also by another name of it; None when nothing is known of it.

        A record holds every run that began while the one before it was still shown.
        """
        records = {
            (record.scheduler, record.began): record
            for record in [
                *map(_with_end, self._remembered(job_id)),
                *(job for job in self.current() if job_id in (job.job_id, *job.aliases)),
            ]
        }
        if not records:
            return None
        latest = max(records.values(), key=lambda record: record.updated)
        return merged(
            [
                record
                for record in records.values()
                if (record.scheduler, record.uid) == (latest.scheduler, latest.uid)
            ]
        )


def with_served(job: JobTotals, served: Mapping[str, Sequence[ServedTotals]]) -> JobTotals:
    """A job with what its engines served, under any of its names."""
    totals = [each for name in (job.job_id, *job.aliases) for each in served.get(name, ())]
    return job.model_copy(update={"served": merged_served(totals)}) if totals else job


def _with_end(record: JobTotals) -> JobTotals:
    """A record from the file. A job without an end ended while no agent ran; its end is when it was last seen."""
    if record.ended is not None:
        return record
    runs = tuple(
        run if run.ended is not None else run.model_copy(update={"ended": record.updated})
        for run in record.runs
    )
    return record.model_copy(update={"ended": record.updated, "runs": runs})
