"""Makes readings and faults from one connection to a host engine, from its first census to its last sample."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ofu_exporter.sources.dcgm.devices import UNTOLD, Census, Defect, Device, describe, take_census
from ofu_exporter.sources.dcgm.fields import TENSOR
from ofu_exporter.sources.dcgm.host_engine import AHEAD_SECONDS, HostEngine
from ofu_exporter.sources.dcgm.library import REASONS, Entity, Sample
from ofu_exporter.sources.dcgm.samples import Anchor, DeviceSamples
from ofu_exporter.sources.dcgm.watches import RETRY_SECONDS, Watches
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Time between two searches for new and lost GPUs and instances."""
PATIENCE_INTERVALS = 3
"""A watched device without a value for this many intervals and a second has a fault."""
CLOCK_STEP_SECONDS = 0.1
"""The node's clock was set when it moves by more than this against the monotonic one between two reads."""

PRE_HOPPER = (
    "profiling GPUs before Hopper is off: it takes their counters from every other profiler, and has "
    "hung A10 and A40; --dcgm-pre-hopper turns it on"
)


class _Row:
    """One device, its samples, and the time of its last value."""

    def __init__(self, device: Device, interval: float, now: float) -> None:
        self.device = device
        self.samples = DeviceSamples(device.gpu, interval)
        self.missing: frozenset[int] = frozenset()
        """Fields that the last window lacks."""
        self.begun_at = now
        self.heard_at = now


class Session:
    """One connection. The DcgmError of a connection that is gone ends the session."""

    def __init__(
        self,
        engine: HostEngine,
        interval: float,
        pre_hopper: bool,
        now: Callable[[], Anchor],
        rejected: Counter[str],
    ) -> None:
        self._engine = engine
        self._interval = interval
        self._patience = PATIENCE_INTERVALS * interval + 1.0
        self._pre_hopper = pre_hopper
        self._now = now
        self._rejected = rejected
        self._watches = Watches(engine, interval)
        self._census: Census | None = None
        self._rows: dict[Entity, _Row] = {}
        self._blind_until = 0
        """Microseconds of the node's clock. Samples from before this time are rejected."""
        self._read_at = now()
        self._looked_at = 0.0
        self._look(self._read_at.seconds)

    def gpus(self) -> list[Gpu]:
        return [row.device.gpu for row in self._rows.values()]

    def events(self) -> list[Reading | Fault]:
        """The readings since the last call, and a fault for each device that is not measured. Raises DcgmError."""
        started = self._now()
        if started.seconds - self._looked_at >= LOOK_SECONDS:
            self._look(started.seconds)
            started = self._now()
        samples = self._watches.samples(started.seconds)
        now = self._now()  # after the call, so that no sample is from the future
        if self._was_set(now):
            log.warning("the node's clock was set: earlier samples are dropped")
            self._rejected["clock_set"] += 1
        if self._blind_until:
            return self._wait(now)
        self._take_in(samples, now)
        # Samples from after the read began are complete with the next read.
        return [event for row in self._rows.values() for event in self._events(row, started)]

    def close(self) -> None:
        """Never raises."""
        self._watches.close()
        self._engine.close()

    def _look(self, now: float) -> None:
        self._looked_at = now
        census = take_census(self._engine, self._census)
        if census != self._census:
            devices_before = [row.device for row in self._rows.values()]
            devices = describe(self._engine, census, devices_before)
            is_complete = all(device.problem != UNTOLD for device in devices)
            self._census = census if is_complete else None
            self._take_devices([self._permitted(device) for device in devices], now)
        self._watches.update([row.device for row in self._rows.values()], now)

    def _permitted(self, device: Device) -> Device:
        if device.problem is None and not device.gpm and not self._pre_hopper:
            return replace(device, problem=(Reason.NOT_SUPPORTED, PRE_HOPPER))
        return device

    def _take_devices(self, devices: Sequence[Device], now: float) -> None:
        """Keep the devices that were already known, and add the new ones."""
        rows = {}
        for device in devices:
            row = self._rows.get(device.entity)
            if row is None or _is_another(row.device.gpu, device.gpu):
                # Numbers of instances are reused: another instance may have this number now.
                self._watches.begin_anew(device.entity)
                row = _Row(device, self._interval, now)
            row.device, row.samples.gpu = device, device.gpu
            rows[device.entity] = row
        self._rows = rows

    def _was_set(self, now: Anchor) -> bool:
        """Whether somebody set the node's clock since the last read."""
        before, self._read_at = self._read_at, now
        set_by = now.seconds - before.seconds_at(now.micros)
        if abs(set_by) <= CLOCK_STEP_SECONDS:
            return False
        # The time that the clock would show now: no sample from before has a later stamp.
        self._blind_until = max(now.micros, self._blind_until, now.micros + round(set_by * 1e6))
        return True

    def _wait(self, now: Anchor) -> list[Reading | Fault]:
        """Reject all samples until the clock reaches its old time again.

        When the clock is set back, a host engine takes no sample before the old due time, and its old samples
        appear again when their time comes again (DcgmCacheManager.cpp, ActuallyUpdateAllFields;
        DcgmGpmManager.cpp, MaybeFetchNewSample).
        """
        left = (self._blind_until - now.micros) * 1e-6
        if left <= 0.0:
            self._blind_until = 0
            self._begin_anew(now)
        if left <= self._patience:
            return []
        detail = (
            "the node's clock was set back: the host engine takes no samples for another "
            f"{left:.0f} s, unless it is restarted"
        )
        return [
            Fault(row.device.gpu, now.seconds, *(row.device.problem or (Reason.STALE, detail)))
            for row in self._rows.values()
        ]

    def _begin_anew(self, now: Anchor) -> None:
        """Start again: no window includes this instant, and no sample from before it is read."""
        self._watches.skip_to(now.micros * 1e-6)
        for row in self._rows.values():
            row.samples.forget()
            row.begun_at = row.heard_at = now.seconds

    def _take_in(self, samples: Sequence[Sample], now: Anchor) -> None:
        rows_of: dict[Entity, list[_Row]] = {}
        for row in self._rows.values():
            for entity in {row.device.entity, row.device.parent}:
                rows_of.setdefault(entity, []).append(row)
        latest = now.micros + round(AHEAD_SECONDS * 1e6)
        for sample in samples:
            if sample.micros > latest:
                self._rejected["timestamp_in_future"] += 1
                continue
            for row in rows_of.get(sample.entity, ()):
                if row.samples.add(sample) and sample.field == TENSOR:
                    row.heard_at = now.seconds

    def _events(self, row: _Row, now: Anchor) -> Iterator[Reading | Fault]:
        yield from self._complete(row, row.samples.readings(now))
        backwards = row.samples.take_disordered()
        if backwards:
            self._rejected["timestamp_backwards"] += backwards
        problem = row.device.problem or self._problem(row, now.seconds)
        if problem is not None:
            yield Fault(row.device.gpu, now.seconds, *problem)

    def _complete(self, row: _Row, readings: Sequence[Reading]) -> Sequence[Reading]:
        """The same readings. Missing fields are counted, and logged when they change."""
        if not readings:
            return readings
        missing, before = row.samples.missing, row.missing
        row.missing = missing
        self._rejected["field_missing"] += len(missing)
        if missing - before:
            names = ", ".join(str(field) for field in sorted(missing))
            gpu = row.device.gpu.index
            log.warning("GPU %s: fields %s do not cover the window and are left out", gpu, names)
        elif before and not missing:
            log.info("GPU %s: all fields cover the window again", row.device.gpu.index)
        return readings

    def _problem(self, row: _Row, now: float) -> Defect | None:
        """Why a device is not measured although it should be."""
        entity = row.device.entity
        if entity in self._watches.refused:
            error = self._watches.refused[entity].error
            return error.reason, str(error)
        code = row.samples.last_code
        blank = REASONS.get(code, Reason.FAILED), _why_blank(row.device, code)
        if code and self._watches.is_resting(entity):
            return blank
        if now - row.heard_at > self._patience:
            since = self._watches.watched.get(entity)
            if since is not None and now - since > RETRY_SECONDS:
                self._watches.renew(entity)
            return Reason.STALE, f"no sample for {now - row.heard_at:.0f} s"
        if code and now - row.begun_at > self._patience:
            return blank
        return None


def _why_blank(device: Device, code: int) -> str:
    why = f"the tensor counter has no value ({code})"
    if not device.gpm:
        paused = "profiling is paused (`ofu-exporter resume`)"
        return f"{why}: {paused}, or another profiler has the counters"
    return f"{why}: no compute instance, or nothing yet" if device.gpu.instance else why


def _is_another(before: Gpu, now: Gpu) -> bool:
    return (before.key, before.profile, before.mig_uuid) != (now.key, now.profile, now.mig_uuid)
