"""Says which job is slow enough to take a trace of by itself. Pure: its samples are the totals of snapshots.

A job is slow when its OFU of the last ten minutes is below a ratio, or below half of its median of the last hour. Each
job is named once in six hours, and not in its first ten minutes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from ofu_exporter.values.job import JobKey
from ofu_exporter.values.snapshot import JobView, Snapshot

SAMPLE_SECONDS = 60.0
SPAN, HOUR = 10, 60
"""Samples of ten minutes, and of an hour."""
AGAIN_SECONDS = 6 * 3600.0
MOST_JOBS = 256


class _Sample(NamedTuple):
    observed_seconds: float
    utilization_seconds: float


class SlowJobs:
    """What is remembered of the jobs of a node: a sample a minute, for an hour."""

    def __init__(self, below: float) -> None:
        self._below = below
        self._samples: dict[JobKey, deque[_Sample]] = {}
        self._named: dict[JobKey, float] = {}
        self._at = float("-inf")

    def take(self, snapshot: Snapshot) -> list[tuple[str, str]]:
        """Jobs that are slow now, each with a sentence on why."""
        if snapshot.at - self._at < SAMPLE_SECONDS:
            return []
        self._at = snapshot.at
        running = {view.job.key: view for view in snapshot.jobs if view.ended is None}
        for key in [key for key in self._samples if key not in running]:
            del self._samples[key]
        self._named = {k: at for k, at in self._named.items() if snapshot.at - at < AGAIN_SECONDS}
        return [*self._slow(running, snapshot)]

    def _slow(
        self, running: dict[JobKey, JobView], snapshot: Snapshot
    ) -> Iterator[tuple[str, str]]:
        for key, view in running.items():
            if key not in self._samples and len(self._samples) >= MOST_JOBS:
                continue
            samples = self._samples.setdefault(key, deque(maxlen=HOUR + 1))
            samples.append(_Sample(view.observed_seconds, view.utilization_seconds))
            is_young = snapshot.unix - view.current_began < SPAN * SAMPLE_SECONDS
            if not is_young and key not in self._named and (why := self._why(samples)):
                self._named[key] = snapshot.at
                yield view.job.job_id, why

    def _why(self, samples: deque[_Sample]) -> str:
        """Why a job is slow; "" where it is not."""
        if len(samples) <= SPAN:
            return ""
        ofu = _ofu(samples[-SPAN - 1], samples[-1])
        if ofu is None:
            return ""
        if ofu < self._below:
            return f"its OFU of ten minutes is {ofu:.1%}, below {self._below:.1%}"
        minutes = [_ofu(samples[n], samples[n + 1]) for n in range(len(samples) - 1)]
        known = [each for each in minutes if each is not None]
        usual = median(known) if len(known) > 3 * SPAN else None
        if usual is not None and ofu < usual / 2:
            return (
                f"its OFU of ten minutes is {ofu:.1%}, below half of the hour's median, {usual:.1%}"
            )
        return ""


def _ofu(before: _Sample, after: _Sample) -> float | None:
    observed = after.observed_seconds - before.observed_seconds
    return (
        (after.utilization_seconds - before.utilization_seconds) / observed
        if observed > 0
        else None
    )
