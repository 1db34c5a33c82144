"""Splits the time of one GPU: into five parts, by step, and into cells that say what each second was about. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ofu_exporter.traces.families import Kind, collective_of, kernel_family, kind_of
from ofu_exporter.traces.host import Idle, Launches, Pause, Scope
from ofu_exporter.traces.sweep import NOTHING, Piece, pieces
from ofu_exporter.traces.timeline import Activities, Names
from ofu_exporter.values.trace import TimeParts

IDLE_PART = len(Kind)
"""The fifth part, beside the kinds of work."""
QUEUED_GAP = 10.0
"""Most microseconds that a GPU needs between two kernels that are queued; what takes longer waits for something."""
SMALL_FILL = 0.5
"""Blocks over SMs below which a kernel leaves most of the GPU empty."""
MOST_CELLS = 20_000
"""Cells beyond these are told apart by kind alone."""
_DRAINED = (Idle.SYNCHRONISATION, Idle.ALLOCATION)
"""What has the host wait until the GPU is empty, so that the time until the next launch is its cost, too."""


@dataclass(slots=True)
class TimeCell:
    """All time of one GPU, or of many, that was about the same."""

    kind: int
    """A kind of work, or IDLE."""
    name: str
    """The kernel or copy; of idle time, what the host was in."""
    operator: str
    """What launched it; of idle time, what launched the next work; "" = not recorded."""
    scope: Scope
    idle: Idle | None
    """None = it is not idle."""
    is_small: bool
    """Whether the kernel left most of the GPU empty."""
    seconds: float
    launches: int

    @property
    def family(self) -> str:
        if self.kind == Kind.COMMUNICATION:
            return collective_of(self.name, self.operator)
        return self.idle.value if self.idle else kernel_family(self.name)


class CellKey(NamedTuple):
    """What a cell is about, in numbers of names."""

    kind: int
    name: int
    operator: int
    scope: int
    idle: Idle | None
    is_small: bool = False


class Split:
    """The sums over the pieces of one GPU's time."""

    def __init__(self, ran: Activities, launches: Launches, pauses: Sequence[Pause]) -> None:
        self._ran, self._launches, self._pauses = ran, launches, pauses
        self._at_pause = 0
        self._numbers: dict[CellKey, int] = {}
        self._keys: list[CellKey] = []
        self._of = array("I", bytes(4 * len(ran)))
        """The cell of each activity."""
        self._seconds, self._counts = array("d"), array("Q")
        self._has_streams = len(set(ran.streams)) > 1

    def run(
        self, some: Iterable[int], names: Names, steps: Sequence[tuple[float, float]]
    ) -> SplitTime:
        """Go through all pieces of some activities. `steps` are the windows of the steps in order, in microseconds."""
        order = array("I", sorted(some, key=self._ran.starts.__getitem__))
        for each in order:
            self._of[each] = number = self._number(self._key_of(each, names))
            self._counts[number] += 1
        by_step = _Steps(steps)
        communication = _Union()
        first, last = float("inf"), 0.0
        for piece in pieces(self._things(order, communication)):
            first, last = min(first, piece.start), piece.end
            if piece.owner != NOTHING:
                cell = self._of[piece.owner]
                self._seconds[cell] += piece.end - piece.start
                by_step.add(piece.start, piece.end, self._keys[cell].kind)
            else:
                by_step.add(piece.start, piece.end, IDLE_PART)
                for seconds, key in self._gap(piece):
                    self._seconds[self._number(key)] += seconds
        cells = [self._cell(number, key, names) for number, key in enumerate(self._keys)]
        return SplitTime(
            max(last - first, 0.0) / 1e6, cells, communication.length / 1e6, by_step.parts()
        )

    def _key_of(self, each: int, names: Names) -> CellKey:
        ran, launches = self._ran, self._launches
        name = ran.names[each]
        kind = kind_of(names.texts[name])
        place = launches.place(ran.correlations[each])
        small = kind is Kind.TENSOR and 0 <= ran.fills[each] < SMALL_FILL
        if place is None:
            return CellKey(kind, name, NOTHING, 0, None, small)
        return CellKey(kind, name, launches.operators[place], launches.scopes[place], None, small)

    def _number(self, key: CellKey) -> int:
        number = self._numbers.get(key)
        if number is None and len(self._keys) >= MOST_CELLS:
            key = CellKey(key.kind, NOTHING, NOTHING, 0, key.idle)
            number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
            self._seconds.append(0.0)
            self._counts.append(0)
        return number

    def _things(
        self, order: Sequence[int], communication: _Union
    ) -> Iterator[tuple[float, float, int, int]]:
        ran = self._ran
        for each in order:
            kind = self._keys[self._of[each]].kind
            if kind == Kind.COMMUNICATION:
                communication.add(ran.starts[each], ran.ends[each])
            yield ran.starts[each], ran.ends[each], kind, each

    def _gap(self, gap: Piece) -> Iterator[tuple[float, CellKey]]:
        """What the host did while nothing ran, in pieces."""
        launches = self._launches
        place = launches.place(self._ran.correlations[gap.following])
        operator, scope = NOTHING, 0
        if place is not None:
            operator, scope = launches.operators[place], launches.scopes[place]
        if place is None or launches.ends[place] <= gap.start:
            yield from self._queued(gap, operator, scope, place is not None)
            return
        left, drained = gap.end - gap.start, None
        launched = min(max(launches.starts[place], gap.start), gap.end)
        for pause, seconds in self._paused(gap.start, launched):
            left -= seconds
            yield seconds, CellKey(IDLE_PART, pause.name, operator, scope, pause.idle)
            if pause.start < gap.start and pause.idle in _DRAINED:
                drained = pause
        if left > 0:
            why = Idle.OTHER_HOST if operator == NOTHING else Idle.OPERATOR
            name = NOTHING if drained is None else drained.name
            yield (
                left,
                CellKey(IDLE_PART, name, operator, scope, drained.idle if drained else why),
            )

    def _queued(
        self, gap: Piece, operator: int, scope: int, is_known: bool
    ) -> Iterator[tuple[float, CellKey]]:
        """What the host did while nothing ran although the next work was queued."""
        left = gap.end - gap.start
        waits = self._has_streams and left > QUEUED_GAP
        for pause, seconds in self._paused(gap.start, gap.end) if waits else ():
            left -= seconds
            yield seconds, CellKey(IDLE_PART, pause.name, operator, scope, Idle.STALLED)
        if left > 0:
            why = Idle.OTHER_STREAM if waits else Idle.BETWEEN_LAUNCHES
            why = why if is_known else Idle.UNKNOWN
            yield left, CellKey(IDLE_PART, NOTHING, operator, scope, why)

    def _paused(self, start: float, end: float) -> Iterator[tuple[Pause, float]]:
        """The pauses within a time; times come in order."""
        pauses = self._pauses
        while self._at_pause < len(pauses) and pauses[self._at_pause].end <= start:
            self._at_pause += 1
        at = self._at_pause
        while at < len(pauses) and pauses[at].start < end:
            yield pauses[at], min(pauses[at].end, end) - max(pauses[at].start, start)
            at += 1

    def _cell(self, number: int, key: CellKey, names: Names) -> TimeCell:
        name, operator = (
            "" if each == NOTHING else names.texts[each] for each in (key.name, key.operator)
        )
        seconds, count = self._seconds[number] / 1e6, self._counts[number]
        return TimeCell(
            key.kind, name, operator, Scope(key.scope), key.idle, key.is_small, seconds, count
        )


@dataclass(frozen=True, slots=True)
class SplitTime:
    """The time of one GPU between its first and its last kernel or copy."""

    seconds: float
    cells: list[TimeCell]
    communication_seconds: float
    """In which a collective ran, whether or not something computed."""
    steps: list[tuple[float, TimeParts | None]]
    """Seconds and parts of each step; None where nothing of it was recorded."""

    @property
    def parts(self) -> TimeParts:
        sums = [0.0] * (IDLE_PART + 1)
        for cell in self.cells:
            sums[cell.kind] += cell.seconds
        return shares(sums) or TimeParts(0.0, 0.0, 0.0, 0.0, 0.0)


def shares(sums: Sequence[float]) -> TimeParts | None:
    total = sum(sums)
    return TimeParts(*(each / total for each in sums)) if total > 0 else None


class _Union:
    """The length of intervals that may overlap and come by start."""

    def __init__(self) -> None:
        self.length = 0.0
        self._end = float("-inf")

    def add(self, start: float, end: float) -> None:
        if end > self._end:
            self.length += end - max(start, self._end)
            self._end = end


class _Steps:
    """Time by kind in each of some windows that come in order; so do the pieces."""

    def __init__(self, windows: Sequence[tuple[float, float]]) -> None:
        self._starts, self._ends = [start for start, _ in windows], [end for _, end in windows]
        self._sums = [[0.0] * (IDLE_PART + 1) for _ in windows]
        self._at = 0

    def add(self, start: float, end: float, kind: int) -> None:
        starts, ends = self._starts, self._ends
        while self._at < len(ends) and ends[self._at] <= start:
            self._at += 1
        at = self._at
        while at < len(starts) and starts[at] < end:
            self._sums[at][kind] += min(end, ends[at]) - max(start, starts[at])
            at += 1

    def parts(self) -> list[tuple[float, TimeParts | None]]:
        return [(sum(each) / 1e6, shares(each)) for each in self._sums]
