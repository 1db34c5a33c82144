"""Keeps how far the runs of a job have come: what its reports say of steps and events. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from ofu_exporter.reports.messages import MfuReport

MOST_RUNS = 16
"""Most runs of one job that are remembered; the one that was heard of first is forgotten."""


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

    def plus(self, report: MfuReport, at: float) -> Reached:
        """With one more report, whose time ended at a Unix time."""
        now = self
        if report.event is not None and report.start is not None:
            seconds = f"{report.event}_seconds"
            spent = max(0.0, at - report.start)
            now = now._replace(**{seconds: getattr(now, seconds) + spent})
        if report.step is None:
            return now
        if report.event == "checkpoint":
            now = now._replace(saved_step=max(report.step, now.saved_step or 0))
        if now.step is None or report.step > now.step:
            return now._replace(step=report.step, at=at)
        return now._replace(at=max(at, now.at or at)) if report.step == now.step else now


@dataclass(frozen=True)
class Progress:
    """How far each run of a job has come, by the id that the job states (`OFU_RUN`); "" where it states none."""

    runs: Mapping[str, Reached] = field(default_factory=lambda: MappingProxyType({}))

    def plus(self, report: MfuReport, run: str, at: float) -> Progress:
        """With one more report of a run, whose time ended at a Unix time."""
        if report.step is None and report.event is None:
            return self
        runs = {**self.runs, run: self.runs.get(run, Reached()).plus(report, at)}
        if len(runs) > MOST_RUNS:
            del runs[next(iter(runs))]
        return Progress(MappingProxyType(runs))
