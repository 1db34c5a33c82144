"""The agent under simulated time: its own drivers, its own lane's schedule, its own tick. All imports of it are here.

Only threads are left out, since they wait in real time: the lane runs in the caller's, and its waiting moves the time.
"""

from __future__ import annotations

import contextlib
import queue
import random
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from ofu_exporter.agent import lanes
from ofu_exporter.errors import PageError
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.reports.owner import gpus_of_reports
from ofu_exporter.sources import Source
from ofu_exporter.sources.dcgm import driver as dcgm
from ofu_exporter.sources.dcgm_exporter import driver as dcgm_exporter
from ofu_exporter.sources.nvml import driver as nvml
from ofu_exporter.values.job import Claim, Ownership
from ofu_exporter.values.reading import Fault, Reading, Window
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot, SourceHealth
from tests.simulator.driver_servers import START
from tests.simulator.world import World

__all__ = [
    "Agent",
    "Counted",
    "Source",
    "dcgm_source",
    "fetched_page_source",
    "nvml_source",
    "page_source",
    "seed",
]


class Counted(NamedTuple):
    """A window that the agent has added to its totals; times are seconds of the load."""

    start: float
    end: float
    utilization: float
    stderr: float | None
    method: str


def nvml_source(world: World) -> Source:
    return nvml.Source(nvml.Options(), world.monotonic)


def dcgm_source(world: World) -> Source:
    return dcgm.Source(dcgm.Options(), world.monotonic, world.unix)


def fetched_page_source(world: World, url: str, interval: float) -> Source:
    options = dcgm_exporter.Options(url=url, collect_interval=interval)
    return dcgm_exporter.Source(options, world.monotonic)


def page_source(world: World, page: Callable[[], str | None], interval: float) -> Source:
    """The same, given the page as it is now: None where it does not answer."""
    options = dcgm_exporter.Options(collect_interval=interval)
    return _GivenPage(page, options, world.monotonic)


class _GivenPage(dcgm_exporter.Source):
    """A page that costs no requests."""

    def __init__(self, page: Callable[[], str | None], *settings: Any) -> None:
        super().__init__(*settings)
        self._page = page

    def open(self) -> Sequence[dcgm_exporter.Probe]:
        client = _PageClient(self._page)
        with mock.patch.object(dcgm_exporter, "PageClient", return_value=client):
            return super().open()


class _PageClient:
    """Stands in for the agent's client of pages."""

    shown_url = "the page"

    def __init__(self, page: Callable[[], str | None]) -> None:
        self._page = page

    def fetch(self, _: int) -> str:
        page = self._page()
        if page is None:
            raise PageError(Reason.UNREACHABLE, "it does not answer")
        return page

    def close(self) -> None:
        """There is no connection."""


class Agent:
    """One life of the agent with one probe, and every window that it counted, by the GPU's index."""

    def __init__(
        self,
        source: Source,
        world: World,
        interval: float,
        claims: tuple[Claim, ...] = (),
        publish: Callable[[Snapshot], None] = lambda _: None,
    ) -> None:
        """`claims` hold from the first tick on; `publish` gets the snapshot of every tick."""
        self._source = source
        self._world = world
        self._pace = lanes.SamplingPace(interval)
        self._inbox: lanes.Inbox = queue.SimpleQueue()
        self._state = State()
        self._claims = claims
        self._publish = publish
        self._until = 0.0
        self._snapshot: Snapshot | None = None
        self.windows: dict[int, list[Counted]] = {}
        self.shown: dict[int, list[Counted]] = {}
        """What the page shows after each delivery of the source."""
        self.troubles: Counter[str] = Counter()
        """Reasons why a GPU was not measured, by the number of ticks."""

    def live(self, until: float) -> None:
        """From now on until then."""
        self._until = until
        (probe,) = self._source.open()
        self._lane = lanes.Lane(probe, self._pace, self._inbox, self._world.monotonic)
        stand_in = SimpleNamespace(Condition=lambda: _Wake(self._wait), Thread=_SameThread)
        with mock.patch.object(lanes, "threading", stand_in):
            self._threads = lanes.LaneThreads([self._lane], self._pace, self._world.monotonic)
            self._threads.start()
        self._take_deliveries()
        self._source.close()

    def observed_seconds(self, gpu: int) -> float:
        """O of a GPU."""
        return next(
            k.view.observed_seconds
            for k in self._state.gpus.values()
            if k.view.gpu.index == str(gpu)
        )

    def _wait(self, seconds: float) -> None:
        self._take_deliveries()
        self._world.wait(min(seconds, self._until - self._world.now()))
        if self._world.now() >= self._until:
            self._threads.stop()

    def _take_deliveries(self) -> None:
        while not self._inbox.empty():
            delivery = self._inbox.get()
            if delivery is not None:
                self._take(list(delivery.events))

    def _take(self, events: list[Reading | Fault]) -> None:
        """As many ticks as one GPU has events, each as of its own: it counts one window at most, which is then seen."""
        while events:
            seen: set[str] = set()
            now: list[Reading | Fault] = []
            later: list[Reading | Fault] = []
            for event in events:
                (later if event.gpu.index in seen else now).append(event)
                seen.add(event.gpu.index)
            at = max((e.end for e in now if isinstance(e, Reading)), default=0.0) if later else 0.0
            self._tick(now, at or self._world.monotonic())
            events = later
        for view in self._snapshot.gpus if self._snapshot else ():
            if view.window is not None and view.window.utilization is not None:
                self.shown.setdefault(int(view.gpu.index), []).append(_counted(view.window))

    def _tick(self, events: list[Reading | Fault], at: float) -> None:
        before = {key: known.view.observed_seconds for key, known in self._state.gpus.items()}
        tick = Tick(
            now=at,
            interval=self._pace.interval,
            present=self._lane.gpus,
            events=events,
            source=SourceHealth("simulator", up=True, reason=None),
            unix=self._world.unix(),
            owners=self._changes(),
        )
        self._state, self._snapshot = step(self._state, tick)
        self._publish(self._snapshot)
        self._lane.divide(gpus_of_reports(self._snapshot))
        for view in self._snapshot.gpus:
            window = self._state.gpus[view.gpu.key].recent[-1] if view.window else None
            if view.reason is not None:
                self.troubles[view.reason.value] += 1
            if window is None or view.observed_seconds == before.get(view.gpu.key, 0.0):
                continue
            self.windows.setdefault(int(view.gpu.index), []).append(_counted(window))

    def _changes(self) -> tuple[Ownership, ...]:
        claims, self._claims = self._claims, ()
        return (Ownership(self._world.monotonic(), claims),) if claims else ()


def _counted(window: Window) -> Counted:
    assert window.utilization is not None
    times = (window.start - START, window.end - START)
    return Counted(*times, window.utilization, window.stderr, window.clock_method)


class _Wake(contextlib.nullcontext[None]):
    """Stands in for threading.Condition: whoever waits lets the simulated time pass."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        super().__init__()
        self.wait = wait

    def notify_all(self) -> None:
        """The only thread that could wait is the one that calls."""


class _SameThread:
    """Stands in for threading.Thread: runs to the end in the caller's thread."""

    def __init__(self, target: Callable[[], None], **_: Any) -> None:
        self.start = target


def seed(number: int) -> None:
    """Whatever chance the agent takes is the same each time."""
    random.seed(number)
