"""Holds how much of a job's GPU-hours was no progress, by reason, in the order in which a second counts once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class NoProgress(str, Enum):
    """Why a held GPU-hour was no progress; its value is the label `reason`."""

    STARTING = "starting"
    HELD_IDLE = "held_idle"
    ALONE = "alone"
    DONE_AGAIN = "done_again"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")


MEANINGS: Mapping[NoProgress, str] = {
    NoProgress.STARTING: "until the first tensor work, or step, after a start or restart",
    NoProgress.HELD_IDLE: "held and idle for a minute or longer, though started",
    NoProgress.ALONE: "busy while another GPU of the same job stood idle",
    NoProgress.DONE_AGAIN: "steps that had been reached before a restart",
    NoProgress.EVALUATION: "evaluations that jobs state",
    NoProgress.CHECKPOINT: "checkpoints that jobs state",
}
BEFORE_TOGETHER = (NoProgress.STARTING, NoProgress.HELD_IDLE, NoProgress.ALONE)
"""The others take steps, or what a job says of itself."""
BY_ENGINES = (NoProgress.HELD_IDLE, NoProgress.ALONE)
"""What the engines of a job's GPUs tell; the others are counted by agents."""


def beyond_rounding(hours: float, of: float) -> float:
    """The same; 0 where it is so small a part that it is an error of floating-point numbers."""
    return hours if abs(hours) > 1e-9 * of else 0.0


@dataclass(slots=True)
class ProgressSums:
    """GPU-hours of a job, of the hours in which its GPUs' engines were watched."""

    held: float = 0.0
    lost: dict[str, float] = field(default_factory=dict)
    utilized: float = 0.0
    """At the full peak, in what was lost, but for what was done again."""
    step: float | None = None
    """The highest one stated."""
    restarts: float | None = None
    """None where no agent counts them."""
    restarted: dict[int, float] = field(default_factory=dict)
    """How often, by the hours in which it was."""
    recovering: dict[int, float] = field(default_factory=dict)
    """GPU-hours of starts and of steps done again, by the hours that have any."""

    def add(self, reason: NoProgress | None, hours: float) -> None:
        """Add what was lost for a reason; without one, hours that were watched."""
        if reason is None:
            self.held += hours
        else:
            self.lost[reason.value] = self.lost.get(reason.value, 0.0) + hours

    def lose(self, reason: str, hour: int, hours: float) -> None:
        """Add what was lost in an hour of the clock."""
        self.lost[reason] = self.lost.get(reason, 0.0) + hours
        if hours and reason in (NoProgress.STARTING, NoProgress.DONE_AGAIN):
            self.recovering[hour] = self.recovering.get(hour, 0.0) + hours

    def cut(self, held_hours: float) -> dict[NoProgress, float]:
        """What was lost of these GPU-hours, none of them twice."""
        left, by_reason = held_hours, {}
        for reason in NoProgress:
            lost = beyond_rounding(self.lost.get(reason.value, 0.0), held_hours)
            by_reason[reason] = max(0.0, min(lost, left))
            left -= by_reason[reason]
        return by_reason
