"""Reads all traces of one job: the time of its ranks, what cost it, and what its kernels execute.

`read` is for a process of its own where a node's agent asks: it takes paths and limits, and its result is plain data.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.traces import findings, rank, ranks
from ofu_exporter.traces.findings import TraceFacts
from ofu_exporter.traces.formats import Profile
from ofu_exporter.traces.rank import GpuTrace
from ofu_exporter.traces.seconds import TimeCell
from ofu_exporter.values.trace import MOST_RANKS, UNLIMITED, TraceLimits, TraceResult

MOST_UNREAD = 20
"""Files of which it is said why they were not read."""
TRACES = ("*.json", "*.json.gz", "*.sqlite")
"""What of a folder is read."""


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """The files themselves, and the traces in folders. Raises ConfigError for a folder without any."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        traces = sorted({each for pattern in TRACES for each in path.glob(pattern)})
        if not traces:
            raise ConfigError(f"{path} has no files {', '.join(TRACES)}")
        yield from traces


def read(
    paths: Sequence[Path], limits: TraceLimits = UNLIMITED
) -> tuple[TraceResult, list[Profile]]:
    """The time and the findings of some files, and each file's launches.

    A file that can't be read costs the others nothing. Raises ConfigError where none can be read.
    """
    end = time.process_time() + limits.seconds
    gpus, profiles, unread = [], [], {}
    files = list(files_of(paths))
    for path in files[:MOST_RANKS]:
        try:
            left = replace(limits, seconds=max(end - time.process_time(), 0.0))
            profile, some = rank.read(path, left)
        except (ConfigError, MemoryError) as error:
            if len(files) == 1:
                raise
            unread[str(path)] = str(error) or "it takes more memory than there is"
            continue
        profiles.append(profile)
        gpus += some
    if not profiles:
        raise ConfigError(f"none of {len(files)} files can be read: {next(iter(unread.values()))}")
    if len(files) > MOST_RANKS:
        over = f"{len(files) - MOST_RANKS:,} files after the first {MOST_RANKS:,}"
        unread = {over: over, **unread}
    return replace(_result(gpus), unread=_first(unread)), profiles


def _first(unread: dict[str, str]) -> dict[str, str]:
    """The first of them, and how many more there are."""
    if len(unread) <= MOST_UNREAD:
        return unread
    more = f"{len(unread) - MOST_UNREAD + 1:,} more files, for such reasons"
    return {**dict(islice(unread.items(), MOST_UNREAD - 1)), more: more}


def _result(gpus: Sequence[GpuTrace]) -> TraceResult:
    collectives = {each.time.rank: each.collectives for each in gpus if each.time.rank is not None}
    slow = ranks.waiting(collectives) if len(collectives) == len(gpus) else None
    capabilities = {each.capability for each in gpus}
    counts: dict[str, int] = {}
    padding: dict[str, float] = {}
    for gpu in gpus:
        padding |= gpu.padding
        for name, count in gpu.cpu_collectives.items():
            counts[name] = counts.get(name, 0) + count
    facts = TraceFacts(
        cells=_together(gpus),
        seconds=sum(each.time.seconds for each in gpus),
        steps=sum(each.steps for each in gpus),
        cpu_collectives=counts,
        capability=capabilities.pop() if len(capabilities) == 1 else None,
        padding=padding,
        waiting=slow,
    )
    times = sorted((each.time for each in gpus), key=lambda each: (each.rank or 0, each.gpu or 0))
    return TraceResult(tuple(times), findings.findings_of(facts), slow.rank if slow else None)


def _together(gpus: Sequence[GpuTrace]) -> list[TimeCell]:
    """The cells of all GPUs, with those that are about the same added up."""
    cells: dict[tuple[object, ...], TimeCell] = {}
    for gpu in gpus:
        for cell in gpu.cells:
            key = (cell.kind, cell.name, cell.operator, cell.scope, cell.idle, cell.is_small)
            if key not in cells:
                cells[key] = replace(cell)
            else:
                cells[key].seconds += cell.seconds
                cells[key].launches += cell.launches
    return list(cells.values())
