"""Keeps who held which GPU when, so that no window is credited to a job that did not hold the GPU for all of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ofu_exporter.ofu.ownership.held_time import GpuShare, JobGpu
from ofu_exporter.values import device_names
from ofu_exporter.values.gpu import Gpu, GpuKey
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.reading import LONGEST_WINDOW_SECONDS

HANDOVER_SECONDS = 0.25
"""A window is cut when a job comes or goes, at most this long after the change was seen."""
MEMORY_SECONDS = 2 * LONGEST_WINDOW_SECONDS
"""No window reaches further back than this."""
MOST_CHANGES = 64
"""Most changes of one GPU that are remembered; a window that began before them is credited to nobody."""


class Holding(NamedTuple):
    """Who had one GPU from an instant on; several jobs = shared, none = free."""

    since: float
    jobs: tuple[Job, ...]
    waits: bool = False
    """Whether no program of the job had started yet, so that the job did not cause what the GPU did."""


Holdings = tuple[Holding, ...]
"""The holdings of one GPU that a window may still reach back to, oldest first."""


class Resolved(NamedTuple):
    """Claims, resolved to the GPUs of this node."""

    holders: Mapping[GpuKey, tuple[Job, ...]]
    unknown: tuple[tuple[Job, str], ...]
    """Claimed devices that are none of these GPUs."""
    contested: tuple[GpuKey, ...]
    """GPUs that several jobs claim as a whole, which no scheduler gives out twice."""
    waiting: frozenset[GpuKey] = frozenset()
    """GPUs that no program can use yet, since none of the jobs that have them has started one there."""

    def job_gpus(self, present: Mapping[GpuKey, GpuShare]) -> list[JobGpu]:
        """The GPUs that jobs have. One that two jobs claim as a whole is nobody's."""
        return [
            JobGpu(present[key], job, key in self.waiting, len(jobs))
            for key, jobs in self.holders.items()
            if key in present and key not in self.contested
            for job in jobs
        ]

    def holding(self, key: GpuKey, at: Instant) -> Holding:
        """Who has a GPU from an instant on."""
        return Holding(at.monotonic, self.holders.get(key, ()), key in self.waiting)


NOBODY = Resolved({}, (), ())


def resolve(claims: Iterable[Claim], gpus: Sequence[Gpu]) -> Resolved:
    """Find the GPUs that the claims name. What a job has given back is not held."""
    holders: dict[GpuKey, list[Job]] = {}
    whole: dict[GpuKey, int] = {}
    unknown: list[tuple[Job, str]] = []
    waiting: set[GpuKey] = set()
    in_use: set[GpuKey] = set()
    for claim in claims:
        if claim.ended is not None:
            continue
        exclusive: set[GpuKey] = set()
        for name in claim.devices:
            device = device_names.parse(name)
            keys = device_names.find(device, gpus)
            if not keys:
                unknown.append((claim.job, name))
            (waiting if name in claim.waiting else in_use).update(keys)
            for key in keys:
                if claim.job not in holders.setdefault(key, []):
                    holders[key].append(claim.job)
                if not device.shared:
                    exclusive.add(key)
        for key in exclusive:
            whole[key] = whole.get(key, 0) + 1
    return Resolved(
        holders={key: tuple(jobs) for key, jobs in holders.items()},
        unknown=tuple(unknown),
        contested=tuple(key for key, count in whole.items() if count > 1),
        waiting=frozenset(waiting - in_use),
    )


def changed(history: Holdings, now: Holding) -> Holdings:
    """The history with the holding that begins now, without those that no window can reach back to."""
    if history and _are_same(history[-1], now):
        return history
    holdings = [*history, now]
    while len(holdings) > 1 and holdings[1].since <= now.since - MEMORY_SECONDS:
        del holdings[0]
    return tuple(holdings[-MOST_CHANGES:])


def _are_same(before: Holding, now: Holding) -> bool:
    if (before.waits, len(before.jobs)) != (now.waits, len(now.jobs)):
        return False
    return all(map(Job.is_same_run, before.jobs, now.jobs))


def sole_holding(history: Holdings, start: float, end: float) -> Holding | None:
    """That one job alone held the GPU in (start, end]; None when there was none, or another as well.

    A change in the last `HANDOVER_SECONDS` is the one that the window was cut for.
    """
    current: Holding | None = None
    for holding in history:
        if holding.since <= start:
            current = holding
        elif holding.since < end - HANDOVER_SECONDS:
            return None
    return current if current is not None and len(current.jobs) == 1 else None
