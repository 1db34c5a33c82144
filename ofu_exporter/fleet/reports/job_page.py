"""Writes the story of one job as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ofu_exporter.fleet.reports import pictures, tables
from ofu_exporter.fleet.reports.job_result import GpuRow, JobResult
from ofu_exporter.fleet.reports.job_rows import unix
from ofu_exporter.fleet.reports.job_text import sections
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.fleet.reports.time_picture import PictureLine, TimeAxis, TimePicture, over_time
from ofu_exporter.support.drawing import Drawing
from ofu_exporter.support.templates import render
from ofu_exporter.values.losses import Loss

MOST_ROWS = 128
"""GPUs in the heat map; of more, the slowest are shown."""


class GpuPicture(NamedTuple):
    """The heat map, how many GPUs are in it, and how many are not."""

    drawing: Drawing
    rows: int
    left_out: int


def page(result: JobResult) -> str:
    """The whole file."""
    row = result.job
    facts = (
        f"{row.user or tables.NONE} · {row.account or tables.NONE} · {tables.gpus(row.gpus)} GPUs of "
        f"{row.model or 'an unknown model'} · {result.begin} to {result.end}"
    )
    return render(
        "fleet_job.html",
        title=f"Job {row.shown_name} {row.job_name}",
        facts=facts,
        result=result,
        points=_points(result) if result.points else None,
        losses=_losses(result) if any(point.lost for point in result.points) else None,
        gpus=_gpus(result.gpus, row) if result.gpus else None,
        sections=[*sections(result)],
        missing=[each.words for each in result.missing],
    )


def _points(result: JobResult) -> TimePicture:
    lines = [
        PictureLine("activity", "tensor activity", [point.activity for point in result.points]),
        PictureLine("ofu", "OFU", [point.ofu for point in result.points]),
        PictureLine("mfu", "MFU", [point.mfu for point in result.points]),
    ]
    gpus = [point.gpus for point in result.points]
    step = result.step_seconds
    axis = TimeAxis(unix(result.points[0].time) - step, step)
    label = "OFU, reported MFU and tensor activity of the job over time"
    return over_time(lines, gpus, axis, label)


def _losses(result: JobResult) -> TimePicture:
    """Where the rest of the peak went, a line for each part that was ever known."""
    points = result.points
    kinds = [loss for loss in Loss if any(loss in point.lost for point in points)]
    lines = [
        PictureLine(loss.value, loss.words, [point.lost.get(loss) for point in points])
        for loss in kinds
    ]
    axis = TimeAxis(unix(points[0].time) - result.step_seconds, result.step_seconds)
    label = "Where the rest of the peak went over time, by part"
    return over_time(lines, [point.gpus for point in points], axis, label)


def _gpus(gpus: Sequence[GpuRow], job: JobRow) -> GpuPicture:
    shown = [(f"{gpu.node.partition(':')[0][-14:]} {gpu.gpu}", gpu.ofu) for gpu in gpus]
    if len(gpus) > MOST_ROWS:
        means = {name: _mean(values) for name, values in shown}
        shown = sorted(shown, key=lambda row: means[row[0]])[:MOST_ROWS]
    times = (job.begin[:16], job.end[:16])
    drawing = pictures.heat_map(shown, times, "OFU of the job's GPUs, a row each, hour by hour")
    return GpuPicture(drawing, len(shown), len(gpus) - len(shown))


def _mean(values: Sequence[float | None]) -> float:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else float("inf")
