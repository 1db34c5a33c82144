"""Keeps what ran on the GPUs of one process and what its host did meanwhile, in columns of few bytes an event."""

from __future__ import annotations

import time
from array import array
from collections.abc import Hashable
from itertools import islice
from operator import lt

from ofu_exporter.errors import ConfigError
from ofu_exporter.values.trace import TraceLimits

MOST_MICROSECONDS = 1e17
"""Times beyond this, the year 5138, are none."""
EVENTS_BETWEEN_LOOKS = 4096
MOST_GPUS, MOST_THREADS = 64, 4096
"""Of one process."""


class Activities:
    """What ran on one GPU: kernels, copies and memsets."""

    def __init__(self) -> None:
        self.starts, self.ends = array("d"), array("d")
        """Microseconds."""
        self.names = array("I")
        self.streams = array("I")
        self.correlations = array("q")
        """The launch of each; 0 = not known."""
        self.fills = array("f")
        """Blocks of each kernel over the SMs of the GPU; below 0 = not known."""

    def __len__(self) -> int:
        return len(self.starts)


class HostEvents:
    """Operators, annotations, or calls of the driver on one thread of the host."""

    def __init__(self) -> None:
        self.starts, self.ends = array("d"), array("d")
        """Microseconds."""
        self.names = array("I")
        self.correlations = array("q")
        """Of calls; 0 = it launched nothing."""

    def __len__(self) -> int:
        return len(self.starts)

    def by_start(self) -> array[int]:
        """Their places, earliest first; of two that begin together the longer one first."""
        if all(map(lt, self.starts, islice(self.starts, 1, None))):
            return array("I", range(len(self)))
        order = sorted(range(len(self)), key=self.ends.__getitem__, reverse=True)
        order.sort(key=self.starts.__getitem__)
        return array("I", order)


STEP = "ProfilerStep#"
MOST_NAMES = 10_000
"""Different names that are told apart. A job has some hundreds."""
LONGEST_NAME = 2000
OTHERS = "(other names)"


class Names:
    """Numbers of texts: each is held once, and cut; beyond MOST_NAMES all are the same."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []

    def number(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            text = text[:LONGEST_NAME] if len(self.texts) < MOST_NAMES else OTHERS
            text = text.encode(
                errors="replace"
            ).decode()  # half a surrogate pair is no text in a report
            number = self._numbers.setdefault(text, len(self.texts))
            if number == len(self.texts):
                self.texts.append(text)
        return number


class Costs:
    """What reading a file has cost. It raises ConfigError when that is more than its limits."""

    def __init__(self, limits: TraceLimits) -> None:
        self._left = limits.events
        self._limits = limits
        self._end = time.process_time() + limits.seconds

    def look(self) -> None:
        """Raise ConfigError when the time is over."""
        if time.process_time() > self._end:
            raise ConfigError(f"it takes more than {self._limits.seconds:g} s of CPU time to read")

    def count(self) -> None:
        """One event more. Raises ConfigError when they are too many, or the time is over."""
        self._left -= 1
        if self._left % EVENTS_BETWEEN_LOOKS == 0:
            if self._left <= 0:
                raise ConfigError(f"it has more than {self._limits.events:,} events")
            self.look()


class Timeline:
    """All of one process. It raises ConfigError when the trace costs more than its limits."""

    def __init__(self, limits: TraceLimits, beside: Timeline | None = None) -> None:
        """`beside` is another process of the same file, with which it shares the limits."""
        self.rank: int | None = None
        self.models: dict[int, str] = {}
        """By number of the GPU."""
        self.capabilities: dict[int, int] = {}
        """Compute capability, times ten, by number of the GPU."""
        self.names: Names = Names() if beside is None else beside.names
        self.gpus: dict[int, Activities] = {}
        self.events: dict[Hashable, HostEvents] = {}
        """Operators and annotations by thread."""
        self.calls: dict[Hashable, HostEvents] = {}
        """Calls of the driver by thread."""
        self.steps: dict[int, tuple[float, float]] = {}
        """First and last microsecond of each `ProfilerStep`."""
        self._costs: Costs = Costs(limits) if beside is None else beside._costs
        self.count, self.look = self._costs.count, self._costs.look

    def add_event(
        self, gpu: int, name: str, times: tuple[float, float], ids: tuple[int, int], fill: float
    ) -> None:
        """Add a kernel, copy or memset. `ids` are its stream and its correlation."""
        self.count()
        activities = self.gpus.get(gpu)
        if activities is None:
            if len(self.gpus) >= MOST_GPUS:
                raise ConfigError(f"it has more than {MOST_GPUS} GPUs")
            activities = self.gpus[gpu] = Activities()
        activities.starts.append(times[0])
        activities.ends.append(times[1])
        activities.names.append(self.names.number(name))
        activities.streams.append(ids[0] & 0xFFFFFFFF)
        activities.correlations.append(ids[1])
        activities.fills.append(fill)

    def did(
        self, thread: Hashable, name: str, times: tuple[float, float], call: int | None = None
    ) -> None:
        """An operator or an annotation on the host; with `call`, a call of the driver with that correlation."""
        self.count()
        table = self.events if call is None else self.calls
        events = table.get(thread)
        if events is None:
            if len(table) >= MOST_THREADS:
                raise ConfigError(f"it has more than {MOST_THREADS:,} threads")
            events = table[thread] = HostEvents()
        events.starts.append(times[0])
        events.ends.append(times[1])
        events.names.append(self.names.number(name))
        if call is not None:
            events.correlations.append(call)

    def step(self, name: str, times: tuple[float, float]) -> None:
        """Keep the window of a step, where a name is that of one."""
        if name.startswith(STEP) and name[len(STEP) : 32].isdecimal():
            self.steps.setdefault(int(name[len(STEP) : 32]), times)


def interval(start: object, duration: object) -> tuple[float, float] | None:
    """Start and end of an event in microseconds; None for what are no times."""
    if not isinstance(start, (int, float)) or not isinstance(duration, (int, float)):
        return None
    if not 0 <= start <= MOST_MICROSECONDS or not 0 <= duration <= MOST_MICROSECONDS:
        return None
    return float(start), float(start) + duration
