"""Defines what is told of one job, and makes it of the job's story; null is what is not known, never 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby, product
from operator import itemgetter
from statistics import median

from pydantic import Field

from ofu_exporter.fleet.answer import MissingRow, ResultRow
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.fleet_history import JobHistory, JobSums
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.hours import ServerClock
from ofu_exporter.fleet.reports.figures import hours
from ofu_exporter.fleet.reports.funnel import lost_hours
from ofu_exporter.fleet.reports.job_rows import iso, job_row, missing_rows, unix
from ofu_exporter.fleet.reports.one_job import RATE_SECONDS, GpuHours, JobStory, PointRow
from ofu_exporter.fleet.reports.reachable import is_memory_bound
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.fleet.reports.words import served_words, verdict_words
from ofu_exporter.jobs.served_text import bound_by_memory
from ofu_exporter.values.losses import Loss

SLOW = 0.9
"""A GPU is slow below this share of the median of the job's GPUs."""
SLOW_HOURS = 2
LEAST_IDLE_SECONDS = 600.0


class StretchRow(ResultRow):
    """A time within the job's life."""

    start: str
    end: str
    minutes: float


class SlowGpuRow(ResultRow):
    """A GPU that does less, or runs slower, than the job's others of its model in the same hours."""

    node: str
    gpu: str
    uuid: str
    what: str
    share: float = Field(description="Of the median of these.")
    hours: int


def slow_gpus(gpus: Sequence[GpuHours]) -> list[SlowGpuRow]:
    """GPUs below SLOW of the median of the job's of their model for SLOW_HOURS and most hours, the slowest first."""
    slow_ones: list[SlowGpuRow] = []
    models = sorted({gpu.model for gpu in gpus})
    for (name, what), model in product((("ofu", "OFU"), ("clock_hz", "SM clock")), models):
        alike = [gpu for gpu in gpus if gpu.model == model]
        middles = _medians([getattr(gpu, name) for gpu in alike])
        for gpu in alike:
            values: dict[int, float] = getattr(gpu, name)
            shares = [values[hour] / middles[hour] for hour in values if middles.get(hour)]
            slow = [share for share in shares if share < SLOW]
            if len(slow) >= SLOW_HOURS and 2 * len(slow) > len(shares):
                of_gpu = {"node": gpu.node, "gpu": gpu.gpu, "uuid": gpu.uuid, "what": what}
                slow_ones.append(SlowGpuRow(**of_gpu, share=median(shares), hours=len(slow)))
    return sorted(slow_ones, key=lambda gpu: (gpu.share, gpu.node, gpu.gpu))


def _medians(hours: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """The median over GPUs of every hour in which at least three are known."""
    by_hour: dict[int, list[float]] = {}
    for values in hours:
        for hour, value in values.items():
            by_hour.setdefault(hour, []).append(value)
    return {hour: median(values) for hour, values in by_hour.items() if len(values) >= 3}


def idle_stretches(points: Sequence[PointRow], step: float) -> list[StretchRow]:
    """When the job held GPUs, was measured and used none for LEAST_IDLE_SECONDS or longer."""
    idle = [point.ofu is not None and point.ofu < 0.001 for point in points]
    return _stretches(points, step, LEAST_IDLE_SECONDS, idle)


def shortfalls(points: Sequence[PointRow], step: float) -> list[StretchRow]:
    """When the job held clearly fewer GPUs than before and after: it crashed, was requeued, or lost nodes.

    Beside a time of which nothing is known, rates of five minutes are of a part of these, and tell nothing.
    """
    most = max((point.gpus or 0.0 for point in points), default=0.0)
    full = [(point.gpus or 0.0) >= 0.9 * most for point in points]
    if not most:
        return []
    first, last = full.index(True), len(full) - 1 - full[::-1].index(True)
    back = math.ceil(RATE_SECONDS / step)
    seen = [
        all(p.gpus is not None for p in points[max(0, at - back) : at + back + 1])
        for at in range(len(points))
    ]
    inside = [first < at < last and not full[at] and seen[at] for at in range(len(points))]
    return _stretches(points, step, 0.0, inside)


def _stretches(
    points: Sequence[PointRow], step: float, least: float, wanted: Sequence[bool]
) -> list[StretchRow]:
    stretches = []
    ends = [unix(point.time) for point in points]
    for is_wanted, stretch in groupby(zip(ends, wanted, strict=True), itemgetter(1)):
        times = [end for end, _ in stretch]
        start, end = times[0] - step, times[-1]
        if is_wanted and end - start >= least:
            minutes = round((end - start) / 60, 1)
            stretches.append(StretchRow(start=iso(start), end=iso(end), minutes=minutes))
    return stretches


class EarlierRow(ResultRow):
    """An earlier job of the same name and user."""

    job_id: str
    begin: str
    gpu_hours: float
    ofu: float | None
    mfu: float | None


class GpuRow(ResultRow):
    """OFU of one GPU, hour by hour; null where it was not measured, or the job had it for a part of the hour."""

    node: str
    gpu: str
    uuid: str
    ofu: list[float | None]


class JobResult(ResultRow):
    """What is told of one job."""

    server: str
    headline: str
    job: JobRow
    begin: str = Field(description="When it first held a GPU, to a step; UTC.")
    end: str = Field(description="When it last held all of its GPUs.")
    step_seconds: float
    points: list[PointRow]
    idle: list[StretchRow]
    fewer_gpus: list[StretchRow]
    slow_gpus: list[SlowGpuRow]
    gpus: list[GpuRow]
    earlier: list[EarlierRow]
    earlier_ofu: float | None = Field(description="Of the earlier jobs, by GPU-hours.")
    change: float | None = Field(
        description="The job's OFU over that of the earlier ones, minus 1."
    )
    missing: list[MissingRow]


def job_result(story: JobStory, reader: ChunkReader) -> JobResult:
    clock = story.history.clock
    whole = range(story.job.first_hour or 0, (story.job.last_hour or -1) + 1)
    row = job_row(story.job, clock, story.history.target, Prices())
    earlier = JobSums()
    for job in story.earlier:
        earlier.add(job.total)
    change = row.ofu / earlier.ofu - 1 if row.ofu is not None and earlier.ofu else None
    slow = slow_gpus(story.gpus)
    idle = idle_stretches(story.points, story.step)
    return JobResult(
        server=reader.client.shown_url,
        headline=story.history.mark + _headline(row, change, slow, idle) + _others(story.others),
        job=row,
        begin=iso(unix(story.points[0].time) - story.step) if story.points else row.begin,
        end=story.points[-1].time if story.points else row.end,
        step_seconds=story.step,
        points=story.points,
        idle=idle,
        fewer_gpus=shortfalls(story.points, story.step),
        slow_gpus=slow,
        gpus=[
            GpuRow(node=gpu.node, gpu=gpu.gpu, uuid=gpu.uuid, ofu=[*map(gpu.ofu.get, whole)])
            for gpu in story.gpus
        ],
        earlier=[_earlier_row(job, clock) for job in story.earlier],
        earlier_ofu=earlier.ofu,
        change=change,
        missing=missing_rows(reader.missing),
    )


def _earlier_row(job: JobHistory, clock: ServerClock) -> EarlierRow:
    return EarlierRow(
        job_id=job.key.job_id,
        begin=iso(clock.end_of((job.first_hour or 0) - 1)),
        gpu_hours=job.total.held,
        ofu=job.total.ofu,
        mfu=job.total.mfu,
    )


def _others(users: Sequence[str]) -> str:
    """Whose the job's id was, too."""
    return f" The id was of {', '.join(users)}, too: --owner shows that job." if users else ""


def _headline(
    row: JobRow, change: float | None, slow: Sequence[SlowGpuRow], idle: Sequence[StretchRow]
) -> str:
    sentences = [
        "Its OFU is not known."
        if row.ofu is None
        else f"OFU {row.ofu:.1%} over {hours(row.held_gpu_hours)} GPU-hours."
    ]
    parts = lost_hours(row)
    if parts and parts.keys() != {Loss.UNSPLIT}:
        shares = (
            f"{loss.words} {hours / row.observed_gpu_hours:.1%}" for loss, hours in parts.items()
        )
        sentences.append(f"The rest of the peak went to: {', '.join(shares)}.")
    if row.mfu is not None and row.error is not None:
        sentences.append(
            f"It reports an MFU of {row.mfu:.1%}, {100 * row.error:+.1f} points from its OFU ({verdict_words(row)})."
        )
    sentences += served_words(row, "")
    if is_memory_bound(row):
        bound = bound_by_memory(row.memory_ratio or 0.0)
        sentences.append(f"{bound}; a low OFU is no waste here.")
    if change is not None and abs(change) >= 0.1:
        sentences.append(
            f"That is {abs(change):.0%} {'more' if change > 0 else 'less'} than its earlier runs."
        )
    if row.away_gpu_hours:
        sentences.append(
            f"Its nodes were away: of up to {hours(row.away_gpu_hours)} more GPU-hours nothing is known."
        )
    if slow:
        count = len({(each.node, each.gpu) for each in slow})
        sentences.append(f"{count} of its GPUs {'was' if count == 1 else 'were'} slow.")
    if idle:
        nothing = sum(each.minutes for each in idle) / 60
        sentences.append(f"It computed nothing for {nothing:.1f} hours in all.")
    return " ".join(sentences)
