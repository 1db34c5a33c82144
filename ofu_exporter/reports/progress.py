"""Keeps how far the runs of a job have come: what its reports say of steps and events. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from ofu_exporter.reports.messages import MfuReport

MOST_RUNS = 16
"""Most runs of one job that are remembered; the one that was not heard of for longest is forgotten."""
LONGEST_EVENT_SECONDS = 86400.0
"""A single evaluation or checkpoint takes no longer: its start comes from a wrong clock."""


class Reached(NamedTuple):
    """How far a run has come."""

    step: int | None = None
    """The highest step."""
    at: float | None = None
    """Unix time at which the highest step was stated last."""
    saved_step: int | None = None
    """The highest step of a checkpoint."""
    evaluation_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    """Seconds of the job, whatever its number of GPUs."""
    event_until: float = 0.0
    """Unix time up to which events are counted: several ranks may state the same one."""

    def plus(self, report: MfuReport, at: float) -> Reached:
        """With one more report, whose time ended at a Unix time."""
        now = self
        if report.event is not None and report.start is not None:
            seconds = f"{report.event}_seconds"
            start = max(report.start, self.event_until, at - LONGEST_EVENT_SECONDS)
            spent = {seconds: getattr(now, seconds) + max(0.0, at - start)}
            now = now._replace(**spent, event_until=max(at, self.event_until))
        if report.step is None:
            return now
        if report.event == "checkpoint":
            now = now._replace(saved_step=max(report.step, now.saved_step or 0))
        if now.step is None or report.step > now.step:
            return now._replace(step=report.step, at=at)
        return now._replace(at=max(at, now.at or at)) if report.step == now.step else now

    def merged(self, other: Reached) -> Reached:
        """The same run as two entries knew it, whose reports were not the same."""
        first, last = sorted((self, other), key=lambda each: (each.step or -1, each.at or 0.0))
        saved = [each.saved_step for each in (first, last) if each.saved_step is not None]
        return last._replace(
            saved_step=max(saved, default=None),
            evaluation_seconds=first.evaluation_seconds + last.evaluation_seconds,
            checkpoint_seconds=first.checkpoint_seconds + last.checkpoint_seconds,
            event_until=max(first.event_until, last.event_until),
        )


@dataclass(frozen=True)
class Progress:
    """How far each run of a job has come, by the id that the job states (`OFU_RUN`); "" where it states none."""

    runs: Mapping[str, Reached] = field(default_factory=lambda: MappingProxyType({}))

    def plus(self, report: MfuReport, run: str, at: float) -> Progress:
        """With one more report of a run, whose time ended at a Unix time."""
        if report.step is None and report.event is None:
            return self
        others = {name: each for name, each in self.runs.items() if name != run}
        return _last({**others, run: self.runs.get(run, Reached()).plus(report, at)})

    def merged(self, other: Progress) -> Progress:
        """What two entries of the same job know."""
        both = {
            run: each.merged(other.runs[run]) if run in other.runs else each
            for run, each in self.runs.items()
        }
        return _last({**other.runs, **both})


def _last(runs: dict[str, Reached]) -> Progress:
    """The runs that were heard of last, in the order in which they were."""
    return Progress(MappingProxyType(dict([*runs.items()][-MOST_RUNS:])))
