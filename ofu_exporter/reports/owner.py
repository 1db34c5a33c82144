"""Says whose a report is: the job that it is about, and which jobs and GPUs have reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from ofu_exporter.errors import ReportError
from ofu_exporter.reports.hardware import Hardware, hardware_of
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import GpuUsage, JobKey
from ofu_exporter.values.reasons import ReportRejection
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot

NO_USAGE: Mapping[GpuKey, GpuUsage] = MappingProxyType({})


class UnownedKey(NamedTuple):
    """Identifies a job that holds no GPU here, so that no scheduler names it."""

    job_id: str


ReportKey = JobKey | UnownedKey
"""Identifies a job that reports."""


@dataclass(frozen=True)
class Owner:
    """The job that a report is about, and what it has here."""

    key: ReportKey
    view: JobView | None = None
    gpus: tuple[GpuView, ...] = ()
    present: frozenset[str] = frozenset()
    """The names of all GPUs of the node."""

    @cached_property
    def hardware(self) -> Hardware:
        return hardware_of(self.gpus, self.present)

    @property
    def run(self) -> str:
        """Tells runs of one job id apart."""
        return self.view.job.uid if self.view else ""

    @property
    def gpu_count(self) -> float:
        """How many GPUs the job has; a MIG instance is a part of one."""
        return math.fsum(view.share.ratio for view in self.gpus)

    @property
    def usage(self) -> Mapping[GpuKey, GpuUsage]:
        return self.view.usage if self.view else NO_USAGE

    def check_effect(self, report: MfuReport) -> None:
        """Raise ReportError for facts that would change nothing because the job has ended."""
        if report.facts_only and self.view is not None and self.view.ended is not None:
            raise ReportError(ReportRejection.ENDED, "job_id", f"{report.job_id!r} has ended")


def owner_of(view: JobView, snapshot: Snapshot) -> Owner:
    """A job with the GPUs that it has, or that its last run had when it has ended."""
    if view.ended is not None:
        had = {key for key, usage in view.usage.items() if usage.in_last_run}
        gpus = tuple(gpu for gpu in snapshot.gpus if gpu.gpu.key in had)
    else:
        gpus = tuple(gpu for gpu in snapshot.gpus if view.job in gpu.holders)
    return Owner(view.job.key, view, gpus, frozenset(gpu.gpu.name for gpu in snapshot.gpus))


class KnownOwners:
    """The owners of reports in one snapshot. Each is looked up once, because a job may report 200 times a second."""

    def __init__(self, snapshot: Snapshot | None) -> None:
        self.snapshot = snapshot
        self._of_job_id: dict[str, Owner] = {}

    def of(self, job_id: str) -> Owner | None:
        """The job of this id, or of the pod with this name; None where it is not here."""
        views = self.snapshot.jobs if self.snapshot and job_id not in self._of_job_id else ()
        of_job = [view for view in views if job_id in (view.job.job_id, *view.job.aliases)]
        if self.snapshot is not None and of_job:
            view = max(of_job, key=lambda each: (each.ended is None, each.updated))
            self._of_job_id[job_id] = owner_of(view, self.snapshot)
        return self._of_job_id.get(job_id)


YOUNG_SECONDS = 900.0
"""A job of this age that has not reported yet does not report."""


def gpus_of_reports(snapshot: Snapshot) -> frozenset[GpuKey]:
    """The GPUs whose jobs report, or may yet begin to."""
    reporting = {
        view.job.key
        for view in snapshot.jobs
        if view.ended is None
        if view.reports is not None or snapshot.unix - view.current_began < YOUNG_SECONDS
    }
    return frozenset(
        gpu.gpu.key for gpu in snapshot.gpus if any(job.key in reporting for job in gpu.holders)
    )


def stepped(snapshot: Snapshot) -> frozenset[tuple[JobKey, str]]:
    """The jobs that start and whose run, by its uid, has stated a step."""
    return frozenset(
        (view.job.key, view.job.uid)
        for view in snapshot.jobs
        if view.start.is_open and view.reports and view.reports.progress
        if view.reports.progress.step is not None
    )
