"""Says which job is slow enough to take a trace of by itself. Pure: its samples are the totals of snapshots.

A job is slow when its OFU of the last ten minutes is below a ratio, or below half of its median of the last hour. Each
job is named once in six hours, and not in its first ten minutes; one that could not be traced again after ten minutes.
After a time that nobody measured both begin anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import pairwise, starmap
from statistics import median
from typing import NamedTuple

from ofu_exporter.values.job import JobKey
from ofu_exporter.values.snapshot import JobView, Snapshot

SAMPLE_SECONDS = 60.0
SPAN_SECONDS, USUAL_SECONDS, HOUR_SECONDS = 600.0, 1800.0, 3600.0
"""What is compared, the least time of which the median is usual, and the most."""
GAP_SECONDS = 150.0
"""Most between two samples in which something more was measured."""
AGAIN_SECONDS = 6 * 3600.0
MOST_JOBS = 256


class _Sample(NamedTuple):
    at: float
    """Seconds of the agent's clock."""
    observed_seconds: float
    utilization_seconds: float


class SlowJobs:
    """What is remembered of the jobs of a node: a sample a minute, for an hour."""

    def __init__(self, below: float) -> None:
        self._below = below
        self._samples: dict[JobKey, deque[_Sample]] = {}
        self._silent: dict[JobKey, float] = {}
        """Until when a job is not named again."""
        self._untraced: deque[str] = deque()
        self._at = float("-inf")

    def note_untraced(self, job_id: str) -> None:
        """None of its processes could be asked. Any thread may say so."""
        self._untraced.append(job_id)

    def take(self, snapshot: Snapshot) -> list[tuple[str, str]]:
        """Jobs that are slow now, each with a sentence on why."""
        if snapshot.at - self._at < SAMPLE_SECONDS:
            return []
        self._at = snapshot.at
        running = {view.job.key: view for view in snapshot.jobs if view.ended is None}
        for key in [key for key in self._samples if key not in running]:
            del self._samples[key]
        soon = {self._untraced.popleft() for _ in range(len(self._untraced))}
        self._silent = {
            key: snapshot.at + SPAN_SECONDS if key.job_id in soon else end
            for key, end in self._silent.items()
            if snapshot.at < end
        }
        return [*self._slow(running, snapshot)]

    def _slow(
        self, running: dict[JobKey, JobView], snapshot: Snapshot
    ) -> Iterator[tuple[str, str]]:
        for key, view in running.items():
            if key not in self._samples and len(self._samples) >= MOST_JOBS:
                continue
            samples = self._samples.setdefault(key, deque())
            _add(samples, _Sample(snapshot.at, view.observed_seconds, view.utilization_seconds))
            is_young = snapshot.unix - view.current_began < SPAN_SECONDS
            if not is_young and key not in self._silent and (why := self._why(samples)):
                self._silent[key] = snapshot.at + AGAIN_SECONDS
                yield view.job.job_id, why

    def _why(self, samples: deque[_Sample]) -> str:
        """Why a job is slow; "" where it is not."""
        now = samples[-1].at
        before = next((e for e in reversed(samples) if now - e.at >= SPAN_SECONDS), None)
        if before is None:
            return ""
        ofu = _ofu(before, samples[-1])
        if ofu < self._below:
            return f"its OFU of ten minutes is {ofu:.1%}, below {self._below:.1%}"
        minutes = starmap(_ofu, pairwise(samples))
        usual = median(minutes) if now - samples[0].at > USUAL_SECONDS else None
        if usual is not None and ofu < usual / 2:
            return (
                f"its OFU of ten minutes is {ofu:.1%}, below half of the hour's median, {usual:.1%}"
            )
        return ""


def _add(samples: deque[_Sample], last: _Sample) -> None:
    """Add a sample in which something was measured; those before a gap, or of more than an hour ago, go."""
    if samples and last.observed_seconds <= samples[-1].observed_seconds:
        return
    if samples and last.at - samples[-1].at > GAP_SECONDS:
        samples.clear()
    samples.append(last)
    while last.at - samples[0].at > HOUR_SECONDS:
        samples.popleft()


def _ofu(before: _Sample, after: _Sample) -> float:
    observed = after.observed_seconds - before.observed_seconds
    return (after.utilization_seconds - before.utilization_seconds) / observed
