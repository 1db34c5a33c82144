"""What a framework's own output says about its FLOPs and MFU, in one form whatever the framework."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ofu_exporter.errors import ConfigError


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What a framework's output does not say about its job. None = not known."""

    world_size: int | None = None
    """All GPUs of the job."""
    data_parallel_size: int | None = None
    peak_flops: float | None = None
    """Dense FLOP/s of one GPU, effective over the precisions in use."""
    step_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a framework. None = it doesn't say, nor does it follow from the job."""

    step: int | None = None
    name: str = ""
    """Which of several it's about: `actor`, `ref`, the labels of a counter."""
    flops: float | None = None
    """FLOPs of one GPU over `seconds`."""
    seconds: float | None = None
    flops_per_second: float | None = None
    """Of one GPU."""
    mfu: float | None = None
    """With the right denominator, where the framework's is wrong and the job says what is right."""
    hfu: float | None = None
    """Instead of MFU where the framework sums up what the hardware ran."""
    notes: tuple[str, ...] = ()
    """What to know before comparing it."""


def ratio(flops_per_second: float | None, job: JobFacts) -> float | None:
    """FLOP/s of one GPU over its peak, None where either isn't known."""
    if flops_per_second is None or job.peak_flops is None:
        return None
    return flops_per_second / job.peak_flops


def number(text: str, where: str) -> float:
    """A number of at least 0. Raises ConfigError that says where it stands otherwise."""
    try:
        value = float(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {text!r} is not a number") from error
    if not math.isfinite(value) or value < 0:
        raise ConfigError(f"{where}: {text!r} is not a number of at least 0")
    return value


def found(reports: list[Statement], what: str) -> list[Statement]:
    """The reports. Raises ConfigError when there is none."""
    if not reports:
        raise ConfigError(f"no {what} in it")
    return reports
