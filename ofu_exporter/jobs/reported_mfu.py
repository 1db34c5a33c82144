"""What a job reported of itself as JSON, and how it compares with OFU: part of the job's totals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, computed_field

from ofu_exporter.ofu import divergence
from ofu_exporter.values.reported import (
    Adjusted,
    Causes,
    Compared,
    ErrorMethod,
    ReportsView,
    Verdict,
)


class ReportedMfu(BaseModel):
    """What a job reported of itself, and how it compares with OFU over the same seconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    mfu_seconds: NonNegativeFloat = 0.0
    """Integral of the reported MFU over the compared GPU-seconds."""
    utilization_seconds: NonNegativeFloat = 0.0
    """Integral of OFU over the same GPU-seconds."""
    gpu_seconds: NonNegativeFloat = 0.0
    """GPU-seconds that a report and OFU both cover."""
    variance: NonNegativeFloat = 0.0
    """Variance of the utilization seconds, of windows with several clock samples; s^2."""
    point_seconds: NonNegativeFloat = 0.0
    """GPU-seconds of windows whose clock is one point read, so that their error is not known."""
    point_utilization_seconds: NonNegativeFloat = 0.0
    """Their utilization seconds."""
    point_reads: NonNegativeFloat = 0.0
    """Number of such reads. The next two are the sums of their clocks and of the squared clocks."""
    point_hz: NonNegativeFloat = 0.0
    point_hz_squares: NonNegativeFloat = 0.0
    stderr_ratio: float | None = None
    """Standard error of the OFU of all that was compared; None where it is not known."""
    stderr_method: ErrorMethod | None = None
    """How this error is known. Unless it is measured, the limits of the verdict are wider."""
    last: float | None = None
    """Unix time up to which the job has reported."""
    peak_flops: float | None = None
    """Dense peak of one GPU that the MFU divides by."""
    precision: dict[str, float] | None = None
    """Shares of the FLOPs that the job reported, and that this peak is for."""
    framework: str = ""
    """The name of the framework that the job says it uses; empty where none is known."""
    recent_mfu_ratio: float | None = None
    """Mean reported MFU over the last minutes."""
    recent_verdict: Verdict = Verdict.INSUFFICIENT_DATA
    """Verdict on the last minutes."""
    recent_stderr_ratio: float | None = None
    """Standard error of the OFU of the last minutes."""
    recent_stderr_method: ErrorMethod | None = None
    """How this error is known."""
    verdict: Verdict = Verdict.INSUFFICIENT_DATA
    """Verdict on all that was compared; of several nodes together by the default thresholds."""
    causes: Causes | None = None
    """Causes of the recent verdict."""
    outcomes: dict[str, int] = Field(default_factory=dict)
    """Reports by what became of them."""
    adjusted: Adjusted | None = None
    """None where the job has not reported what tiles add."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def mfu_ratio(self) -> float | None:
        """Mean reported MFU; None if no OFU was observed in the same time."""
        return ratio(self.mfu_seconds, self.gpu_seconds)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def utilization_ratio(self) -> float | None:
        """Mean OFU over the same GPU-seconds."""
        return ratio(self.utilization_seconds, self.gpu_seconds)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def adjusted_utilization_ratio(self) -> float | None:
        """Mean OFU without the tile overhead, from when that overhead was known.

        With a lower bound of the overhead, the true value is at most this one.
        """
        sums = self.adjusted
        return ratio(sums.utilization_seconds, sums.gpu_seconds) if sums else None


def reported_of(reports: ReportsView) -> ReportedMfu:
    """What a job reported on this node."""
    return ReportedMfu(
        **reports.total._asdict(),
        stderr_ratio=reports.total_error.ratio,
        stderr_method=reports.total_error.method,
        last=reports.at,
        peak_flops=reports.peak_flops,
        precision=None if reports.precision is None else dict(reports.precision),
        framework=reports.framework,
        recent_mfu_ratio=reports.mfu,
        recent_verdict=reports.verdict,
        recent_stderr_ratio=reports.error.ratio,
        recent_stderr_method=reports.error.method,
        verdict=reports.total_verdict,
        causes=reports.causes,
        outcomes=dict(reports.outcomes),
        adjusted=reports.adjusted,
    )


def merged_reported(parts: Sequence[ReportedMfu], gpus: float) -> ReportedMfu | None:
    """Sums are added. Values of a moment are those of the part with the last report.

    `gpus` is the least number of GPUs that the compared GPU-seconds belong to.
    """
    if not parts:
        return None
    ordered = sorted(parts, key=lambda one: one.last or 0.0)
    latest = ordered[-1]
    if len(parts) == 1:
        return latest
    outcomes: Counter[str] = Counter()
    for one in parts:
        outcomes.update(one.outcomes)
    sums = {name: math.fsum(getattr(one, name) for one in parts) for name in Compared._fields}
    compared = Compared(**sums)
    error = compared.error(gpus)
    about = {
        "outcomes": dict(outcomes),
        "framework": next((one.framework for one in reversed(ordered) if one.framework), ""),
        "verdict": divergence.verdict(compared, gpus),
        "stderr_ratio": error.ratio,
        "stderr_method": error.method,
        "adjusted": _merged_adjusted([one.adjusted for one in ordered if one.adjusted]),
    }
    return latest.model_copy(update={**sums, **about})


def _merged_adjusted(parts: Sequence[Adjusted]) -> Adjusted | None:
    """Sums are added, and the overhead is the last one. If one part is a lower bound, so is the whole."""
    if not parts:
        return None
    return replace(
        parts[-1],
        bound="lower" if any(one.bound == "lower" for one in parts) else parts[-1].bound,
        utilization_seconds=math.fsum(one.utilization_seconds for one in parts),
        gpu_seconds=math.fsum(one.gpu_seconds for one in parts),
    )


def ratio(numerator: float, denominator: float) -> float | None:
    """A ratio; None where its denominator is 0."""
    return numerator / denominator if denominator > 0 else None
