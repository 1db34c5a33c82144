"""Tells what a simulated job does in each of its minutes: it starts, does steps again, or goes on to new ones."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from ofu_exporter.fleet.simulation.placement import PlacedJob

STARTS, AGAIN, NEW = 1, 2, 3


class RunMinutes(NamedTuple):
    """Of a job from its start on."""

    doing: bytes
    """By minute; 0 where it holds no GPU."""
    reached: array[int]
    """Minutes of work that its steps amount to, up to the beginning of each minute: a restart falls back."""

    def share(self, kind: int, begin: int, end: int) -> float:
        """Hours of one kind between two of its minutes."""
        return self.doing[max(0, begin) : end].count(kind) / 60


def minutes_of(job: PlacedJob) -> RunMinutes:
    """After a crash it does again the last part of what its reports had told."""
    group = job.draft.group
    start, again = (group.crashes.start, group.crashes.again) if group.crashes else (0, 0)
    every = group.report.every if group.report else 1
    doing, reached = bytearray(job.end - job.start), array("i", [0]) * (job.end - job.start + 1)
    reported = 0
    for begin, end in job.runs:
        resumed = at = max(0, reported - again)
        for place in range(begin - job.start, end - job.start):
            works = place >= begin - job.start + start
            doing[place] = STARTS if not works else AGAIN if at < reported else NEW
            at += works
            reached[place + 1] = at
        reported = max(reported, resumed + max(0, end - begin - start - 1) // every * every)
    return RunMinutes(bytes(doing), reached)
