"""Says how well the MFU that jobs report and the OFU of their GPUs agree, over jobs that count alike."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field


class Pair(NamedTuple):
    """MFU and OFU of one job over the same seconds, 0..1."""

    mfu: float
    ofu: float


class Agreement(BaseModel):
    """Statistics over jobs. Ratios are 0..1, so an error of 0.05 is 5 points."""

    model_config = ConfigDict(frozen=True)

    jobs: int = Field(description="Jobs that report.")
    mean_mfu: float | None
    mean_ofu: float | None
    pearson: float | None = Field(
        description="Correlation of MFU and OFU; null below 3 jobs, or where one does not vary."
    )
    mean_absolute_error: float | None = Field(description="Mean of |MFU - OFU|.")
    within_2_points: float | None = Field(description="Share of jobs with |MFU - OFU| <= 0.02.")
    within_5_points: float | None
    within_10_points: float | None
    beyond_20_points: float | None


def agreement(pairs: Sequence[Pair]) -> Agreement:
    """The statistics of some jobs; all but their number is None where there are none."""
    errors = [abs(pair.mfu - pair.ofu) for pair in pairs]
    return Agreement(
        jobs=len(pairs),
        mean_mfu=mean([pair.mfu for pair in pairs]),
        mean_ofu=mean([pair.ofu for pair in pairs]),
        pearson=pearson(pairs),
        mean_absolute_error=mean(errors),
        within_2_points=_share(errors, 0.02),
        within_5_points=_share(errors, 0.05),
        within_10_points=_share(errors, 0.10),
        beyond_20_points=None
        if not errors
        else sum(error > 0.20 for error in errors) / len(errors),
    )


def mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def deviation(values: Sequence[float]) -> float | None:
    """The sample's standard deviation; None below two values."""
    return statistics.stdev(values) if len(values) > 1 else None


def pearson(pairs: Sequence[Pair]) -> float | None:
    """The correlation; None where it has no meaning."""
    if len(pairs) < 3:
        return None
    try:
        return statistics.correlation(*zip(*pairs, strict=True))
    except statistics.StatisticsError:  # one of them does not vary
        return None


def _share(errors: Sequence[float], limit: float) -> float | None:
    return sum(error <= limit for error in errors) / len(errors) if errors else None
