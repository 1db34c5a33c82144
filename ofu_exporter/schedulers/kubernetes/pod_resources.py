"""Asks kubelet's pod-resources socket which devices each pod of this node was given."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes.grpc import GrpcChannel, GrpcReply
from ofu_exporter.values.reasons import SchedulerReason

SECONDS = 5.0
"""How long kubelet may take to answer."""
_METHOD = "/v1.PodResourcesLister/List"

_CANCELLED, _DEADLINE_EXCEEDED, _PERMISSION_DENIED = 1, 4, 7
_RESOURCE_EXHAUSTED, _UNAVAILABLE, _UNAUTHENTICATED = 8, 14, 16
_REASONS = {
    _CANCELLED: SchedulerReason.UNREACHABLE,
    _DEADLINE_EXCEEDED: SchedulerReason.UNREACHABLE,
    _UNAVAILABLE: SchedulerReason.UNREACHABLE,
    _PERMISSION_DENIED: SchedulerReason.NO_PERMISSION,
    _UNAUTHENTICATED: SchedulerReason.NO_PERMISSION,
    _RESOURCE_EXHAUSTED: SchedulerReason.TOO_LARGE,
}


class PluginDevice(NamedTuple):
    resource: str
    device_id: str
    container: str = ""
    """The container of the pod that has it."""


class ClaimedDevice(NamedTuple):
    """A device that was given out through a ResourceClaim (DRA). Kubelets before 1.31 give only `cdi`."""

    driver: str
    pool: str
    device: str
    share: str
    cdi: tuple[str, ...]
    container: str = ""
    """The container of the pod that has it."""


@dataclass(frozen=True, slots=True)
class PodResources:
    namespace: str
    name: str
    devices: tuple[PluginDevice, ...] = ()
    claimed: tuple[ClaimedDevice, ...] = ()


def ask(path: Path, marks: Collection[bytes]) -> list[PodResources]:
    """Ask kubelet for every pod with one of the marks in its resources. Raises SchedulerError."""
    with GrpcChannel(path, SECONDS) as channel:
        reply = channel.call(_METHOD)
    if reply.status != 0:
        raise _error(path, reply)
    try:
        return decode(reply.message, marks)
    except ValueError as error:
        raise SchedulerError(SchedulerReason.BAD_ANSWER, f"{path}: {error}") from error


def _error(path: Path, reply: GrpcReply) -> SchedulerError:
    reason = _REASONS.get(reply.status, SchedulerReason.BAD_ANSWER)
    if reply.status == _RESOURCE_EXHAUSTED and "rate limit" in reply.text:
        reason = SchedulerReason.RATE_LIMITED
    return SchedulerError(reason, f"{path}: gRPC status {reply.status}: {reply.text}"[:500])


def decode(message: bytes, marks: Collection[bytes]) -> list[PodResources]:
    """Decode a ListPodResourcesResponse. Raises ValueError for bytes that are no protobuf.

    Kubelet lists every pod of the node, in another order each time, and most have no GPU. A pod whose bytes contain
    none of the marks has no GPU, and is not decoded.
    """
    return [
        _pod(packed)
        for number, packed in _fields(message)
        if number == 1 and any(mark in packed for mark in marks)
    ]


def _pod(packed: bytes) -> PodResources:
    namespace = name = ""
    devices: list[PluginDevice] = []
    claimed: list[ClaimedDevice] = []
    for number, value in _fields(packed):
        if number == 1:
            name = _text(value)
        elif number == 2:
            namespace = _text(value)
        elif number == 3:
            parts = list(_fields(value))
            container = _text(next((part for inner, part in reversed(parts) if inner == 1), b""))
            for inner, content in parts:
                if inner == 2:
                    devices += _plugin_devices(content, container)
                elif inner == 5:
                    claimed += _claimed_devices(content, container)
    return PodResources(namespace, name, tuple(devices), tuple(claimed))


def _plugin_devices(packed: bytes, container: str) -> list[PluginDevice]:
    resource = ""
    ids = []
    for number, value in _fields(packed):
        if number == 1:
            resource = _text(value)
        elif number == 2:
            ids.append(_text(value))
    return [PluginDevice(resource, device_id, container) for device_id in ids]


def _claimed_devices(packed: bytes, container: str) -> list[ClaimedDevice]:
    return [_claimed(value, container) for number, value in _fields(packed) if number == 4]


def _claimed(packed: bytes, container: str) -> ClaimedDevice:
    words = {2: "", 3: "", 4: "", 5: ""}
    cdi: list[str] = []
    for number, value in _fields(packed):
        if number == 1:
            names = [_text(name) for inner, name in _fields(value) if inner == 1]
            cdi.append(names[-1] if names else "")
        elif number in words:
            words[number] = _text(value)
    return ClaimedDevice(words[2], words[3], words[4], words[5], tuple(cdi), container)


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of every field that holds text or a message; other fields are skipped."""
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise ValueError("not protobuf: a field with no number")
        if kind == _BYTES:
            size, at = _varint(message, at)
            if size > end - at:
                raise ValueError("not protobuf: cut short")
            yield number, message[at : at + size]
            at += size
        elif kind == _VARINT:
            _, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"not protobuf: wire type {kind}")
    if at > end:
        raise ValueError("not protobuf: cut short")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of up to 64 bits, and where it ends."""
    value = shift = 0
    while shift < 70 and at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("not protobuf: a number without end")


def _text(value: bytes) -> str:
    """UTF-8 text. Other bytes become unprintable characters, which `is_sane` refuses."""
    return value.decode("utf-8", "surrogateescape")
