"""Plays a recording at the pace at which it was made, with a pause and steps in both directions."""

from __future__ import annotations

import datetime
import math
import time
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.recordings import recording
from ofu_exporter.serving.node_json import NodeJson, node_state
from ofu_exporter.serving.page import Page
from ofu_exporter.settings import Settings
from ofu_exporter.terminal.scene import Scene, SceneAnswer
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.snapshot import SourceHealth

MOST_FRAMES = 600
"""Number of windows that one can step back."""
TOGETHER_SECONDS = 0.2
"""Readings that end within this time of each other belong to one window."""


class Frame(NamedTuple):
    """The node after one window of the recording."""

    at: float
    """Seconds since the recording began."""
    node: NodeJson


class Playback:
    """A recording and the position in it. Only one thread may call it."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises SourceError for a file that is not a recording."""
        self._path = path
        self._clock = clock
        self._frames = _frames(path)
        self._kept: deque[Frame] = deque(maxlen=MOST_FRAMES)
        self._next = next(self._frames, None)
        self._back = 0
        """How many frames before the newest one is shown."""
        self._shown_at = clock()
        self.paused = False

    def start(self) -> None:
        self._shown_at = self._clock()
        self._advance()

    def scene(self) -> Scene:
        if not self.paused:
            self._play()
        if not self._kept:
            return Scene((SceneAnswer(self._path.name, None, "has no reading"),), "a recording")
        frame = self._kept[-1 - self._back]
        over = ", its end" if self._next is None and not self._back else ""
        origin = f"a recording, at {frame.at:.0f} s{over}"
        return Scene((SceneAnswer(self._path.name, frame.node),), origin, self.paused)

    def complete(self, seconds: float) -> Scene:
        """The scene at the end of the recording, or as far as it can be read in this time."""
        deadline = self._clock() + seconds
        while self._advance() and self._clock() < deadline:
            pass
        self._shown_at = self._clock()
        return self.scene()

    def stop(self) -> None:
        self._frames.close()

    def pause(self) -> None:
        """Pause, or continue."""
        self.paused = not self.paused
        self._shown_at = self._clock()

    def step(self, windows: int) -> None:
        """Pause, and move one window forward or back."""
        self.paused = True
        if windows < 0:
            self._back = min(self._back + 1, max(0, len(self._kept) - 1))
        elif self._back:
            self._back -= 1
        else:
            self._advance()

    def _play(self) -> None:
        """Show every window that is due by now."""
        while (coming := self._coming()) is not None and self._kept:
            wait = max(0.0, coming.at - self._kept[-1 - self._back].at)
            if self._clock() - self._shown_at < wait:
                return
            self._shown_at += wait
            if self._back:
                self._back -= 1
            else:
                self._advance()

    def _coming(self) -> Frame | None:
        return self._kept[-self._back] if self._back else self._next

    def _advance(self) -> bool:
        """Take the next window; False at the end."""
        if self._next is None:
            return False
        self._kept.append(self._next)
        self._next = next(self._frames, None)
        return True


class _Recorded:
    """The agent's page as it would have been while the recording was made."""

    def __init__(self, path: Path) -> None:
        self.played = recording.read(path)
        self._name = path.name
        self._interval = self.played.header.interval or Settings().interval
        self._began = _unix(self.played.header.created)
        self._now = 0.0
        self._page = Page(lambda: self._now, process=False, unix=self._unix)
        self._gpus: dict[Gpu, None] = {}
        self._state = State()

    def _unix(self) -> float:
        """Unix time of the moment that is played; 0 if the recording does not say."""
        return self._began + self._now if self._began else 0.0

    def frame(self, events: list[Reading | Fault]) -> Frame:
        self._now = max(self._now, *map(_end, events))
        self._gpus.update(dict.fromkeys(event.gpu for event in events))
        header = self.played.header
        tick = Tick(
            now=self._now,
            interval=self._interval,
            present=sorted(self._gpus, key=lambda gpu: (len(gpu.index), gpu.index, gpu.instance)),
            events=events,
            source=SourceHealth(header.source, up=True, reason=None, simulated=header.simulated),
            unix=self._unix(),
        )
        self._state, snapshot = step(self._state, tick)
        self._page.publish(snapshot)
        page = self._page
        node = node_state(page.snapshot(), page.history, self._name, 0.0, page.faults)
        return Frame(self._now, node)


def _frames(path: Path) -> Generator[Frame, None, None]:
    recorded = _Recorded(path)
    together: list[Reading | Fault] = []
    for event in recorded.played.events:
        if not math.isfinite(_end(event)):
            continue
        if together and not _is_of(together, event):
            yield recorded.frame(together)
            together = []
        together.append(event)
    if together:
        yield recorded.frame(together)


def _is_of(together: list[Reading | Fault], event: Reading | Fault) -> bool:
    """Whether an event is of the same window: soon after the first one, and of another GPU."""
    is_soon = abs(_end(event) - _end(together[0])) <= TOGETHER_SECONDS
    return is_soon and all(event.gpu.key != each.gpu.key for each in together)


def _end(event: Reading | Fault) -> float:
    return event.at if isinstance(event, Fault) else event.end


def _unix(created: str) -> float:
    """Unix time of the header's date; 0 if it is not a date."""
    try:
        return datetime.datetime.fromisoformat(created).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0
