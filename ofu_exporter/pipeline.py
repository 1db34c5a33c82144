"""The tick: (state, what was measured, now) -> (state, snapshot), pure.

No clock, no I/O, no lock: given the same arguments it gives the same answer, so a recording put
through it twice makes the same page twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ofu_exporter.cycles import CycleTrust
from ofu_exporter.errors import Reason, Rejection
from ofu_exporter.gpus import Row, rate
from ofu_exporter.records import (
    Fault,
    Gpu,
    GpuKey,
    GpuView,
    Rating,
    Reading,
    Snapshot,
    SourceHealth,
    Window,
)
from ofu_exporter.window import measure

FORGET_AFTER_SECONDS = 3600.0
"""A GPU that its source no longer names is remembered this long, so that its totals can go on."""
OVERLAP_SECONDS = 1e-6
"""Windows may overlap by a rounding of their bounds, not more."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """What is remembered of one GPU from tick to tick."""

    gpu: Gpu
    rating: Rating | None
    seen_at: float
    rows: Sequence[Row] = ()
    """The user's rows that `rating` was found with."""
    window: Window | None = None
    reason: Reason | None = Reason.STARTING
    detail: str = ""
    fresh_until: float = 0.0
    utilization_seconds: float = 0.0
    observed_seconds: float = 0.0
    rejected: Mapping[str, int] = field(default_factory=dict)
    trust: CycleTrust = field(default_factory=CycleTrust)
    sampled_at: float | None = None


State = Mapping[GpuKey, GpuState]


@dataclass(frozen=True, slots=True)
class Tick:
    """Everything that one tick takes in."""

    now: float
    interval: float
    """Seconds between two windows, as configured; decides how long a window stays fresh."""
    present: Sequence[Gpu]
    """The GPUs that the source names now, in its order."""
    events: Sequence[Reading | Fault]
    source: SourceHealth
    rows: Sequence[Row] = ()
    """The user's own GPU rows."""


def step(state: State, tick: Tick) -> tuple[State, Snapshot]:
    """Take one tick's readings and faults in; return the new state and what may be shown of it."""
    owners = _owners(tick)
    states = _present(state, owners, tick)
    for event in tick.events:
        key = event.gpu.key
        if owners[key].index != event.gpu.index:
            states[key] = _reject(states[key], [Rejection.DUPLICATE])
        elif isinstance(event, Fault):
            states[key] = _take_fault(states[key], event)
        else:
            states[key] = _take_reading(states[key], event, tick)
    states = {key: _expire(known, tick.now) for key, known in states.items()}
    views = tuple(_view(known) for known in states.values())
    return states, Snapshot(tick.now, views, tick.source)


def _owners(tick: Tick) -> dict[GpuKey, Gpu]:
    """Who a uuid belongs to: of two GPUs that claim it, the first."""
    owners: dict[GpuKey, Gpu] = {}
    for gpu in [*tick.present, *(event.gpu for event in tick.events)]:
        owners.setdefault(gpu.key, gpu)
    return owners


def _present(state: State, owners: Mapping[GpuKey, Gpu], tick: Tick) -> dict[GpuKey, GpuState]:
    """The states to go on with: every GPU named now, and those gone for less than an hour."""
    states: dict[GpuKey, GpuState] = {}
    for key, gpu in owners.items():
        known = state.get(key)
        if known is None:
            states[key] = GpuState(gpu, rate(gpu, tick.rows), tick.now, tick.rows)
        elif known.gpu != gpu or known.rows != tick.rows:
            rating = rate(gpu, tick.rows)
            states[key] = replace(known, gpu=gpu, rating=rating, seen_at=tick.now, rows=tick.rows)
        else:
            states[key] = replace(known, seen_at=tick.now)
    for key, known in state.items():
        remembered = known.observed_seconds > 0 and tick.now - known.seen_at < FORGET_AFTER_SECONDS
        if key not in states and remembered:
            states[key] = known
    return states


def _take_fault(known: GpuState, fault: Fault) -> GpuState:
    """A GPU that cannot be read shows nothing of what it showed before."""
    return replace(known, window=None, reason=fault.reason, detail=fault.detail, trust=CycleTrust())


def _take_reading(known: GpuState, reading: Reading, tick: Tick) -> GpuState:
    if known.sampled_at is not None and reading.start < known.sampled_at - OVERLAP_SECONDS:
        return _reject(known, [Rejection.OVERLAP])
    if known.rating is None:
        return _take_fault(known, Fault(reading.gpu, reading.end, Reason.UNKNOWN_MODEL))
    gap = known.sampled_at is None or reading.start > known.sampled_at + OVERLAP_SECONDS
    outcome = measure(reading, known.rating, CycleTrust() if gap else known.trust)
    known = _reject(replace(known, trust=outcome.trust), outcome.rejected)
    window = outcome.window
    if window is None:
        return replace(known, window=None, reason=outcome.reason, detail=outcome.detail)
    known = replace(
        known,
        window=window,
        reason=outcome.reason,
        detail=outcome.detail,
        fresh_until=window.end + 2.5 * max(tick.interval, window.seconds) + 1.0,
    )
    if window.utilization is None:
        return known
    return replace(
        known,
        utilization_seconds=known.utilization_seconds + window.utilization * window.seconds,
        observed_seconds=known.observed_seconds + window.seconds,
        sampled_at=window.end,
    )


def _reject(known: GpuState, rejections: Sequence[Rejection]) -> GpuState:
    if not rejections:
        return known
    counts = Counter(known.rejected)
    counts.update(rejection.value for rejection in rejections)
    return replace(known, rejected=dict(counts))


def _expire(known: GpuState, now: float) -> GpuState:
    if known.window is not None and now > known.fresh_until:
        return replace(known, window=None, reason=Reason.STALE)
    return known


def _view(known: GpuState) -> GpuView:
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
    )
