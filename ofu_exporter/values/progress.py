"""How far a job has come by its own reports, and the GPU-seconds that this shows as lost: frozen values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ofu_exporter.values.instant import UNIX_LIMIT, Span
from ofu_exporter.values.losses import known_sum

MOST_RUN_LINES = 16
"""Most lines of runs of one job that are remembered; the one that was not heard of for longest is forgotten."""
MOST_RECOVERIES = 16
MOST_SPANS = 32
"""Most times of work done again that are told apart; of more, the oldest is forgotten."""
REASONS = ("done_again", "evaluation", "checkpoint")
"""What reports tell of why time was no progress."""
STEPS = 1 << 53
"""Every step is below this."""
LONGEST_RUN = 256
"""Characters of the id of a run."""


class RunLine(NamedTuple):
    """How far a line of runs has come: runs that continue each other, under one id that they state."""

    step: int
    """The highest step."""
    at: float
    """Unix time at which it was stated first."""
    saved_step: int | None = None
    """The highest step of a checkpoint."""


class Recovery(NamedTuple):
    """A restart after which steps were stated again."""

    at: float
    """Unix time of the failure, or of the last step before it."""
    resumed_step: int
    """The first step that was stated after it."""
    highest_step: int
    """The highest one that had been stated before it."""
    recovered: float | None = None
    """Unix time of the first step beyond that; None while there is none."""
    resumed: float | None = None
    """Unix time of that first step."""


class Fall(NamedTuple):
    """Steps below the one before, which are a restart if no more of the higher ones come."""

    step: int
    """The last of them."""
    start: float
    """Unix time from which they count."""
    end: float
    """Unix time of the last of them."""
    first: int = 0
    since: float = 0.0
    """Unix time of the last higher step."""


class Unsure(NamedTuple):
    """Time that was stated while the run started: what is of its start is not known before that has ended."""

    reason: str
    """Why it was no progress, as the label says it."""
    start: float
    end: float
    gpu_seconds: float


@dataclass(frozen=True)
class Progress:
    """How far the runs of a job have come. Seconds are GPU-seconds of this node; None = never stated."""

    run: str = ""
    """The id that the job states of its current run (`OFU_RUN`); "" where it states none."""
    lines: Mapping[str, RunLine] = field(default_factory=dict)
    """Its lines of runs, by that id, in the order in which they were heard of last."""
    step: int | None = None
    """The step at which the current run stands; None before its first."""
    step_before: int | None = None
    """The step before that one, in the same run."""
    highest_before: int | None = None
    """The highest step before the last restart: steps up to it are done again."""
    stopped: float | None = None
    """Unix time of the failure, or of the last step before it."""
    until: float | None = None
    """Unix time up to which the time of the current run is counted."""
    pace: float | None = None
    """Seconds between two reports of its steps; of late, the longest."""
    fall: Fall | None = None
    done_again_seconds: float | None = None
    evaluation_seconds: float | None = None
    checkpoint_seconds: float | None = None
    restarts: int = 0
    """Restarts that its steps tell, inside runs of its scheduler."""
    told: float | None = None
    """Unix time at which they told the last one; None where its scheduler told it too."""
    recoveries: tuple[Recovery, ...] = ()
    """The last restarts."""
    again: tuple[Span, ...] = ()
    """The last times in which steps were done again, in Unix time."""
    unsure: tuple[Unsure, ...] = ()
    are_several: bool = False
    """Whether several programs of the run state steps of their own, so that lower ones tell no restart."""

    @property
    def line(self) -> RunLine | None:
        """The line of the current run."""
        return self.lines.get(self.run)

    @property
    def highest_step(self) -> int | None:
        """The highest step of that line."""
        return self.line.step if self.line else None

    @property
    def step_of_run(self) -> int | None:
        """The highest step of that line, once the current run of its scheduler has stated one."""
        return None if self.step is None and self.told is None else self.highest_step

    @property
    def is_possible(self) -> bool:
        """Whether an agent may have written it."""
        lines = self.lines.values()
        steps = [self.step, self.step_before, self.highest_before]
        steps += (step for each in lines for step in each[::2])
        times = [self.until, self.stopped, self.pace, self.told, *sum(self.again, ())]
        times += (line.at for line in lines)
        for one in self.unsure:
            times += [one.start, one.end, one.gpu_seconds]
        for each in self.recoveries:
            steps += [each.resumed_step, each.highest_step]
            times += [each.at, each.recovered, each.resumed]
        if self.fall is not None:
            steps += [self.fall.step, self.fall.first]
            times += [self.fall.start, self.fall.end, self.fall.since]
        sums = self.done_again_seconds, self.evaluation_seconds, self.checkpoint_seconds
        return (
            all(step is None or 0 <= step < STEPS for step in steps)
            and all(time is None or 0 <= time <= UNIX_LIMIT for time in times)
            and all(seconds is None or 0 <= seconds < math.inf for seconds in sums)
            and 0 <= self.restarts < STEPS
            and len(self.lines) <= MOST_RUN_LINES
            and len(self.recoveries) <= MOST_RECOVERIES
            and len(self.again) <= MOST_SPANS
            and len(self.unsure) <= MOST_SPANS
            and all(one.reason in REASONS and one.start < one.end for one in self.unsure)
            and all(
                len(run) <= LONGEST_RUN and run.isprintable() for run in (self.run, *self.lines)
            )
        )

    def plus(self, other: Progress) -> Progress:
        """With what another node, or another name of the job, knows of the same job: sums are added."""
        first, last = sorted((self, other), key=lambda one: one.until or 0.0)
        lines = dict(first.lines)
        for run, line in last.lines.items():
            other_line = lines.pop(run, line)
            lines[run] = max(line, other_line, key=lambda one: one.step)
        return replace(
            last,
            lines=dict([*lines.items()][-MOST_RUN_LINES:]),
            restarts=max(self.restarts, other.restarts),
            done_again_seconds=known_sum((self.done_again_seconds, other.done_again_seconds)),
            evaluation_seconds=known_sum((self.evaluation_seconds, other.evaluation_seconds)),
            checkpoint_seconds=known_sum((self.checkpoint_seconds, other.checkpoint_seconds)),
        )
