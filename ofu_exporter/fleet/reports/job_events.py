"""Finds in the story of a job what somebody should look at: slow GPUs, idle stretches, times with fewer GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from pydantic import Field

from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.one_job import GpuHours, JobPoint
from ofu_exporter.fleet.reports.result import ResultRow

SLOW = 0.9
"""A GPU is slow below this share of the median of the job's GPUs."""
SLOW_HOURS = 2


class StretchRow(ResultRow):
    """A time within the job's life."""

    start: str
    end: str
    minutes: float


class SlowGpuRow(ResultRow):
    """A GPU that does less, or runs slower, than the job's others in the same hours."""

    node: str
    gpu: str
    uuid: str
    what: str
    share: float = Field(description="Of the median of the job's GPUs.")
    hours: int


def slow_gpus(gpus: Sequence[GpuHours]) -> list[SlowGpuRow]:
    """GPUs that are below SLOW of the job's median for SLOW_HOURS and most of their hours, the slowest first."""
    slow_ones: list[SlowGpuRow] = []
    for name, what in (("ofu", "OFU"), ("clock_hz", "SM clock")):
        middles = _medians([getattr(gpu, name) for gpu in gpus])
        for gpu in gpus:
            values: dict[int, float] = getattr(gpu, name)
            shares = [values[hour] / middles[hour] for hour in values if middles.get(hour)]
            slow = [share for share in shares if share < SLOW]
            if len(slow) >= SLOW_HOURS and 2 * len(slow) > len(shares):
                row = SlowGpuRow(
                    **{name: getattr(gpu, name) for name in ("node", "gpu", "uuid")},
                    what=what,
                    share=median(shares),
                    hours=len(slow),
                )
                slow_ones.append(row)
    return sorted(slow_ones, key=lambda gpu: (gpu.share, gpu.node, gpu.gpu))


def _medians(hours: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """The median over GPUs of every hour in which at least three are known."""
    by_hour: dict[int, list[float]] = {}
    for values in hours:
        for hour, value in values.items():
            by_hour.setdefault(hour, []).append(value)
    return {hour: median(values) for hour, values in by_hour.items() if len(values) >= 3}


def idle_stretches(
    points: Sequence[JobPoint], step: float, least: float = 600.0
) -> list[StretchRow]:
    """When the job held GPUs, was measured and used none; shorter ones than `least` seconds are left out."""
    return _stretches(
        points, step, least, [point.ofu is not None and point.ofu < 0.001 for point in points]
    )


def shortfalls(points: Sequence[JobPoint], step: float) -> list[StretchRow]:
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
) -> list[StretchRow]:
    stretches: list[tuple[float, float]] = []
    for point, is_wanted in zip(points, wanted, strict=True):
        begin = point.time - step
        if is_wanted and stretches and abs(stretches[-1][1] - begin) < step / 2:
            stretches[-1] = (stretches[-1][0], point.time)
        elif is_wanted:
            stretches.append((begin, point.time))
    return [
        StretchRow(start=iso(start), end=iso(end), minutes=round((end - start) / 60, 1))
        for start, end in stretches
        if end - start >= least
    ]
