"""Keeps what is remembered of one GPU up to date with its readings and faults; the functions are pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ofu_exporter.hardware import unrated
from ofu_exporter.hardware.gpu_models import GpuModel
from ofu_exporter.ofu import plausibility, shown
from ofu_exporter.ofu.clock import ClockMemory
from ofu_exporter.ofu.cycles import CycleTrust
from ofu_exporter.ofu.plausibility import OVERLAP_SECONDS, Suspicion
from ofu_exporter.ofu.window import measure
from ofu_exporter.values.gpu import WHOLE, Gpu, Rating, Share
from ofu_exporter.values.job import Job
from ofu_exporter.values.losses import NO_LOSSES, LossSums
from ofu_exporter.values.reading import Fault, Reading, Window
from ofu_exporter.values.reasons import Reason, Rejection
from ofu_exporter.values.snapshot import GpuView


class GpuState(NamedTuple):
    """What is remembered of one GPU from tick to tick."""

    gpu: Gpu
    rating: Rating | None
    share: Share = WHOLE
    """The part of a whole GPU that the device counts as."""
    rows: Sequence[GpuModel] = ()
    """The user's rows that `rating` was found with."""
    window: Window | None = None
    """The last window."""
    recent: tuple[Window, ...] = ()
    """The windows that are shown as one: the last, and some before it where it is short."""
    reason: Reason | None = Reason.STARTING
    detail: str = ""
    fresh_until: float = 0.0
    utilization_seconds: float = 0.0
    observed_seconds: float = 0.0
    sums: LossSums = NO_LOSSES
    rejected: Mapping[str, int] = {}
    trust: CycleTrust = CycleTrust()
    clock: ClockMemory | None = None
    """What the last windows have shown of the SM clock."""
    suspicion: Suspicion = Suspicion()
    sampled_at: float | None = None
    counted_before: float = -math.inf
    """Monotonic time up to which an earlier agent had counted this GPU."""
    seen_at: float | None = None
    """Monotonic time at which the source last named the GPU; None while it does."""


def take_fault(state: GpuState, fault: Fault) -> GpuState:
    """The state after a fault: a GPU that cannot be read shows nothing of what it showed before."""
    reason, detail = unrated.explain(state.gpu, fault.reason, fault.detail)
    return state._replace(
        window=None,
        reason=reason,
        detail=detail,
        trust=CycleTrust(),
        suspicion=Suspicion(),
    )


def take_reading(
    state: GpuState, reading: Reading, interval: float
) -> tuple[GpuState, Window | None]:
    """The state after a reading, and the window that counts; None when it does not count.

    `interval` is the time between two windows in seconds; it decides how long this window stays fresh.
    """
    refused = _refused(state, reading)
    if refused is not None:
        return refused, None
    verdict = plausibility.judge(state.suspicion, reading)
    if verdict.rejection is not None:
        suspected = state._replace(suspicion=verdict.suspicion)
        return _disbelieve(suspected, verdict.rejection, verdict.detail), None
    gap = state.sampled_at is None or reading.start > state.sampled_at + OVERLAP_SECONDS
    trust = CycleTrust() if gap else state.trust
    outcome = measure(reading, state.rating, trust, state.clock, state.share.ratio)
    changes: dict[str, Any] = {
        "suspicion": verdict.suspicion,
        "trust": outcome.trust,
        "clock": outcome.clock or state.clock,
        "rejected": _counted(state.rejected, outcome.rejected),
        "window": None,
        "reason": outcome.reason,
        "detail": outcome.detail,
    }
    window = outcome.window
    if window is None:
        return state._replace(**changes), None
    if outcome.reason is not None:
        reason, detail = unrated.explain(state.gpu, outcome.reason, outcome.detail)
        changes.update(reason=reason, detail=detail)
    longest = max(interval, window.seconds, reading.pace)
    recent = shown.latest(state.recent, window, interval)
    changes.update(window=window, recent=recent, fresh_until=window.end + 2.5 * longest + 1.0)
    if window.utilization is None or not reading.counts:
        return state._replace(**changes), None
    changes.update(
        utilization_seconds=state.utilization_seconds + window.used_seconds,
        observed_seconds=state.observed_seconds + window.observed_seconds,
        sums=state.sums.plus(window.sums),
        sampled_at=window.end,
    )
    return state._replace(**changes), window


def _refused(state: GpuState, reading: Reading) -> GpuState | None:
    """The state after a reading that cannot be used, whatever it says; None when it can be used."""
    if plausibility.runs_backwards(reading, state.sampled_at):
        return _disbelieve(state, Rejection.TIME_BACKWARDS, "the source's time runs backwards")
    until = state.counted_before if state.sampled_at is None else state.sampled_at
    if reading.counts and reading.start < until - OVERLAP_SECONDS:
        return reject(state, [Rejection.OVERLAP])
    return None


def _disbelieve(state: GpuState, why: Rejection, detail: str) -> GpuState:
    """The state after counters that cannot all be true: they are counted and marked, and none is shown."""
    marked = state._replace(
        window=None, reason=Reason.IMPLAUSIBLE, detail=detail, trust=CycleTrust()
    )
    return reject(marked, [why])


def reject(state: GpuState, rejections: Sequence[Rejection]) -> GpuState:
    """Count values that were not believed."""
    return state._replace(rejected=_counted(state.rejected, rejections)) if rejections else state


def _counted(before: Mapping[str, int], rejections: Sequence[Rejection]) -> Mapping[str, int]:
    if not rejections:
        return before
    counts = Counter(before)
    counts.update(rejection.value for rejection in rejections)
    return dict(counts)


def expire(state: GpuState, now: float) -> GpuState:
    """Drop a window that is too old to be shown."""
    if state.window is not None and now > state.fresh_until:
        return state._replace(window=None, reason=Reason.STALE)
    return state


def view(state: GpuState, holders: tuple[Job, ...], source: str) -> GpuView:
    """What the agent's pages may say of the GPU."""
    return GpuView(
        gpu=state.gpu,
        rating=state.rating,
        share=state.share,
        window=shown.joined(state.recent) if state.window else None,
        reason=state.reason,
        detail=state.detail,
        utilization_seconds=state.utilization_seconds,
        observed_seconds=state.observed_seconds,
        sums=state.sums,
        rejected=state.rejected,
        sampled_at=state.sampled_at,
        fresh_until=state.fresh_until,
        source=source,
        holders=holders,
    )
