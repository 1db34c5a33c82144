"""Runs the agent on a source for ten minutes, and scores what it counted against what the GPUs did."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.simulator import agent
from tests.simulator.loads import Load
from tests.simulator.mishaps import BEGIN, END, REBIRTH, REBORN, SEED, STOPS
from tests.simulator.score import Asked, Score, Span, score
from tests.simulator.sources import Kind, Running


class Ran(NamedTuple):
    """What came of a run."""

    windows: dict[str, list[agent.Counted]]
    """By load."""
    shown: dict[str, list[agent.Counted]]
    """By load: what the page showed after each delivery of the source."""
    asked: Asked


def judged(kind: Kind, loads: Sequence[Load], mishap: str = "") -> dict[str, Score | None]:
    """The score of each load, by its name."""
    found: dict[str, Score | None] = {}
    for at_once in [loads] if kind.together else [[load] for load in loads]:
        result = ran(kind, at_once, mishap)
        for load in at_once:
            found[load.name] = score(load.curve, result.windows[load.name], result.asked)
    return found


def ran(kind: Kind, loads: Sequence[Load], mishap: str = "", end: float = END) -> Ran:
    """One run with a GPU for each load."""
    with tempfile.TemporaryDirectory() as folder:
        running = kind.start(Path(folder), [load.curve for load in loads], mishap)
        try:
            lives = _lives(running, kind, mishap, end)
        finally:
            running.close()
    asked = Asked(Span(BEGIN, end), kind.interval + 2 * kind.pace, running.unknowable)
    windows, shown = (
        {load.key: [w for each in of for w in each.get(gpu, [])] for gpu, load in enumerate(loads)}
        for of in ([life.windows for life in lives], [life.shown for life in lives])
    )
    return Ran(windows, shown, asked)


def _lives(running: Running, kind: Kind, mishap: str, end: float) -> list[agent.Agent]:
    """The lives of the agent, one after the other."""
    agent.seed(SEED)
    running.world.wait(BEGIN)
    running.world.stopped = STOPS.get(mishap, ())
    if mishap != REBORN:
        return [_life(running, kind.interval, end)]
    first = _life(running, kind.interval, REBIRTH.start)
    running.world.wait(REBIRTH.end - REBIRTH.start)
    second = _life(running, kind.interval, end)
    slack = kind.interval + kind.pace
    running.unknowable.append(Span(REBIRTH.start - slack, REBIRTH.end + 1 + kind.pace))
    return [first, second]


def _life(running: Running, interval: float, until: float) -> agent.Agent:
    living = agent.Agent(running.source(), running.world, interval)
    living.live(until)
    for gpu, windows in living.windows.items():
        seconds = math.fsum(each.end - each.start for each in windows)
        assert math.isclose(seconds, living.observed_seconds(gpu), abs_tol=1e-6), "one was not seen"
    return living
