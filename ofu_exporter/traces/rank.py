"""Reads one file of a profiler as the time of the GPUs in it."""

from __future__ import annotations

import re
from array import array
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware import tiles
from ofu_exporter.traces import formats, kernel_names
from ofu_exporter.traces.families import Kind, collective_of, kind_of
from ofu_exporter.traces.formats import Profile
from ofu_exporter.traces.host import Launches, cpu_collectives, pauses
from ofu_exporter.traces.ranks import MOST_COLLECTIVES, Collective
from ofu_exporter.traces.seconds import IDLE_PART, Split, SplitTime, TimeCell
from ofu_exporter.traces.sweep import NOTHING
from ofu_exporter.traces.timeline import Activities, Timeline
from ofu_exporter.values.trace import (
    MOST_CHARS,
    MOST_KERNELS,
    MOST_STEPS,
    UNLIMITED,
    KernelTime,
    RankTime,
    StepTime,
    TraceLimits,
)

LONGEST_SECONDS = 86400.0
"""Kernels further apart than a day are of no one trace."""
_RANK = re.compile(r"rank[-_.]?(\d{1,6})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GpuTrace:
    """What a file says of one GPU."""

    time: RankTime
    steps: int
    """In which something ran, also those that `time` does not list."""
    cells: list[TimeCell]
    cpu_collectives: dict[str, int]
    """How often each collective of the CPUs ran, by name."""
    capability: int | None
    """Compute capability, times ten."""
    collectives: list[Collective]
    padding: dict[str, float]
    """Share of the FLOPs of a kernel that whole tiles add, by its name."""


def read(path: Path, limits: TraceLimits = UNLIMITED) -> tuple[Profile, list[GpuTrace]]:
    """A profile, and the time of its GPUs: none where it has no times. Raises ConfigError, which names the file."""
    profile = formats.read(path, limits)
    match = _RANK.search(path.name) if len(profile.timelines) == 1 else None
    gpus = list[GpuTrace]()
    try:
        padding = _padding(profile)
        for timeline in profile.timelines:
            if timeline.rank is None and match is not None:
                timeline.rank = int(match[1])
            gpus += _gpus(timeline, padding)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return replace(profile, timelines=()), gpus


def _gpus(timeline: Timeline, padding: dict[str, float]) -> Iterator[GpuTrace]:
    launches, paused = Launches(timeline), pauses(timeline)
    counts = cpu_collectives(timeline)
    numbers = sorted(timeline.steps, key=timeline.steps.__getitem__)
    windows = _windows([timeline.steps[number] for number in numbers])
    until = float("inf")
    if (
        len(windows) > 1
    ):  # profilers of ranks stop one after the other, and the last step waits for that
        until, _ = windows.pop()
        numbers.pop()
    for number, ran in sorted(timeline.gpus.items()):
        launched = array("I", (n for n in range(len(ran)) if _launched(ran, launches, n) < until))
        split = Split(ran, launches, paused).run(launched, timeline.names, windows)
        if split.seconds > LONGEST_SECONDS:
            raise ConfigError("its kernels are more than a day apart: is this one trace?")
        time = _rank_time(timeline, number, split, numbers)
        collectives = list(islice(_collectives(timeline, ran, launches), MOST_COLLECTIVES))
        capability = timeline.capabilities.get(number)
        steps = sum(parts is not None for _, parts in split.steps)
        yield GpuTrace(time, steps, split.cells, counts, capability, collectives, padding)


def _collectives(timeline: Timeline, ran: Activities, launches: Launches) -> Iterator[Collective]:
    """The collectives of a GPU in order."""
    steps = sorted((start, number) for number, (start, _) in timeline.steps.items())
    texts = timeline.names.texts
    for each in sorted(range(len(ran)), key=ran.starts.__getitem__):
        name = texts[ran.names[each]]
        if kind_of(name) is Kind.COMMUNICATION:
            place = launches.place(ran.correlations[each])
            operator = NOTHING if place is None else launches.operators[place]
            kind = collective_of(name, "" if operator == NOTHING else texts[operator])
            at = bisect(steps, (_launched(ran, launches, each), float("inf"))) - 1
            step = steps[at][1] if at >= 0 else -1
            yield Collective(kind, step, ran.starts[each], ran.ends[each])


def _padding(profile: Profile) -> dict[str, float]:
    """What whole tiles add, as a share of what kernels execute, where their products are known."""
    sums: dict[str, list[int]] = {}
    for each in profile.launches:
        kernel = kernel_names.find(each.kernel) if each.gemm else None
        if kernel is not None and each.gemm is not None:
            cost = tiles.cost(kernel, [each.gemm])
            both = sums.setdefault(each.kernel, [0, 0])
            both[0] += cost.executed_flops * each.number
            both[1] += cost.theoretical_flops * each.number
    return {name: 1 - useful / executed for name, (executed, useful) in sums.items() if executed}


def _launched(ran: Activities, launches: Launches, each: int) -> float:
    """When something was launched, or ran where that is not known."""
    place = launches.place(ran.correlations[each])
    return ran.starts[each] if place is None else launches.starts[place]


def _windows(steps: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The windows of steps in order: each ends where the next begins, at the latest."""
    ends = [*(start for start, _ in steps), float("inf")][1:]
    return [(start, min(end, after)) for (start, end), after in zip(steps, ends, strict=True)]


def _rank_time(timeline: Timeline, gpu: int, split: SplitTime, steps: Sequence[int]) -> RankTime:
    total = split.seconds or 1.0
    idle: dict[str, float] = {}
    families: dict[str, float] = {}
    for cell in split.cells:
        sums = idle if cell.kind == IDLE_PART else families
        sums[cell.family] = sums.get(cell.family, 0.0) + cell.seconds / total
    parts = split.parts
    exposed, all_of_it = parts.communication * total, split.communication_seconds
    return RankTime(
        rank=timeline.rank,
        gpu=gpu,
        model=timeline.models.get(gpu),
        seconds=split.seconds,
        parts=parts,
        hidden_communication=max(1 - exposed / all_of_it, 0.0) if all_of_it else None,
        idle=_largest_first(idle),
        families=_largest_first(families),
        steps=tuple(
            StepTime(number, seconds, step)
            for number, (seconds, step) in zip(steps, split.steps, strict=True)
            if step is not None
        )[:MOST_STEPS],
        kernels=tuple(_kernels(split.cells, total)),
    )


def _largest_first(sums: dict[str, float]) -> dict[str, float]:
    return dict(
        sorted(
            ((name, share) for name, share in sums.items() if share > 0), key=lambda each: -each[1]
        )
    )


def _kernels(cells: Sequence[TimeCell], total: float) -> Iterator[KernelTime]:
    """The kernels that took most, each with the operator that launched most of it."""
    by_name: dict[str, list[TimeCell]] = {}
    for cell in cells:
        if cell.kind != IDLE_PART:
            by_name.setdefault(cell.name, []).append(cell)
    sums = {name: sum(each.seconds for each in some) for name, some in by_name.items()}
    for name in sorted(sums, key=lambda each: -sums[each])[:MOST_KERNELS]:
        some = by_name[name]
        operator = max(some, key=lambda each: each.seconds).operator
        launches = sum(each.launches for each in some)
        shown = name[:MOST_CHARS], some[0].family, operator[:MOST_CHARS]
        yield KernelTime(*shown, launches, sums[name] / total)
