"""Asks kubelet's pod-resources socket which devices each pod of this node was given."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes.grpc import GrpcChannel
from ofu_exporter.values.reasons import SchedulerReason

SECONDS = 5.0
"""How long kubelet may take to answer."""
_METHOD = "/v1.PodResourcesLister/List"

_RESOURCE_EXHAUSTED = 8
_REASONS = {
    1: SchedulerReason.UNREACHABLE,  # cancelled
    4: SchedulerReason.UNREACHABLE,  # deadline exceeded
    14: SchedulerReason.UNREACHABLE,  # unavailable
    7: SchedulerReason.NO_PERMISSION,  # permission denied
    16: SchedulerReason.NO_PERMISSION,  # unauthenticated
    _RESOURCE_EXHAUSTED: SchedulerReason.TOO_LARGE,
}


class PluginDevice(NamedTuple):
    resource: str
    device_id: str
    container: str
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
    claim: tuple[str, str] = ("", "")
    """Namespace and name of the ResourceClaim."""


@dataclass(frozen=True, slots=True)
class PodResources:
    namespace: str
    name: str
    devices: tuple[PluginDevice, ...]
    claimed: tuple[ClaimedDevice, ...]


def ask(path: Path, marks: Collection[bytes]) -> list[PodResources]:
    """Ask kubelet for every pod with one of the marks in its resources. Raises SchedulerError."""
    with GrpcChannel(path, SECONDS) as channel:
        reply = channel.call(_METHOD)
    if reply.status != 0:
        reason = _REASONS.get(reply.status, SchedulerReason.BAD_ANSWER)
        if reply.status == _RESOURCE_EXHAUSTED and "rate limit" in reply.text:
            reason = SchedulerReason.RATE_LIMITED
        raise SchedulerError(reason, f"{path}: gRPC status {reply.status}: {reply.text}"[:500])
    try:
        return decode(reply.message, marks)
    except ValueError as error:
        raise SchedulerError(SchedulerReason.BAD_ANSWER, f"{path}: {error}") from error


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
    pod = _Message(packed)
    devices: list[PluginDevice] = []
    claimed: list[ClaimedDevice] = []
    for container in pod.messages(3):
        name = container.text(1)
        for plugin in container.messages(2):
            devices += [PluginDevice(plugin.text(1), id_, name) for id_ in plugin.texts(2)]
        for dynamic in container.messages(5):
            claim = (dynamic.text(3), dynamic.text(2))
            claimed += [_claimed(device, name, claim) for device in dynamic.messages(4)]
    return PodResources(pod.text(2), pod.text(1), tuple(devices), tuple(claimed))


def _claimed(device: _Message, container: str, claim: tuple[str, str]) -> ClaimedDevice:
    driver, pool, name, share = (device.text(number) for number in (2, 3, 4, 5))
    cdi = tuple(each.text(1) for each in device.messages(1))
    return ClaimedDevice(driver, pool, name, share, cdi, container, claim)


class _Message:
    """A message of protobuf: what its fields hold, by their numbers."""

    def __init__(self, packed: bytes) -> None:
        self._contents: dict[int, list[bytes]] = {}
        for number, content in _fields(packed):
            self._contents.setdefault(number, []).append(content)

    def messages(self, number: int) -> list[_Message]:
        return [_Message(content) for content in self._contents.get(number, ())]

    def texts(self, number: int) -> list[str]:
        """UTF-8 texts. Other bytes become unprintable characters, which `is_sane` refuses."""
        contents = self._contents.get(number, ())
        return [content.decode("utf-8", "surrogateescape") for content in contents]

    def text(self, number: int) -> str:
        """The last text of a field that should have one."""
        texts = self.texts(number)
        return texts[-1] if texts else ""


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
