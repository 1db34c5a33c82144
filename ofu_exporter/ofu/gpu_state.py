"""What one GPU's readings and faults make of what is remembered of it, pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ofu_exporter.hardware.gpu_models import GpuModel
from ofu_exporter.ofu import plausibility
from ofu_exporter.ofu.cycles import CycleTrust
from ofu_exporter.ofu.plausibility import OVERLAP_SECONDS, Suspicion
from ofu_exporter.ofu.window import measure
from ofu_exporter.values.gpu import Gpu, Rating
from ofu_exporter.values.job import Job
from ofu_exporter.values.reading import Fault, Reading, Window
from ofu_exporter.values.reasons import Reason, Rejection
from ofu_exporter.values.snapshot import GpuView


@dataclass(frozen=True, slots=True)
class GpuState:
    """What is remembered of one GPU from tick to tick."""

    gpu: Gpu
    rating: Rating | None
    seen_at: float
    rows: Sequence[GpuModel] = ()
    """The user's rows that `rating` was found with."""
    window: Window | None = None
    reason: Reason | None = Reason.STARTING
    detail: str = ""
    fresh_until: float = 0.0
    utilization_seconds: float = 0.0
    observed_seconds: float = 0.0
    rejected: Mapping[str, int] = field(default_factory=dict)
    trust: CycleTrust = field(default_factory=CycleTrust)
    doubt: Suspicion = field(default_factory=Suspicion)
    sampled_at: float | None = None
    counted_before: float = -math.inf
    """What an earlier agent had counted already ends here."""


def take_fault(known: GpuState, fault: Fault) -> GpuState:
    """A GPU that cannot be read shows nothing of what it showed before."""
    return replace(
        known,
        window=None,
        reason=fault.reason,
        detail=fault.detail,
        trust=CycleTrust(),
        doubt=Suspicion(),
    )


def take_reading(
    known: GpuState, reading: Reading, interval: float
) -> tuple[GpuState, Window | None]:
    """What is known after a reading, and the window that counts; None when it does not.

    `interval` is the time between two windows in seconds; it decides how long this one stays fresh.
    """
    refused = _refused(known, reading)
    if refused is not None:
        return refused, None
    verdict = plausibility.judge(known.doubt, reading)
    known = replace(known, doubt=verdict.doubt)
    if verdict.rejection is not None:
        return _disbelieve(known, verdict.rejection, verdict.detail), None
    rating = known.rating
    assert rating is not None
    gap = known.sampled_at is None or reading.start > known.sampled_at + OVERLAP_SECONDS
    outcome = measure(reading, rating, CycleTrust() if gap else known.trust)
    known = reject(replace(known, trust=outcome.trust), outcome.rejected)
    window = outcome.window
    if window is None:
        return replace(known, window=None, reason=outcome.reason, detail=outcome.detail), None
    known = replace(
        known,
        window=window,
        reason=outcome.reason,
        detail=outcome.detail,
        fresh_until=window.end + 2.5 * max(interval, window.seconds, reading.pace) + 1.0,
    )
    if window.utilization is None:
        return known, None
    counted = replace(
        known,
        utilization_seconds=known.utilization_seconds + window.utilization * window.seconds,
        observed_seconds=known.observed_seconds + window.seconds,
        sampled_at=window.end,
    )
    return counted, window


def _refused(known: GpuState, reading: Reading) -> GpuState | None:
    """What is known when a reading cannot be used, whatever it says; None when it can."""
    if plausibility.runs_backwards(reading, known.sampled_at):
        return _disbelieve(known, Rejection.TIME_BACKWARDS, "the source's time runs backwards")
    until = known.counted_before if known.sampled_at is None else known.sampled_at
    if reading.start < until - OVERLAP_SECONDS:
        return reject(known, [Rejection.OVERLAP])
    if known.rating is None:
        return take_fault(known, Fault(reading.gpu, reading.end, Reason.UNKNOWN_MODEL))
    return None


def _disbelieve(known: GpuState, why: Rejection, detail: str) -> GpuState:
    """What the counters say together cannot be: it is counted and marked, and nothing of it is shown."""
    marked = replace(
        known, window=None, reason=Reason.IMPLAUSIBLE, detail=detail, trust=CycleTrust()
    )
    return reject(marked, [why])


def reject(known: GpuState, rejections: Sequence[Rejection]) -> GpuState:
    """Count what was not believed."""
    if not rejections:
        return known
    counts = Counter(known.rejected)
    counts.update(rejection.value for rejection in rejections)
    return replace(known, rejected=dict(counts))


def expire(known: GpuState, now: float) -> GpuState:
    """Let go of a window that is too old to be shown."""
    if known.window is not None and now > known.fresh_until:
        return replace(known, window=None, reason=Reason.STALE)
    return known


def view(known: GpuState, holders: tuple[Job, ...], source: str) -> GpuView:
    """What the faces may say of it."""
    return GpuView(
        gpu=known.gpu,
        rating=known.rating,
        window=known.window,
        reason=known.reason,
        detail=known.detail,
        utilization_seconds=known.utilization_seconds,
        observed_seconds=known.observed_seconds,
        rejected=known.rejected,
        sampled_at=known.sampled_at,
        fresh_until=known.fresh_until,
        source=source,
        holders=holders,
    )
