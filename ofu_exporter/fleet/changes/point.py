"""What a change is looked for in: one point for each job or hour, in the order of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

IDLE_OFU = 0.001
"""OFU below which a GPU is idle, as in the recording rules. A lower value is read as this one, whose log exists."""
RESOLUTION = 0.01
"""Scatter, as a fraction of OFU, that is always assumed: the OFU of a job is never known better."""
CLIP = 8.0
"""Points are clipped at this many standard deviations from the median, so that one odd job is no change."""
NORMAL_MAD = 1.4826
"""Standard deviation of normal noise / its median absolute deviation."""


@dataclass(frozen=True, slots=True)
class OfuPoint:
    """OFU of one job or of one hour."""

    at_unix: float
    """When the job or the hour began."""
    value: float
    """A ratio: OFU, or OFU divided by that of peers."""
    gpus: float = 1.0
    gpu_hours: float = 0.0
    """How long the GPUs were measured."""
    job_id: str = ""


def logs(points: Sequence[OfuPoint]) -> list[float]:
    """The logs of the values: a change by a factor is a step in them."""
    return [math.log(max(each.value, IDLE_OFU)) for each in points]


def prepared(points: Sequence[OfuPoint]) -> list[float]:
    return clipped(logs(points))


def clipped(values: Sequence[float]) -> list[float]:
    """The values, each at most eight robust standard deviations from their median."""
    middle = median(values)
    scale = NORMAL_MAD * median(abs(value - middle) for value in values)
    reach = CLIP * max(scale, RESOLUTION)
    if scale == 0:  # more than half are equal: the rest may be another level rather than odd
        return list(values)
    return [min(max(value, middle - reach), middle + reach) for value in values]


def sizes(points: Sequence[OfuPoint]) -> list[float] | None:
    """Log of each job's GPUs; None where all jobs are of one size, or too few are of another to tell what size does."""
    logs = [math.log2(max(each.gpus, 1e-3)) for each in points]
    usual = max(set(logs), key=logs.count)
    return logs if sum(size != usual for size in logs) >= 2 else None
