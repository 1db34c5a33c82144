"""Keeps the watches of a host engine, even after failures: the fields of devices that it samples for us.

The SM clock and the tensor counter are sampled more often than all others. New devices get their own watches, and
lost devices are taken out of theirs, so that a change on one GPU costs no other GPU a sample. If a device turns out
not to have a counter, its watch is ended, or the host engine would log an error at every interval.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ofu_exporter.sources.dcgm import fields
from ofu_exporter.sources.dcgm.devices import Device
from ofu_exporter.sources.dcgm.host_engine import FieldWatch, HostEngine
from ofu_exporter.sources.dcgm.library import (
    GPU,
    NOT_WATCHED,
    OF_ONE_ENTITY,
    DcgmError,
    Entity,
    RefusedError,
    Sample,
)
from ofu_exporter.values.reading import SHORTEST_WINDOW_SECONDS

log = logging.getLogger(__name__)

TRIAL_INTERVALS = 4
"""A counter counts as missing if it has no value within this number of intervals after the tensor counter's first."""
RETRY_SECONDS = 30.0
"""Time between two attempts to watch a device that was refused."""
MOST_BLANKS = 8
"""After this many samples of the tensor counter without a value, the device is not watched for some time."""
MOST_RETRY_SECONDS = 480.0
"""After each trial in which the tensor counter had no value, the time to the next doubles, up to this."""


class FailedWatch(NamedTuple):
    """Why a device is not watched, and when that was last tried."""

    error: DcgmError
    at: float


class _Rest(NamedTuple):
    """Until when a device is not watched, and for how long in all."""

    until: float
    seconds: float


class Watches:
    """The watches of one connection. Calls raise DcgmError only when the connection is gone."""

    def __init__(self, engine: HostEngine, interval: float) -> None:
        self._engine = engine
        self._interval = interval
        self._watches: list[FieldWatch] = []
        self._driver_watches: list[FieldWatch] = []
        self.watched: dict[Entity, float] = {}
        """Since when each device has been watched."""
        self.refused: dict[Entity, FailedWatch] = {}
        """Devices that are not watched."""
        self._clockless: set[Entity] = set()
        """GPUs whose clock could not be watched and for which a warning was logged."""
        self._trials: dict[Entity, float] = {}
        """When the test of each device's counters ends."""
        self._brought: dict[Entity, set[int]] = {}
        """The fields that had a value during the test."""
        self._blanks: dict[Entity, int] = {}
        """How many samples without a value the tensor counter has had, of each device where it never had any."""
        self._resting: dict[Entity, _Rest] = {}
        """Devices whose tensor counter had no value."""

    def update(self, devices: Sequence[Device], now: float) -> None:
        """Watch devices that are new or were refused a while ago, and stop watching those that are gone."""
        present = {device.entity for device in devices}
        for entity in [*self.watched.keys() - present, *self.refused.keys() - present]:
            self.renew(entity)
        new = [device for device in devices if self._is_due(device, now)]
        for alike in _alike(new):
            self._watch(alike, now)
        self._watch_clocks({device.parent for device in devices if device.problem is None})

    def samples(self, now: float) -> list[Sample]:
        """Every sample since the last call; samples with a time in the future are returned again."""
        # The clocks are read last, so that no clock is read before the counters of its window.
        watches = (*self._watches, *self._driver_watches)
        samples = [sample for watch in watches for sample in self._read(watch, now)]
        self._try_out(samples, now)
        return samples

    def _read(self, watch: FieldWatch, now: float) -> list[Sample]:
        """The samples of a watch. An entity whose samples are refused is removed, because it would hide the other
        samples."""
        while watch.entities:
            try:
                return watch.samples()
            except RefusedError as error:
                log.debug("no samples: %s", error)
                if watch.failed is None or error.code not in OF_ONE_ENTITY:
                    break
                self._take_out(watch.failed, watch, FailedWatch(error, now))
        return []

    def _take_out(self, entity: Entity, watch: FieldWatch, failed: FailedWatch) -> None:
        """Stop watching an entity. If the host engine has only forgotten it, it is watched again at once, otherwise
        later."""
        if watch in self._driver_watches:
            self._driver_watches = _dropped(self._driver_watches, entity)
            return
        self.renew(entity)
        if failed.error.code != NOT_WATCHED:
            self.refused[entity] = failed

    def renew(self, entity: Entity) -> None:
        """Watch a device again at the next update, if it exists then."""
        for notes in (self.watched, self.refused, self._trials, self._brought, self._blanks):
            notes.pop(entity, None)
        self._watches = _dropped(self._watches, entity)

    def begin_anew(self, entity: Entity) -> None:
        """Watch another device that has the number now, at the next update."""
        self.renew(entity)
        self._resting.pop(entity, None)

    def is_resting(self, entity: Entity) -> bool:
        """Whether a device is not watched because its tensor counter had no value."""
        return entity in self._resting and entity not in self.watched

    def skip_to(self, unix: float) -> None:
        """Skip all samples from before this time."""
        for watch in (*self._watches, *self._driver_watches):
            watch.skip_to(unix)

    def close(self) -> None:
        """Never raises."""
        for watch in (*self._watches, *self._driver_watches):
            watch.close()
        self._watches, self._driver_watches = [], []

    def _is_due(self, device: Device, now: float) -> bool:
        if device.problem is not None or device.entity in self.watched:
            return False
        if device.entity in self._resting and now < self._resting[device.entity].until:
            return False
        refused = self.refused.get(device.entity)
        return refused is None or now - refused.at >= RETRY_SECONDS

    def _watch(self, alike: Sequence[Device], now: float) -> None:
        """Watch devices of one kind together, with the tensor counter and as many other counters as the engine
        knows."""
        entities = [device.entity for device in alike]
        try:
            watch = self._engine.watch(entities, (fields.TENSOR,), self._tensor_interval(alike[0]))
        except RefusedError as error:
            self.refused.update((entity, FailedWatch(error, now)) for entity in entities)
            if len(alike) > 1:  # a device that cannot be watched must not affect the others
                for device in alike:
                    self._watch([device], now)
            return
        self._watches.append(watch)
        for entity in watch.entities:
            self.refused.pop(entity, None)
            self.watched[entity] = now
            self._brought[entity] = set()
            if alike[0].gpm:  # before Hopper, profiling is often paused for a while
                self._blanks[entity] = 0
        self.refused.update(
            (entity, FailedWatch(error, now)) for entity, error in watch.refused.items()
        )
        self._watch_others(watch.entities, _choices(alike[0]))

    def _tensor_interval(self, device: Device) -> float:
        """Half of the other fields' interval with GPM, so that the host engine samples at the tensor counter's
        times."""
        half = self._interval / 2
        return half if device.gpm and half >= SHORTEST_WINDOW_SECONDS else self._interval

    def _watch_others(self, entities: Sequence[Entity], choices: Sequence[Sequence[int]]) -> None:
        """Watch the first of these sets of fields that the host engine knows."""
        for chosen in choices:
            try:
                self._watches.append(self._engine.watch(entities, chosen, self._interval))
            except RefusedError as error:
                log.debug("fields %s cannot be watched: %s", chosen, error)
            else:
                return

    def _watch_clocks(self, gpus: set[Entity]) -> None:
        watched = {entity for watch in self._driver_watches for entity in watch.entities}
        for gone in watched - gpus:
            self._driver_watches = _dropped(self._driver_watches, gone)
        if new := sorted(gpus - watched):
            self._watch_clocks_of(new)

    def _watch_clocks_of(self, gpus: Sequence[Entity]) -> None:
        """Watch the clock often, because it changes faster than activity is sampled, and the driver's other fields at
        the usual interval."""
        try:
            often = min(fields.CLOCK_SECONDS, self._interval)
            for numbers, seconds in (
                ((fields.SM_CLOCK_MHZ,), often),
                (fields.BESIDE_THE_CLOCK, self._interval),
            ):
                self._driver_watches.append(self._engine.watch(gpus, numbers, seconds))
        except RefusedError as error:
            if len(gpus) == 1:
                first = gpus[0] not in self._clockless
                self._clockless.add(gpus[0])
                say = log.warning if first else log.debug
                say("the SM clock of GPU %d cannot be watched: %s", gpus[0].number, error)
                return
            for gpu in gpus:
                self._watch_clocks_of([gpu])

    def _try_out(self, samples: Iterable[Sample], now: float) -> None:
        """Find out which counters have values, and end the watches of the others."""
        for sample in samples:
            if sample.entity in self._brought:
                self._note(sample, now)
        for entity in [entity for entity, count in self._blanks.items() if count >= MOST_BLANKS]:
            self._rest(entity, now)
        for entity in [entity for entity, until in self._trials.items() if now >= until]:
            for watch in self._watches:
                silent = [field for field in watch.fields if field not in self._brought[entity]]
                if silent and entity in watch.entities:
                    self._engine.unwatch(entity, silent)
            del self._trials[entity], self._brought[entity]

    def _note(self, sample: Sample, now: float) -> None:
        """Note whether a field of a device in test has values. The tensor counter's first begins the test of the
        others."""
        entity, is_tensor = sample.entity, sample.field == fields.TENSOR
        if sample.value is None:
            if is_tensor and sample.micros and entity in self._blanks:
                self._blanks[entity] += 1
            return
        self._brought[entity].add(sample.field)
        if is_tensor:
            self._trials.setdefault(entity, now + TRIAL_INTERVALS * self._interval)
            self._blanks.pop(entity, None)
            self._resting.pop(entity, None)

    def _rest(self, entity: Entity, now: float) -> None:
        """Stop watching a device whose tensor counter has no value. Each time it rests for longer."""
        before = self._resting.get(entity)
        seconds = min(2 * before.seconds, MOST_RETRY_SECONDS) if before else RETRY_SECONDS
        for watch in self._watches:
            if entity in watch.entities:
                self._engine.unwatch(entity, watch.fields)
        self.renew(entity)
        self._resting[entity] = _Rest(now + seconds, seconds)


def _dropped(watches: Sequence[FieldWatch], entity: Entity) -> list[FieldWatch]:
    """The watches without this entity; a watch without any other entity ends."""
    for watch in watches:
        watch.drop(entity)
        if not watch.entities:
            watch.close()
    return [watch for watch in watches if watch.entities]


def _alike(devices: Sequence[Device]) -> list[list[Device]]:
    """Groups of devices that may be watched together: before Hopper only those of one model."""
    groups: dict[tuple[bool, int, str], list[Device]] = {}
    for device in devices:
        model = "" if device.gpm else device.gpu.name
        groups.setdefault((device.gpm, device.entity.group, model), []).append(device)
    return list(groups.values())


def _choices(device: Device) -> Sequence[tuple[int, ...]]:
    """Sets of fields to watch besides the tensor counter, best first. A host engine refuses a set with an unknown
    field.

    Before Hopper there are none, because several counters would be measured in turns, each for part of the time.
    """
    if not device.gpm:
        return ()
    of_whole = (fields.OF_PROFILING, fields.WITH_OTHERS) if device.entity.group == GPU else ()
    return (*of_whole, fields.OF_INSTANCES, fields.OF_PIPES)
