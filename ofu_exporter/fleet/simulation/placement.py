"""Gives every job of a simulated fleet its GPUs: the first that are free, or those that the specification names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ofu_exporter.fleet.simulation.jobs import DraftJob
from ofu_exporter.fleet.simulation.layout import FleetNode, node_numbers
from ofu_exporter.fleet.simulation.spec import SpecFile

Devices = Mapping[int, tuple[int, ...]]
"""Numbers of devices by number of node."""


@dataclass(frozen=True)
class PlacedJob:
    draft: DraftJob
    start: int
    """Minutes of the fleet; the job runs in [start, end)."""
    end: int
    devices: Devices
    runs: tuple[tuple[int, int], ...]
    """Minutes in which it holds its devices: one run, or several where it crashes."""

    @property
    def size(self) -> int:
        return sum(len(each) for each in self.devices.values())


class _Calendar:
    """When each device of each node is taken."""

    def __init__(self, nodes: Sequence[FleetNode]) -> None:
        self._busy: list[list[tuple[int, int, int]]] = [[] for _ in nodes]
        """First and last minute, and the devices as bits of a number."""
        self._all = [(1 << len(node.devices)) - 1 for node in nodes]
        self._ends: set[int] = set()

    def free(self, node: int, start: int, end: int) -> int:
        """The devices of a node that are free for all of that time, as bits of a number."""
        taken = 0
        for first, last, devices in self._busy[node]:
            if first < end and start < last:
                taken |= devices
        return self._all[node] & ~taken

    def take(self, devices: Devices, start: int, end: int) -> None:
        for node, taken in devices.items():
            bits = sum(1 << device for device in taken)
            self._busy[node].append((start, end, bits))
        self._ends.add(end)

    def forget(self, before: int) -> None:
        """Forget what had ended by then, because earlier times are not needed again."""
        self._ends = {end for end in self._ends if end > before}
        self._busy = [
            [taken for taken in busy if taken[1] > before] if busy else busy for busy in self._busy
        ]

    def starts(self, wanted: int, latest: int) -> Iterable[int]:
        """The minutes at which devices may become free, beginning with the wanted one."""
        yield wanted
        yield from sorted(end for end in self._ends if wanted < end < latest)


def placed(
    file: SpecFile, nodes: Sequence[FleetNode], drafts: Sequence[DraftJob]
) -> tuple[PlacedJob, ...]:
    """Every job with its devices. Raises ConfigError for a job without free devices, or with those of another job."""
    calendar = _Calendar(nodes)
    fixed = [draft for draft in drafts if draft.group.nodes]
    jobs = [_fixed(file, nodes, draft, calendar) for draft in fixed]
    free = (draft for draft in drafts if not draft.group.nodes)
    for draft in sorted(free, key=lambda one: one.start):
        calendar.forget(draft.start)
        jobs.append(_first_free(file, nodes, draft, calendar))
    return tuple(sorted(jobs, key=lambda job: int(job.draft.job_id)))


def _fixed(
    file: SpecFile, nodes: Sequence[FleetNode], draft: DraftJob, calendar: _Calendar
) -> PlacedJob:
    place = (*draft.place, "nodes")
    numbers = node_numbers(file, draft.place, draft.group.nodes, nodes)
    if strange := [nodes[n].name for n in numbers if nodes[n].model.key != draft.model]:
        raise file.error(place, f"{strange[0]} has other GPUs than the first of these nodes")
    devices = {number: tuple(range(len(nodes[number].devices))) for number in numbers}
    end = draft.start + draft.minutes
    for number, of_node in devices.items():
        if calendar.free(number, draft.start, end).bit_count() < len(of_node):
            raise file.error(place, f"another job has {nodes[number].name} at that time")
    calendar.take(devices, draft.start, end)
    return _placed(file, draft, draft.start, end, devices)


def _first_free(
    file: SpecFile, nodes: Sequence[FleetNode], draft: DraftJob, calendar: _Calendar
) -> PlacedJob:
    group = draft.group
    wanted = group.mig or ""
    fitting = [
        (number, sum(1 << d for d, gpu in enumerate(node.devices) if gpu.profile == wanted))
        for number, node in enumerate(nodes)
        if node.model.key == draft.model and group.partition in ("", node.partition)
    ]
    most = sum(mask.bit_count() for _, mask in fitting)
    if group.gpus > most:
        what = f"GPUs{f' {group.mig}' if group.mig else ''}"
        raise file.error((*draft.place, "gpus"), f"{group.gpus} {what} of {most} that there are")
    for start in calendar.starts(draft.start, file.content.length):
        end = min(start + draft.minutes, file.content.length)
        devices = _free_devices(fitting, group.gpus, calendar, (start, end))
        if devices is not None:
            calendar.take(devices, start, end)
            return _placed(file, draft, start, end, devices)
    raise file.error(draft.place, f"job {draft.job_id} finds no free GPUs before the end")


def _free_devices(
    fitting: Sequence[tuple[int, int]], wanted: int, calendar: _Calendar, time: tuple[int, int]
) -> Devices | None:
    """Whole nodes as far as possible. The rest, and a job smaller than a node, goes to the fullest node with enough
    room."""
    devices: dict[int, tuple[int, ...]] = {}
    partly: list[tuple[int, int, int]] = []
    left = wanted
    for number, mask in fitting:
        free = calendar.free(number, *time) & mask
        size = free.bit_count()
        if size and free == mask and size <= left:
            devices[number] = _bits(free, size)
            left -= size
        elif size:
            partly.append((size, number, free))
        if not left:
            return devices
    for size, number, free in sorted(partly):
        if size >= left:
            return {**devices, number: _bits(free, left)}
    for size, number, free in partly:
        devices[number] = _bits(free, min(size, left))
        left -= len(devices[number])
        if not left:
            return devices
    return None


def _bits(devices: int, most: int) -> tuple[int, ...]:
    """The first of the devices that are bits of a number."""
    return tuple(place for place in range(devices.bit_length()) if devices >> place & 1)[:most]


def _placed(file: SpecFile, draft: DraftJob, start: int, end: int, devices: Devices) -> PlacedJob:
    straggler = draft.group.straggler
    job = PlacedJob(draft, start, end, devices, tuple(_runs(draft, start, end)))
    if straggler is not None and straggler.gpu >= job.size:
        raise file.error((*draft.place, "straggler", "gpu"), f"the job has only {job.size} GPUs")
    return job


def _runs(draft: DraftJob, start: int, end: int) -> Iterable[tuple[int, int]]:
    crashes = draft.group.crashes
    while start < end:
        until = end if crashes is None else min(start + crashes.every, end)
        yield start, until
        start = until + (crashes.pause if crashes else 0)
