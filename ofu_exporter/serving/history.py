"""Remembers the last hour of every GPU and job in memory, for the pages that people look at."""

from __future__ import annotations

import threading
from typing import NamedTuple

from ofu_exporter.ofu.track import Sums, Track
from ofu_exporter.serving.faults import Faults
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import JobKey
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot

GPU_STEP_SECONDS, JOB_STEP_SECONDS = 10.0, 30.0
MOST_TRACKS = 512
"""Most GPUs, and most jobs, that are remembered: 2.9 KB for each GPU, 1.9 KB for each job."""


class JobTracks(NamedTuple):
    """The OFU of a job and the MFU that it reported."""

    ofu: Track
    mfu: Track


class History:
    """The tracks of all GPUs and jobs that are on the page or were within the last hour."""

    def __init__(self, faults: Faults | None = None) -> None:
        """An error in one GPU or job costs only that one, and is noted in `faults`."""
        self._faults = faults or Faults()
        self._lock = threading.Lock()
        self._gpus: dict[GpuKey, Track] = {}
        self._jobs: dict[JobKey, JobTracks] = {}
        self._at = 0.0

    def take(self, snapshot: Snapshot) -> None:
        """Take in a snapshot; only what was added since the one before counts."""
        with self._lock:
            self._at = snapshot.at
            self._faults.made("/v1/history", self._take_gpu, snapshot.gpus)
            self._faults.made("/v1/history", self._take_job, snapshot.jobs)
            for _ in range(len(self._gpus) - MOST_TRACKS):
                del self._gpus[next(iter(self._gpus))]
            shown = {job.job.key for job in snapshot.jobs}
            for key in [key for key in self._jobs if key not in shown]:
                del self._jobs[key]

    def _take_gpu(self, view: GpuView) -> None:
        track = self._gpus.pop(view.gpu.key, None) or Track(GPU_STEP_SECONDS)
        self._gpus[view.gpu.key] = track  # the ones that were not seen for longest come first
        sums = Sums(view.utilization_seconds, view.observed_seconds)
        before = track._before.seconds if track._before else sums.seconds
        at = self._at if view.sampled_at is None else view.sampled_at
        track.grow(sums, at, (sums.seconds - before) / view.share.ratio)

    def _take_job(self, view: JobView) -> None:
        if view.job.key not in self._jobs:
            if len(self._jobs) >= MOST_TRACKS:
                return
            self._jobs[view.job.key] = JobTracks(Track(JOB_STEP_SECONDS), Track(JOB_STEP_SECONDS))
        tracks = self._jobs[view.job.key]
        tracks.ofu.grow(Sums(view.utilization_seconds, view.observed_seconds), self._at)
        if view.reports is not None:
            total = view.reports.total
            reported = Sums(total.mfu_seconds, total.gpu_seconds)
            tracks.mfu.grow(reported, self._at)

    def gpu(self, key: GpuKey, steps: int = 1) -> list[float | None]:
        """The OFU of a GPU over the last hour, in `steps` steps of GPU_STEP_SECONDS; empty when it is not known."""
        with self._lock:
            track = self._gpus.get(key)
            return track.means(self._at, steps) if track else []

    def job(self, key: JobKey, steps: int = 1) -> tuple[list[float | None], list[float | None]]:
        """OFU and reported MFU of a job over the last hour, in `steps` steps of JOB_STEP_SECONDS."""
        with self._lock:
            tracks = self._jobs.get(key)
            if tracks is None:
                return [], []
            return tracks.ofu.means(self._at, steps), tracks.mfu.means(self._at, steps)
