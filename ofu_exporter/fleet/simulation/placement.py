"""Gives every job of a simulated fleet its GPUs: the first that are free, or those that the specification names."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ofu_exporter.fleet.simulation.jobs import DraftJob
from ofu_exporter.fleet.simulation.layout import FleetNode, named
from ofu_exporter.fleet.simulation.spec_file import SpecFile

Devices = Mapping[int, tuple[int, ...]]
"""Numbers of devices by number of node."""


@dataclass(frozen=True)
class PlacedJob:
    """A job with its devices and its time."""

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
        self._busy: list[list[list[tuple[int, int]]]] = [[[] for _ in n.devices] for n in nodes]
        self._last = [0] * len(nodes)
        """The minute from which on a node is free for good."""
        self._ends: list[int] = []

    def is_free(self, node: int, device: int, start: int, end: int) -> bool:
        if start >= self._last[node]:
            return True
        return all(end <= first or start >= last for first, last in self._busy[node][device])

    def take(self, devices: Devices, start: int, end: int) -> None:
        for node, own in devices.items():
            for device in own:
                self._busy[node][device].append((start, end))
            self._last[node] = max(self._last[node], end)
        heapq.heappush(self._ends, end)

    def starts(self, wanted: int, latest: int) -> Iterable[int]:
        """The minutes at which devices may become free, beginning with the one that is wanted."""
        yield wanted
        yield from sorted({end for end in self._ends if wanted < end < latest})


def placed(
    file: SpecFile, nodes: Sequence[FleetNode], drafts: Sequence[DraftJob]
) -> tuple[PlacedJob, ...]:
    """Every job with its devices. Raises ConfigError for one that has no place, or the place of another."""
    calendar = _Calendar(nodes)
    fixed = [draft for draft in drafts if draft.group.nodes]
    found = [_fixed(file, nodes, draft, calendar) for draft in fixed]
    free = sorted((draft for draft in drafts if not draft.group.nodes), key=lambda one: one.start)
    found += [_first_free(file, nodes, draft, calendar) for draft in free]
    return tuple(sorted(found, key=lambda job: int(job.draft.job_id)))


def _fixed(
    file: SpecFile, nodes: Sequence[FleetNode], draft: DraftJob, calendar: _Calendar
) -> PlacedJob:
    place = (*draft.place, "nodes")
    numbers, unknown = named(draft.group.nodes, {node.name: n for n, node in enumerate(nodes)})
    if unknown:
        raise file.error(place, f"no node {unknown}")
    devices = {number: tuple(range(len(nodes[number].devices))) for number in numbers}
    end = draft.start + draft.minutes
    for number, own in devices.items():
        if not all(calendar.is_free(number, device, draft.start, end) for device in own):
            raise file.error(place, f"another job has {nodes[number].name} at that time")
    calendar.take(devices, draft.start, end)
    return _placed(file, draft, draft.start, end, devices)


def _first_free(
    file: SpecFile, nodes: Sequence[FleetNode], draft: DraftJob, calendar: _Calendar
) -> PlacedJob:
    group = draft.group
    fitting = [
        (number, own)
        for number, node in enumerate(nodes)
        if (not group.partition or node.partition == group.partition)
        and (own := [d for d, gpu in enumerate(node.devices) if gpu.profile == (group.mig or "")])
    ]
    most = sum(len(own) for _, own in fitting)
    if group.gpus > most:
        what = f"GPUs{f' {group.mig}' if group.mig else ''}"
        raise file.error((*draft.place, "gpus"), f"{group.gpus} {what} of {most} that there are")
    for start in calendar.starts(draft.start, file.spec.length):
        end = min(start + draft.minutes, file.spec.length)
        devices = _free_devices(fitting, group.gpus, calendar, (start, end))
        if devices is not None:
            calendar.take(devices, start, end)
            return _placed(file, draft, start, end, devices)
    raise file.error(draft.place, f"job {draft.job_id} finds no free GPUs before the end")


def _free_devices(
    fitting: Sequence[tuple[int, list[int]]],
    wanted: int,
    calendar: _Calendar,
    time: tuple[int, int],
) -> Devices | None:
    """Whole nodes as far as possible; the rest, and a job below a node, on the fullest node that has room for it."""
    found: dict[int, tuple[int, ...]] = {}
    partly: list[tuple[int, int, list[int]]] = []
    left = wanted
    for number, own in fitting:
        free = [device for device in own if calendar.is_free(number, device, *time)]
        if len(free) == len(own) and len(own) <= left:
            found[number] = tuple(free)
            left -= len(own)
        elif free:
            partly.append((len(free), number, free))
        if not left:
            return found
    for number_free, number, free in sorted(partly):
        if number_free >= left:
            return {**found, number: tuple(free[:left])}
    for _, number, free in partly:
        found[number] = tuple(free[:left])
        left -= len(found[number])
        if not left:
            return found
    return None


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
