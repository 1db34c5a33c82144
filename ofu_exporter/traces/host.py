"""Says what the host of a trace was about: which operator launched what, and which waits and pauses it was in."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, IntFlag
from typing import NamedTuple, TypeVar

from ofu_exporter.traces.sweep import NOTHING, pieces
from ofu_exporter.traces.timeline import HostEvents, Timeline


class Idle(str, Enum):
    """Why nothing ran on a GPU."""

    CHECKPOINT = "checkpoint"
    GARBAGE_COLLECTION = "garbage_collection"
    DATA_LOADER = "data_loader"
    CPU_COLLECTIVE = "cpu_collective"
    ALLOCATION = "allocation"
    SYNCHRONISATION = "synchronisation"
    OPERATOR = "operator"
    """The host was in an operator or a launch, on the way to the next launch."""
    OTHER_HOST = "other_host"
    """The host was in no operator that was recorded, such as in Python."""
    STALLED = "stalled"
    """Work was queued and waited, while the host stood in a call or a pause and queued nothing else."""
    OTHER_STREAM = "other_stream"
    """Work was queued and waited, for another stream or an event."""
    UNKNOWN = "unknown"
    """The trace has no call that launched the next work."""
    BETWEEN_LAUNCHES = "between_launches"
    """The next work was queued or just launched: what a GPU needs between two."""

    __hash__ = str.__hash__


_CPU_COLLECTIVE = re.compile(r"^(?:gloo|mpi|ucc):")
_PAUSES = {
    Idle.CHECKPOINT: r"torch[./]save\b|save_(?:model_|sharded_)?checkpoint|checkpoint\w*[./:]+_?save|checkpoint_?sav"
    r"|dcp[._]save|serialization\.py\(\d+\): save|state_dict_saver",
    Idle.GARBAGE_COLLECTION: r"\bgc[.:]+\s*collect|python_?\s?gc\b|garbage_?\s?collect",
    Idle.DATA_LOADER: r"data_?loader|^(?:load|fetch|get|next)_?(?:data|batch|input)|data_?loading|dataset.*__next__",
    Idle.CPU_COLLECTIVE: r"^(?:gloo|mpi|ucc):|monitored_?barrier",
    Idle.ALLOCATION: r"^(?:cuda|hip|cu)(?:Malloc|Free|Host(?:Alloc|Free|Register|Malloc)"
    r"|Mem(?:Create|Map|Unmap|Release|Alloc|Free))(?!.*Async)",
    Idle.SYNCHRONISATION: r"^(?:cuda|hip|cu)(?:Device|Stream|Event|Ctx)Synchronize"
    r"|^aten::(?:item|_local_scalar_dense|nonzero|is_nonzero|equal|masked_select)$"
    r"|^(?:cuda|hip)Memcpy(?:Async)?$",
}
"""What tells that the host was in each, by name; of two at once the first."""
BLOCKING_COPY = 100.0
"""Microseconds from which on a call that copies has waited for the GPU: from memory that is not pinned, it does."""
_COPY = re.compile(r"Memcpy")
_PATTERNS = {idle: re.compile(pattern, re.IGNORECASE) for idle, pattern in _PAUSES.items()}
PAUSES = tuple(_PAUSES)


class Scope(IntFlag):
    """What an operator was part of."""

    NONE = 0
    OPTIMIZER = 1
    RECOMPUTE = 2
    ATTENTION = 4


_SCOPES = {
    Scope.OPTIMIZER: re.compile(r"^Optimizer\.step#|optim/\w+\.py\(\d+\): step"),
    Scope.RECOMPUTE: re.compile(
        r"CheckpointFunctionBackward|checkpoint\.py\(\d+\): (?:recompute|unpack|backward)|\brecompute",
        re.IGNORECASE,
    ),
    Scope.ATTENTION: re.compile(
        r"scaled_dot_product_attention_math|^aten::_?multi_?head_?attention|self_?attention\b",
        re.IGNORECASE,
    ),
}


_LAUNCHING = re.compile(r"Launch|Memcpy|Memset", re.IGNORECASE)

TableT = TypeVar("TableT")


class _ByName(dict[int, TableT]):
    """What a name says, looked at once for each number of a name."""

    def __init__(self, timeline: Timeline, says: Callable[[str], TableT]) -> None:
        super().__init__()
        self._texts, self._says = timeline.names.texts, says

    def __missing__(self, number: int) -> TableT:
        self[number] = table = self._says(self._texts[number])
        return table


class Launches:
    """The calls that launched something, in columns by correlation."""

    def __init__(self, timeline: Timeline) -> None:
        self._correlations = array("q")
        self.starts, self.ends = array("d"), array("d")
        self.operators = array("i")
        """The name of the innermost operator or annotation; NOTHING = none was recorded."""
        self.scopes = array("B")
        launching = _ByName(timeline, _LAUNCHING.search)
        scopes = _ByName(timeline, _scope)
        for thread, calls in timeline.calls.items():
            events = timeline.events.get(thread) or HostEvents()
            wanted = (each for each in calls.by_start() if launching[calls.names[each]])
            for call, operator, scope in _within(calls, wanted, events, scopes):
                self._correlations.append(calls.correlations[call])
                self.starts.append(calls.starts[call])
                self.ends.append(calls.ends[call])
                self.operators.append(operator)
                self.scopes.append(scope)
        self._sort()

    def _sort(self) -> None:
        """Sort by correlation; searching takes a tenth of the memory of a table of places."""
        order = sorted(range(len(self.starts)), key=self._correlations.__getitem__)
        for name in ("_correlations", "starts", "ends", "operators", "scopes"):
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, map(column.__getitem__, order)))

    def place(self, correlation: int) -> int | None:
        """Where the call of a correlation stands; None = the trace has none."""
        place = bisect_left(self._correlations, correlation)
        is_there = place < len(self._correlations) and self._correlations[place] == correlation
        return place if is_there else None


def _within(
    calls: HostEvents, wanted: Iterable[int], events: HostEvents, scopes: Mapping[int, int]
) -> Iterator[tuple[int, int, int]]:
    """Some calls of a thread, each with the operator and the scopes that it was in."""
    order, position = events.by_start(), 0
    starts, ends, names = events.starts, events.ends, events.names
    inside: list[tuple[float, int, int]] = []
    for call in wanted:
        now = calls.starts[call]
        while position < len(order) and starts[order[position]] <= now:
            event, position = order[position], position + 1
            while inside and inside[-1][0] <= starts[event]:
                inside.pop()
            if ends[event] > now:
                around = inside[-1][2] if inside else 0
                inside.append((ends[event], names[event], around | scopes[names[event]]))
        while inside and inside[-1][0] < now:
            inside.pop()
        yield (call, *inside[-1][1:]) if inside else (call, NOTHING, 0)


def _scope(name: str) -> int:
    return sum(scope for scope, pattern in _SCOPES.items() if pattern.search(name))


def _pause(name: str) -> int | None:
    """The place in PAUSES of what a name tells; None = nothing."""
    return next((PAUSES.index(idle) for idle, each in _PATTERNS.items() if each.search(name)), None)


class Pause(NamedTuple):
    """A time in which the host was in something that keeps it from launching."""

    start: float
    end: float
    idle: Idle
    name: int


def pauses(timeline: Timeline) -> list[Pause]:
    """The pauses of the threads that launch, in order; of two at once the foremost."""
    kinds, copies = _ByName(timeline, _pause), _ByName(timeline, _COPY.search)
    stretches: list[tuple[float, float, int, int]] = []
    for table in (timeline.events, timeline.calls):
        for thread, events in table.items():
            launching = thread in timeline.calls
            for start, end, name in zip(events.starts, events.ends, events.names, strict=True):
                rank = kinds[name]
                if rank is None or (copies[name] and end - start < BLOCKING_COPY):
                    continue
                if launching or PAUSES[rank] is Idle.CPU_COLLECTIVE:
                    stretches.append((start, end, rank, name))
    stretches.sort()
    return [
        Pause(start, end, PAUSES[kinds[name] or 0], name)
        for start, end, name, _ in pieces(stretches)
        if name != NOTHING
    ]


def cpu_collectives(timeline: Timeline) -> dict[str, int]:
    """How often collectives ran on the CPU, by their names."""
    wanted = _ByName(timeline, _CPU_COLLECTIVE.search)
    counts: dict[str, int] = {}
    for events in timeline.events.values():
        for name in events.names:
            if wanted[name]:
                text = timeline.names.texts[name]
                counts[text] = counts.get(text, 0) + 1
    return counts
