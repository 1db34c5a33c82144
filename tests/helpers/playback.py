"""Puts a recording through the tick at once, as the agent would at its pace."""

from __future__ import annotations

from pathlib import Path

from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.recordings import recording
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.snapshot import Snapshot, SourceHealth
from tests.helpers.node import EPOCH

RECORDINGS = Path(__file__).parents[1] / "recordings"


def play(path: Path, interval: float = 5.0) -> Snapshot:
    """The snapshot after the last reading of a recording."""
    played = recording.read(path)
    state = State()
    gpus: dict[Gpu, None] = {}
    snapshot = Snapshot(0.0, (), SourceHealth("replay"))
    for number, event in enumerate(played.events, start=1):
        gpus[event.gpu] = None
        health = SourceHealth(
            "replay",
            up=True,
            reason=None,
            simulated=played.header.simulated,
            reads=number,
            rejected={"damaged_line": len(played.damaged)} if played.damaged else {},
        )
        now = max(snapshot.at, end(event))
        tick = Tick(now, interval, list(gpus), [event], health, unix=EPOCH + now)
        state, snapshot = step(state, tick)
    return snapshot


def end(event: Reading | Fault) -> float:
    return event.at if isinstance(event, Fault) else event.end
