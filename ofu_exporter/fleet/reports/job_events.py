"""Finds in the story of a job what somebody should look at: slow GPUs, idle stretches, times with fewer GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ofu_exporter.fleet.reports.one_job import GpuHours, JobPoint

SLOW = 0.9
"""A GPU is slow below this share of the median of the job's GPUs."""
SLOW_HOURS = 2


@dataclass(frozen=True, slots=True)
class SlowGpu:
    """A GPU that does less, or runs slower, than the others of its job in the same hours."""

    node: str
    gpu: str
    uuid: str
    what: str
    """`OFU` or `SM clock`."""
    share: float
    """Of the median of the job's GPUs, the median over hours."""
    hours: int
    """Hours in which it was slow."""


def slow_gpus(gpus: Sequence[GpuHours]) -> list[SlowGpu]:
    """GPUs that are below SLOW of the job's median for SLOW_HOURS and most of their hours, the slowest first."""
    slow_ones: list[SlowGpu] = []
    for name, what in (("ofu", "OFU"), ("clock_hz", "SM clock")):
        middles = _medians([getattr(gpu, name) for gpu in gpus])
        for gpu in gpus:
            values: dict[int, float] = getattr(gpu, name)
            shares = [values[hour] / middles[hour] for hour in values if middles.get(hour)]
            slow = [share for share in shares if share < SLOW]
            if len(slow) >= SLOW_HOURS and 2 * len(slow) > len(shares):
                one = SlowGpu(gpu.node, gpu.gpu, gpu.uuid, what, median(shares), len(slow))
                slow_ones.append(one)
    return sorted(slow_ones, key=lambda gpu: (gpu.share, gpu.node, gpu.gpu))


def _medians(hours: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """The median over GPUs of every hour in which at least three are known."""
    by_hour: dict[int, list[float]] = {}
    for values in hours:
        for hour, value in values.items():
            by_hour.setdefault(hour, []).append(value)
    return {hour: median(values) for hour, values in by_hour.items() if len(values) >= 3}


@dataclass(frozen=True, slots=True)
class JobStretch:
    """A time within a job's life."""

    start: float
    end: float


def idle_stretches(
    points: Sequence[JobPoint], step: float, least: float = 600.0
) -> list[JobStretch]:
    """When the job held GPUs, was measured and used none; shorter ones than `least` seconds are left out."""
    return _stretches(
        points, step, least, [point.ofu is not None and point.ofu < 0.001 for point in points]
    )


def shortfalls(points: Sequence[JobPoint], step: float) -> list[JobStretch]:
    """When the job held clearly fewer GPUs than before and after: it crashed, was requeued, or lost nodes."""
    most = max((point.gpus or 0.0 for point in points), default=0.0)
    full = [(point.gpus or 0.0) >= 0.9 * most for point in points]
    if not most:
        return []
    first, last = full.index(True), len(full) - 1 - full[::-1].index(True)
    inside = [first < number < last and not each for number, each in enumerate(full)]
    return _stretches(points, step, 0.0, inside)


def _stretches(
    points: Sequence[JobPoint], step: float, least: float, wanted: Sequence[bool]
) -> list[JobStretch]:
    stretches: list[JobStretch] = []
    for point, is_wanted in zip(points, wanted, strict=True):
        if not is_wanted:
            continue
        begin = point.time - step
        if stretches and abs(stretches[-1].end - begin) < step / 2:
            stretches[-1] = JobStretch(stretches[-1].start, point.time)
        else:
            stretches.append(JobStretch(begin, point.time))
    return [stretch for stretch in stretches if stretch.end - stretch.start >= least]
