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
from ofu_exporter.values.reading import Fault, Reading, Window
from ofu_exporter.values.reasons import Reason, Rejection
from ofu_exporter.values.snapshot import GpuView


class GpuState(NamedTuple):
    """What is remembered of one GPU from tick to tick."""

    view: GpuView
    """What the agent's pages may say of it, but for who reads and holds it. Its window is made of the recent ones."""
    rows: Sequence[GpuModel] = ()
    """The user's rows that its rating was found with."""
    recent: tuple[Window, ...] = ()
    """The windows that are shown as one: the last, and some before it where it is short."""
    trust: CycleTrust = CycleTrust()
    clock: ClockMemory | None = None
    """What the last windows have shown of the SM clock."""
    suspicion: Suspicion = Suspicion()
    counted_before: float = -math.inf
    """Monotonic time up to which an earlier agent had counted this GPU."""
    seen_at: float | None = None
    """Monotonic time at which the source last named the GPU; None while it does."""

    def shows(self, **changes: Any) -> GpuState:
        """The same, of which the pages say something else."""
        return self._replace(view=self.view._replace(**changes))


def take_fault(state: GpuState, fault: Fault) -> GpuState:
    """The state after a fault: a GPU that cannot be read shows nothing of what it showed before."""
    reason, detail = unrated.explain(state.view.gpu, fault.reason, fault.detail)
    shown_now = state.shows(window=None, reason=reason, detail=detail)
    return shown_now._replace(trust=CycleTrust(), suspicion=Suspicion())


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
    return _with_window(state._replace(suspicion=verdict.suspicion), reading, interval)


def _with_window(
    state: GpuState, reading: Reading, interval: float
) -> tuple[GpuState, Window | None]:
    """The same of a reading that is believed."""
    before = state.view
    gap = before.sampled_at is None or reading.start > before.sampled_at + OVERLAP_SECONDS
    trust = CycleTrust() if gap else state.trust
    outcome = measure(reading, before.rating, trust, state.clock, before.share.ratio)
    state = state._replace(trust=outcome.trust, clock=outcome.clock or state.clock).shows(
        rejected=_counted(before.rejected, outcome.rejected),
        window=None,
        reason=outcome.reason,
        detail=outcome.detail,
    )
    window = outcome.window
    if window is None:
        return state, None
    if outcome.reason is not None:
        reason, detail = unrated.explain(before.gpu, outcome.reason, outcome.detail)
        state = state.shows(reason=reason, detail=detail)
    longest = max(interval, window.seconds, reading.pace)
    recent = shown.latest(state.recent, window, interval)
    state = state._replace(recent=recent).shows(
        window=shown.joined(recent), fresh_until=window.end + 2.5 * longest + 1.0
    )
    if window.utilization is None or not reading.counts:
        return state, None
    return _with_totals(state, window), window


def _with_totals(state: GpuState, window: Window) -> GpuState:
    before = state.view
    return state.shows(
        utilization_seconds=before.utilization_seconds + window.used_seconds,
        observed_seconds=before.observed_seconds + window.observed_seconds,
        sums=before.sums.plus(window.sums),
        sampled_at=window.end,
    )


def _refused(state: GpuState, reading: Reading) -> GpuState | None:
    """The state after a reading that cannot be used, whatever it says; None when it can be used."""
    if plausibility.runs_backwards(reading, state.view.sampled_at):
        return _disbelieve(state, Rejection.TIME_BACKWARDS, "the source's time runs backwards")
    until = state.view.sampled_at
    until = state.counted_before if until is None else until
    if reading.counts and reading.start < until - OVERLAP_SECONDS:
        return reject(state, [Rejection.OVERLAP])
    return None


def _disbelieve(state: GpuState, why: Rejection, detail: str) -> GpuState:
    """The state after counters that cannot all be true: they are counted and marked, and none is shown."""
    marked = state.shows(window=None, reason=Reason.IMPLAUSIBLE, detail=detail)
    return reject(marked._replace(trust=CycleTrust()), [why])


def reject(state: GpuState, rejections: Sequence[Rejection]) -> GpuState:
    """Count values that were not believed."""
    return state.shows(rejected=_counted(state.view.rejected, rejections)) if rejections else state


def _counted(before: Mapping[str, int], rejections: Sequence[Rejection]) -> Mapping[str, int]:
    if not rejections:
        return before
    counts = Counter(before)
    counts.update(rejection.value for rejection in rejections)
    return dict(counts)


def expire(state: GpuState, now: float) -> GpuState:
    """Drop a window that is too old to be shown."""
    if state.view.window is not None and now > state.view.fresh_until:
        return state.shows(window=None, reason=Reason.STALE)
    return state
