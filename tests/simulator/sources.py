"""Every way to read counters that is judged: how it is set up, and what can happen to it."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from tests.simulator import agent
from tests.simulator.curve import Curve
from tests.simulator.driver_servers import DcgmServer, NvmlServer
from tests.simulator.mishaps import (
    BEGIN,
    END,
    GONE,
    LATE,
    LOST,
    OUTAGE,
    REBORN,
    SEED,
    STOP,
    STOPPED,
    outage,
)
from tests.simulator.page_server import Pages, PageServer
from tests.simulator.score import Span
from tests.simulator.world import SimulatedTime, World


@dataclass
class Running:
    """A source that runs; agents may be begun on it one after another."""

    world: World
    source: Callable[[], agent.Source]
    close: Callable[[], None]
    unknowable: list[Span] = field(default_factory=list)
    """When nobody could know what the GPU did."""


class Kind(Protocol):
    """One way to read counters."""

    together: ClassVar[bool]
    """Whether one probe reads all GPUs: then each load is one of them."""

    @property
    def name(self) -> str: ...

    @property
    def mishaps(self) -> Sequence[str]:
        """What is tried on it."""

    @property
    def interval(self) -> float:
        """Of the agent's windows."""

    @property
    def pace(self) -> float:
        """Time between two values of the source, where it is not the agent that asks for them."""

    def start(self, folder: Path, curves: Sequence[Curve], mishap: str, /) -> Running:
        """Begin, with what will happen to it; "" = nothing."""


@dataclass(frozen=True)
class Nvml:
    """The driver, asked by the agent itself."""

    mishaps: ClassVar[Sequence[str]] = (GONE, STOPPED, REBORN)
    together: ClassVar[bool] = False

    name: str
    cycles: bool
    interval: float = 5.0
    pace: float = 0.0
    clock_excess: float = 0.0
    """By how much the driver names the clock of tensor work too high."""

    def start(self, folder: Path, curves: Sequence[Curve], mishap: str) -> Running:
        server = NvmlServer(folder, curves, self.cycles)
        server.say(f"gpu 0 clock_excess {self.clock_excess}")
        world = World(server, SEED)
        running = Running(world, lambda: agent.nvml_source(world), server.close)
        if mishap == GONE:
            world.at(OUTAGE.start, lambda: server.say("gpu 0 error nvmlGpmSampleGet 15"))
            world.at(OUTAGE.end, lambda: server.say("gpu 0 error nvmlGpmSampleGet 0"))
            running.unknowable.append(outage(self.interval))
        return running


@dataclass(frozen=True)
class Dcgm:
    """A host engine that runs beside the agent."""

    mishaps: ClassVar[Sequence[str]] = (GONE, STOPPED, REBORN, LATE)
    together: ClassVar[bool] = True

    name: str
    version: str
    watched: int = 0
    """A field that another client has begun to watch before the agent, at another time of the second."""
    watched_seconds: float = 1.0
    """The interval of that client."""
    interval: float = 5.0
    pace: float = 1.0
    clock_excess: float = 0.0

    def start(self, folder: Path, curves: Sequence[Curve], mishap: str) -> Running:
        server = DcgmServer(folder, curves, self.version)
        server.say(*(f"gpu {n} clock_excess {self.clock_excess}" for n in range(len(curves))))
        world = World(server, SEED)
        running = Running(world, lambda: agent.dcgm_source(world), server.close)
        if self.watched:
            world.at(
                BEGIN - 9.794, lambda: server.say(f"watch {self.watched} {self.watched_seconds:g}")
            )
        if mishap == GONE:
            world.at(OUTAGE.start, lambda: server.say("engine 0"))
            world.at(OUTAGE.end, lambda: server.say("engine 1"))
            running.unknowable.append(outage(self.interval))
        elif mishap == LATE:
            for number in range(60):
                world.at(BEGIN + 10 * number, lambda: server.say("late 1"))
        return running


@dataclass(frozen=True)
class Page:
    """The page of a dcgm-exporter."""

    together: ClassVar[bool] = True

    pace: float
    """Its collection interval."""
    interval: float
    over_http: bool = False
    """Whether the agent fetches it from a server, or is given its text: that is the same and takes half of the time."""

    @property
    def mishaps(self) -> Sequence[str]:
        return (GONE, STOPPED, REBORN, LATE, LOST) if self.interval == 5 else ()

    @property
    def name(self) -> str:
        return f"page {self.pace:g} s / {self.interval:g} s"

    def start(self, _: Path, curves: Sequence[Curve], mishap: str) -> Running:
        time = SimulatedTime()
        pages = Pages(curves, self.pace, time.now)
        world = World(time, SEED)
        unknowable = self._befall(pages, mishap)
        if self.over_http:
            server = PageServer(pages)
            fetched = functools.partial(agent.fetched_page_source, world, server.url, self.pace)
            return Running(world, fetched, server.close, unknowable)
        given = functools.partial(agent.page_source, world, pages.page, self.pace)
        return Running(world, given, lambda: None, unknowable)

    def _befall(self, pages: Pages, mishap: str) -> list[Span]:
        """Let it happen; returns what nobody can know then."""
        chance = random.Random(SEED)
        if mishap == GONE:
            pages.restart(OUTAGE)
            return [outage(max(self.interval, self.pace))]
        if mishap == LATE:
            pages.delay(lambda: chance.uniform(0, 0.8 * self.pace))
        elif mishap == LOST:
            return pages.lose(Span(BEGIN, END), lambda: chance.random() < 0.1)
        elif mishap == STOPPED:
            # What came and went meanwhile; the last is still there.
            shown = Span(STOP.start, STOP.end - self.pace)
            return [shown] if shown.end > shown.start else []
        return []


KINDS: tuple[Kind, ...] = (
    Nvml("nvml", cycles=False),
    Nvml("nvml, cycles", cycles=True),
    Dcgm("dcgm", "4.5"),
    Dcgm("dcgm, cycles", "4.6"),
    Dcgm("dcgm, phases", "4.5", watched=1004),
    Dcgm("dcgm, shared", "4.5", watched=1001),
    Dcgm("dcgm, cycles, phases", "4.6", watched=1004),
    Dcgm("dcgm, cycles, shared", "4.6", watched=1001),
    *(Page(pace, interval) for interval in (5.0, 1.0) for pace in (1.0, 5.0, 30.0)),
)
BY_NAME = {kind.name: kind for kind in KINDS}
