"""Connects to a DCGM host engine or starts one in this process, watches fields and reads samples."""

from __future__ import annotations

import ctypes
import math
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ofu_exporter.sources.dcgm import library as dcgm
from ofu_exporter.sources.dcgm.library import DcgmError, Entity, Library, RefusedError, Sample
from ofu_exporter.values.reading import SHORTEST_WINDOW_SECONDS

EMBEDDED = "embedded"
"""The address that means: start a host engine in this process."""
UNIX = "unix:"
USUAL_ADDRESSES = ("127.0.0.1:5555", "unix:/tmp/nv-hostengine")
"""Where a host engine of this node listens by default."""

CONNECT_TIMEOUT_SECONDS = 3.0
SOCKET_SECONDS = 1.0
"""How long a Unix socket may take to say whether it refuses this user."""
KEPT_SECONDS = 120.0
"""How long the host engine keeps samples for us. This is longer than the time between any two reads."""

AHEAD_SECONDS = 0.1
"""Most that a sample's time may be ahead of the clock; a sample further ahead is rejected."""
BEHIND_SECONDS = 2.0
"""How far each read goes back. A sample carries the time at which the host engine began to take it, and appears only
when it is complete, perhaps after a read of a later time (DcgmCacheManager.cpp, BufferOrCacheLatestGpuValue)."""

Wall = Callable[[], float]
"""Returns Unix time, the clock that DCGM stamps its samples with."""

_SampleKey = tuple[Entity, int, int]
"""Entity, field and microseconds, by which a sample that comes again is recognised."""


class HostEngine:
    """One connection to a host engine. Every call raises DcgmError."""

    def __init__(self, library: Library, address: str, wall: Wall = time.time) -> None:
        self._library = library
        self.wall = wall
        self._embedded = address == EMBEDDED
        self._handle = self._start() if self._embedded else self._connect(address)

    def close(self) -> None:
        """Never raises. The host engine drops all watches of this connection with it."""
        handle, self._handle = self._handle, 0
        if handle:
            end = "dcgmStopEmbedded" if self._embedded else "dcgmDisconnect"
            self._library.try_call(end, handle)

    def gpus(self) -> list[int]:
        """The number of every GPU of the node, including lost and unsupported ones. Numbers do not change while the
        engine runs."""
        numbers, count = (ctypes.c_uint * dcgm.MOST_DEVICES)(), ctypes.c_int()
        self.call("dcgmGetAllDevices", numbers, ctypes.byref(count))
        return list(numbers[: count.value])

    def gpu_status(self, number: int) -> int:
        """DcgmEntityStatus_t: 1 = works, 4 = lost."""
        status = ctypes.c_int()
        self.call("dcgmGetGpuStatus", number, ctypes.byref(status))
        return status.value

    def instances(self) -> list[dcgm.DcgmInstance]:
        """Every MIG instance of the node, GPU instances and compute instances."""
        hierarchy = dcgm.Hierarchy(version=dcgm.version_word(dcgm.Hierarchy, 2))
        self.call("dcgmGetGpuInstanceHierarchy", ctypes.byref(hierarchy))
        return [
            dcgm.DcgmInstance(
                entity=Entity(entry.entity.group, entry.entity.number),
                parent=Entity(entry.parent.group, entry.parent.number),
                instance=entry.instance,
            )
            for entry in hierarchy.entries[: hierarchy.count]
            if entry.entity.group in (dcgm.GPU_INSTANCE, dcgm.COMPUTE_INSTANCE)
        ]

    def live(self, entity: Entity, fields: Sequence[int]) -> list[Sample]:
        """Read values of an entity from the driver now; not for profiling fields.

        Raises ValueError for a profiling field, which would kill the host engine.
        """
        if any(field >= dcgm.FIRST_PROFILING_FIELD for field in fields):
            raise ValueError(
                f"a live read of profiling fields would crash the host engine: {fields}"
            )
        values = (dcgm.FieldValue2 * len(fields))()
        pairs = (dcgm.EntityPair * 1)(dcgm.EntityPair(*entity))
        request = pairs, 1, dcgm.field_numbers(fields), len(fields), dcgm.LIVE_DATA
        self.call("dcgmEntitiesGetLatestValues", *request, values)
        return [dcgm.decoded(Entity(raw.group, raw.number), raw) for raw in values]

    def watch(
        self, entities: Sequence[Entity], fields: Sequence[int], seconds: float
    ) -> FieldWatch:
        """Make the host engine sample these fields of these entities at this interval."""
        watch = FieldWatch(self, fields, seconds)
        try:
            watch.begin(entities, self.wall())
        except DcgmError:
            watch.close()
            raise
        return watch

    def unwatch(self, entity: Entity, fields: Sequence[int]) -> None:
        """End the sampling of these fields of an entity. Raises DcgmError only when the connection is gone.

        The host engine keeps watches by entity and field, so it does not matter which watch began them.
        """
        ended = FieldWatch(self, fields, 1.0)
        try:
            ended.gather([entity])
        except RefusedError:
            pass
        finally:
            ended.close()

    def pause(self) -> None:
        """Release the counters of GPUs before Hopper, for another profiler."""
        self.call("dcgmProfPause")

    def resume(self) -> None:
        """Take the counters of GPUs before Hopper again."""
        self.call("dcgmProfResume")

    def call(self, name: str, *arguments: Any) -> None:
        self._library.call(name, self._handle, *arguments)

    def try_call(self, name: str, *arguments: Any) -> None:
        """Make a call that may fail without harm."""
        self._library.try_call(name, self._handle, *arguments)

    def _connect(self, address: str) -> int:
        parameters = dcgm.ConnectParameters(
            version=dcgm.version_word(dcgm.ConnectParameters, 2),
            timeout_ms=int(CONNECT_TIMEOUT_SECONDS * 1000),
            address_is_unix_socket=address.startswith(UNIX),
        )
        handle = dcgm.Handle()
        where = address.removeprefix(UNIX)
        connect = "dcgmConnect_v2"
        arguments = (where.encode(), ctypes.byref(parameters), ctypes.byref(handle))
        try:
            self._library.call(connect, *arguments)
        except DcgmError as error:
            # The library gives the same error for every reason of a failed connection.
            is_refusal = isinstance(error, RefusedError)
            if not is_refusal and address.startswith(UNIX) and _is_forbidden(where):
                text = f"the agent's user {os.geteuid()} may not write to {where}"
                raise RefusedError(connect, dcgm.NO_PERMISSION, text) from error
            raise
        return handle.value

    def _start(self) -> int:
        parameters = dcgm.EmbeddedParameters(
            version=dcgm.version_word(dcgm.EmbeddedParameters, 2), mode=dcgm.OPERATION_MODE_AUTO
        )
        self._library.call("dcgmStartEmbedded_v2", ctypes.byref(parameters))
        return int(parameters.handle)


class FieldWatch:
    """Fields of entities that the host engine samples for us, and the position of the last read."""

    def __init__(self, engine: HostEngine, fields: Sequence[int], seconds: float) -> None:
        self._engine = engine
        self.fields = tuple(fields)
        self.entities: list[Entity] = []
        self.refused: dict[Entity, DcgmError] = {}
        """Entities that the host engine would not watch."""
        self._seconds = seconds
        self._group: int | None = None
        self._field_group: int | None = None
        self._first_micros = 0
        """Samples from before this time are never read."""
        self._since_micros = 0
        self._read: set[_SampleKey] = set()
        """Samples that were already read, and that the next read will return again."""
        self.failed: Entity | None = None
        """The entity at which the last read failed."""

    def begin(self, entities: Sequence[Entity], unix: float) -> None:
        """Begin to watch. Raises DcgmError when not one entity can be watched."""
        self.gather(entities)
        self.skip_to(unix)
        interval_micros = round(self._seconds * 1e6)
        # The number of samples is limited as well: without a limit, values were seen to stop changing.
        most = math.ceil(KEPT_SECONDS / SHORTEST_WINDOW_SECONDS) + 16  # of a faster client too
        self._call("dcgmWatchFields", interval_micros, KEPT_SECONDS, most)

    def gather(self, entities: Sequence[Entity]) -> None:
        """Make the groups. Raises DcgmError when not one entity can be in the group."""
        # Names of field groups must differ from those of every other client of the host engine.
        name = f"ofu-exporter-{secrets.token_hex(6)}".encode()
        self._group = self._created("dcgmGroupCreate", dcgm.EMPTY_GROUP, name)
        for entity in entities:
            self._add(entity)
        if not self.entities:
            raise next(iter(self.refused.values()))
        numbers = dcgm.field_numbers(self.fields)
        self._field_group = self._created("dcgmFieldGroupCreate", len(numbers), numbers, name)

    def skip_to(self, unix: float) -> None:
        """Skip the samples from before this time."""
        self._first_micros = self._since_micros = round(unix * 1e6)
        self._read.clear()

    def samples(self) -> list[Sample]:
        """Every unread sample; those of one field are in order of time.

        Raises DcgmError; `failed` is then the entity that caused it: the host engine answers field by field, entity
        by entity, and ends the read at the first that it refuses (DcgmApi.cpp, helperGetValuesSince). The next read
        returns the same samples again.
        """
        unread: list[Sample] = []
        answered: set[_SampleKey] = set()

        def take(group: int, number: int, values: Any, count: int, _: object) -> int:
            entity = Entity(group, number)
            for index in range(count):
                raw = values[index]
                key = (entity, raw.field, raw.micros)
                answered.add(key)
                if key not in self._read:
                    unread.append(dcgm.decoded(entity, raw))
            return 0

        following = ctypes.c_longlong(self._since_micros)
        try:
            taking = ctypes.byref(following), dcgm.Enumeration(take), None
            self._call("dcgmGetValuesSince_v2", self._since_micros, *taking)
        except DcgmError as error:
            if error.code != dcgm.NO_DATA:
                self.failed = self._first_silent(answered)
                raise
        self._go_on_from(following.value)
        self._read = {key for key in answered if key[2] >= self._since_micros}
        return unread

    def _go_on_from(self, micros: int) -> None:
        """Begin the next read here, but at the latest now: a stamp far in the future would hide all samples that
        follow."""
        latest = round((self._engine.wall() + AHEAD_SECONDS) * 1e6) + 1
        since = min(micros, latest) - round(BEHIND_SECONDS * 1e6)
        self._since_micros = max(since, self._first_micros)

    def _first_silent(self, keys: Iterable[_SampleKey]) -> Entity | None:
        """The first entity with an unanswered field: the host engine answers for each field, even if it has no data."""
        answered = {(entity, field) for entity, field, _ in keys}
        return next(
            (e for e in self.entities if any((e, field) not in answered for field in self.fields)),
            None,
        )

    def drop(self, entity: Entity) -> None:
        """Continue without an entity that no longer exists."""
        if entity in self.entities:
            self.entities.remove(entity)
            self._engine.try_call("dcgmGroupRemoveEntity", self._group, *entity)

    def close(self) -> None:
        """Never raises."""
        if self._field_group is not None:
            self._engine.try_call("dcgmUnwatchFields", self._group, self._field_group)
            self._engine.try_call("dcgmFieldGroupDestroy", self._field_group)
        if self._group is not None:
            self._engine.try_call("dcgmGroupDestroy", self._group)
        self._group = self._field_group = None

    def _add(self, entity: Entity) -> None:
        try:
            self._engine.call("dcgmGroupAddEntity", self._group, *entity)
        except RefusedError as error:
            self.refused[entity] = error
        else:
            self.entities.append(entity)

    def _call(self, name: str, *arguments: Any) -> None:
        self._engine.call(name, self._group, self._field_group, *arguments)

    def _created(self, name: str, *arguments: Any) -> int:
        """The handle that a call creates."""
        handle = dcgm.Handle()
        self._engine.call(name, *arguments, ctypes.byref(handle))
        return handle.value


def running(library: Library, addresses: Sequence[str] = USUAL_ADDRESSES) -> str | None:
    """The address of a host engine that runs on this node; None when none answers."""
    for address in addresses:
        try:
            HostEngine(library, address).close()
        except DcgmError as error:
            if error.code != dcgm.NO_PERMISSION:  # one that this user may not use runs too
                continue
        return address
    return None


def _is_forbidden(path: str) -> bool:
    """Whether the socket exists but this user may not connect to it, which needs write access to its file."""
    with socket.socket(socket.AF_UNIX) as tried:
        tried.settimeout(SOCKET_SECONDS)
        try:
            tried.connect(path)
        except PermissionError:
            return True
        except OSError:
            pass
    return False
