"""The tick: (state, what was measured, who owned it, now) -> (state, snapshot), pure.

No clock, no I/O, no lock: given the same arguments it gives the same answer, so a recording put
through it twice makes the same page twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ofu_exporter.hardware.gpu_models import GpuModel, rate
from ofu_exporter.hardware.mig_shares import shares
from ofu_exporter.ofu.gpu_state import GpuState, expire, reject, take_fault, take_reading
from ofu_exporter.ofu.ownership.owners import OwnerState
from ofu_exporter.ofu.ownership.tick import OwnerTick, take
from ofu_exporter.values.gpu import Gpu, GpuKey, Share, unnamed
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import JobKey, Ownership
from ofu_exporter.values.reading import Fault, Reading, Window
from ofu_exporter.values.reasons import Reason, Rejection
from ofu_exporter.values.snapshot import GpuView, SchedulerHealth, Snapshot, SourceHealth

FORGET_AFTER_SECONDS = 3600.0
"""A GPU that its source no longer names is remembered this long, so that its totals can go on."""
MOST_GONE = 128
"""Most GPUs that are remembered in this way: a page that names other GPUs each time must not fill the memory."""
CLOCK_STEP_SECONDS = 1.0
"""A clock under a time server drifts by milliseconds between two ticks. One that jumps by more than this was set."""


@dataclass(frozen=True, slots=True)
class State:
    """All that is remembered from tick to tick."""

    at: float = 0.0
    """Monotonic time of the last tick."""
    gpus: Mapping[GpuKey, GpuState] = field(default_factory=dict)
    owners: OwnerState = field(default_factory=OwnerState)
    counted_before: Mapping[GpuKey, float] = field(default_factory=dict)
    """Monotonic time up to which an earlier agent had counted each GPU."""
    boot_unix: float | None = None
    """Unix time at 0 of the monotonic clock, as of the last tick."""
    clock_steps: int = 0
    """How often `boot_unix` changed by more than the clock's own drift."""


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
    rows: Sequence[GpuModel] = ()
    """The user's own GPU rows."""
    unix: float = 0.0
    """Unix time at `now`; 0 = not known."""
    owners: Sequence[Ownership] = ()
    """Every change of who owns what since the last tick, oldest first."""
    schedulers: tuple[SchedulerHealth, ...] = ()
    other_sources: tuple[SourceHealth, ...] = ()
    readers: Mapping[str, str] = field(default_factory=dict)
    """The name of the source that each GPU is read through, by uuid, where there are several."""
    stepped: frozenset[tuple[JobKey, str]] = frozenset()
    """The jobs whose run, by its uid, has stated a step."""


def step(state: State, tick: Tick) -> tuple[State, Snapshot]:
    """Take in one tick's readings, faults and changes of owner; return the new state and the snapshot to show."""
    state, tick = _watch_clock(state, tick), _with_names(state, tick)
    named = _gpus_by_key(tick)
    gpus, windows = _measured(_present(state, named, tick), named, tick)
    owner_tick = OwnerTick(
        shares={each.view.gpu: each.view.share for each in gpus.values()},
        are_all_read=bool(gpus)
        and all(each.view.reason is not Reason.STARTING for each in gpus.values()),
        changes=tick.owners,
        windows=windows,
        stepped=tick.stepped,
    )
    owners = take(state.owners, owner_tick, Instant(tick.now, tick.unix))
    state = replace(state, at=tick.now, gpus=gpus, owners=owners)
    return state, _snapshot(state, tick)


def _with_names(state: State, tick: Tick) -> Tick:
    """The tick with the GPU that was last at its index for one that, found anew, has not said yet which it is.

    After a reload or a pause a GPU that is lost or hangs would else be there twice.
    """
    if not any(gpu.is_unnamed for gpu in (*tick.present, *(each.gpu for each in tick.events))):
        return tick
    named = [gpu for gpu in tick.present if not gpu.is_unnamed]
    here = {gpu.uuid for gpu in named}
    gone = [each for each in state.gpus.values() if each.view.gpu.uuid not in here]
    gone.sort(key=lambda each: math.inf if each.seen_at is None else each.seen_at)
    parts: dict[GpuKey, list[Gpu]] = {}
    for gpu in (*(each.view.gpu for each in gone), *named):
        key = GpuKey(unnamed(gpu.index), "")
        parts[key] = [*(part for part in parts.get(key, ()) if part.uuid == gpu.uuid), gpu]
    present = [each for gpu in tick.present for each in parts.get(gpu.key, [gpu])]
    events = [
        replace(event, gpu=gpu)
        for event in tick.events
        for gpu in parts.get(event.gpu.key, [event.gpu])
    ]
    return replace(tick, present=present, events=events)


def _measured(
    gpus: dict[GpuKey, GpuState], named: Mapping[GpuKey, Gpu], tick: Tick
) -> tuple[dict[GpuKey, GpuState], list[tuple[Gpu, Window]]]:
    """The GPUs after the tick's readings and faults, and the windows that count."""
    windows: list[tuple[Gpu, Window]] = []
    for event in tick.events:
        key = event.gpu.key
        if named[key].index != event.gpu.index:
            gpus[key] = reject(gpus[key], [Rejection.DUPLICATE])
        elif isinstance(event, Fault):
            gpus[key] = take_fault(gpus[key], event)
        else:
            gpus[key], window = take_reading(gpus[key], event, tick.interval)
            if window is not None:
                windows.append((event.gpu, window))
    return {key: expire(each, tick.now) for key, each in gpus.items()}, windows


def _watch_clock(state: State, tick: Tick) -> State:
    """Count when somebody set the node's clock. Windows, totals and deadlines go by the monotonic clock."""
    if not tick.unix:
        return state
    boot = tick.unix - tick.now
    stepped = state.boot_unix is not None and abs(boot - state.boot_unix) > CLOCK_STEP_SECONDS
    return replace(state, boot_unix=boot, clock_steps=state.clock_steps + stepped)


def _snapshot(state: State, tick: Tick) -> Snapshot:
    return Snapshot(
        at=tick.now,
        gpus=tuple(
            gpu_state.view._replace(
                source=tick.readers.get(key.uuid, ""), holders=state.owners.holders(key)
            )
            for key, gpu_state in state.gpus.items()
        ),
        source=tick.source,
        jobs=state.owners.views(Instant(tick.now, tick.unix)),
        schedulers=tuple(state.owners.with_rejected(health) for health in tick.schedulers),
        unknown_devices=tuple(sorted(state.owners.unknown)),
        other_sources=tick.other_sources,
        clock_steps=state.clock_steps,
        unix=tick.unix,
    )


def _gpus_by_key(tick: Tick) -> dict[GpuKey, Gpu]:
    """The GPU that each key belongs to: the first of two that claim one uuid."""
    named: dict[GpuKey, Gpu] = {}
    for gpu in [*tick.present, *(event.gpu for event in tick.events)]:
        named.setdefault(gpu.key, gpu)
    return named


def _present(state: State, named: Mapping[GpuKey, Gpu], tick: Tick) -> dict[GpuKey, GpuState]:
    """The states to go on with: those of every GPU named now, and of GPUs gone for less than an hour.

    The old parts of a GPU that is divided anew, or the whole of one that is divided now, are forgotten at once:
    the GPU is there, this part of it is not, and another part may be made with its id.
    """
    uuids = {gpu.uuid for gpu in named.values()}
    share_of = shares(named.values(), tick.rows)
    states = {key: _described(state, gpu, share_of[key], tick.rows) for key, gpu in named.items()}
    last_seen = {
        key: state.at if gpu_state.seen_at is None else gpu_state.seen_at
        for key, gpu_state in state.gpus.items()
        if gpu_state.view.observed_seconds > 0 and key.uuid not in uuids
    }
    gone = [key for key, at in last_seen.items() if tick.now - at < FORGET_AFTER_SECONDS]
    remembered = sorted(gone, key=last_seen.__getitem__)[-MOST_GONE:]
    return states | {key: state.gpus[key]._replace(seen_at=last_seen[key]) for key in remembered}


def _described(state: State, gpu: Gpu, share: Share, rows: Sequence[GpuModel]) -> GpuState:
    gpu_state = state.gpus.get(gpu.key)
    if gpu_state is None:
        before = state.counted_before.get(gpu.key, -math.inf)
        view = GpuView(gpu, rate(gpu, rows), share=share)
        return GpuState(view, rows, counted_before=before)
    view = gpu_state.view
    if (view.gpu, view.share, gpu_state.rows, gpu_state.seen_at) == (gpu, share, rows, None):
        return gpu_state
    described = gpu_state.shows(gpu=gpu, rating=rate(gpu, rows), share=share)
    if (view.gpu.profile, view.gpu.mig_uuid) != (gpu.profile, gpu.mig_uuid):
        described = described.shows(window=None, reason=Reason.STARTING)  # another instance
    return described._replace(rows=rows, seen_at=None)
