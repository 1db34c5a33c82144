"""Four weeks of a mixed fleet as its agents' pages show them, healthy but for the planted faults.

A large training ends every Friday and begins on Monday, jobs of hours follow each other, a notebook is held by day, two
engines serve by day and rest at night and on weekends, agents are upgraded and forget their totals, a node is drained
and restarted. All is for scrapes every SCRAPE seconds, in seconds from BEGIN on, a Monday.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tests.helpers.stored_fleet import BEGIN, HOUR, labelled, openmetrics

SCRAPE = 120
"""Rates of five minutes need two samples."""
DAY = 24 * HOUR
WEEK = 7 * DAY
LENGTH = 4 * WEEK
MINUTE = 60.0
NODES = {"n1": 1, "n2": 2, "n3": 1, "n4": 1, "n5": 1, "n6": 1, "n7": 1}
"""With their GPUs."""
TENSOR_HZ, SM_HZ = 1.83e9, 1.71e9
MIB = 2**20


class Fault(NamedTuple):
    """What is planted, where, and what must be told of it."""

    alert: str
    begin: float
    hours: float
    where: Mapping[str, str]
    within: float
    """Seconds from its begin to the alert, and how long the alert may outlast the fault."""
    after: float = HOUR
    goes_on: bool = True
    """Whether the alert lasts as long as the fault."""

    @property
    def end(self) -> float:
        return self.begin + self.hours * HOUR

    def at(self, time: float) -> bool:
        return self.begin <= time < self.end


def on(day: int, hour: float) -> float:
    return day * DAY + hour * HOUR


def _of(node: str) -> dict[str, str]:
    return {"instance": node}


SLOW_STORAGE = Fault("OfuClusterOfuDropped", on(15, 14), 4, {"cluster": "c"}, 1.5 * HOUR)
"""All jobs do a third of their work."""
HANG = Fault("OfuJobStalled", on(9, 20), 1.75, {"job_id": "big-1"}, 30 * MINUTE)
"""All of its ranks wait for one another."""
FAULTS = {
    "down": Fault("OfuAgentDown", on(1, 12), 3, _of("n7"), 20 * MINUTE),
    "two down": Fault("OfuManyNodesUnmeasured", on(3, 12), 2, {"cluster": "c"}, 20 * MINUTE),
    "two down, n5": Fault("OfuAgentDown", on(3, 12), 2, _of("n5"), 20 * MINUTE),
    "two down, n6": Fault("OfuAgentDown", on(3, 12), 2, _of("n6"), 20 * MINUTE),
    "own error": Fault("OfuAgentFaults", on(4, 10), 2, _of("n1"), 10 * MINUTE),
    "memory": Fault("OfuAgentMemoryHigh", on(5, 10), 9, _of("n2"), 25 * MINUTE),
    "restarts": Fault("OfuAgentRestarting", on(6, 10), 1, _of("n5"), 40 * MINUTE, after=1.5 * HOUR),
    "windows of restarts": Fault(
        "OfuMeasuredShareLow", on(6, 10), 1, _of("n5"), 40 * MINUTE, goes_on=False
    ),
    "removed": Fault("OfuAgentsGone", on(26, 10), 22.5, {"cluster": "c"}, 20 * MINUTE),
    "hooks": Fault("OfuWorkWithoutJobs", on(25, 20), 12, {"cluster": "c"}, 4.5 * HOUR),
    "cap": Fault("OfuCardinalityCap", on(7, 20), 6, {}, 10 * MINUTE),
    "claims": Fault("OfuClaimsRejected", on(8, 10), 2, _of("n4"), 45 * MINUTE, after=1.5 * HOUR),
    "throttled": Fault("OfuClockLoss", on(8, 14), 6, {"instance": "n2", "gpu": "1"}, 40 * MINUTE),
    "storage": SLOW_STORAGE,
    "storage, big job": SLOW_STORAGE._replace(
        alert="OfuJobOfuDropped", where={"job_id": "big-2"}, within=HOUR
    ),
    "slow job": Fault("OfuJobOfuDropped", on(23, 8), 12, {"job_id": "big-3"}, HOUR),
    "slow job, its cluster": Fault(
        "OfuClusterOfuDropped", on(23, 8), 12, {"cluster": "c"}, 1.5 * HOUR
    ),
    "deadlines": Fault("OfuDeadlinesMissed", on(9, 10), 3, _of("n1"), 50 * MINUTE),
    "lost": Fault("OfuGpuNotMeasured", on(10, 10), 3, _of("n4"), 15 * MINUTE),
    "forgotten notebook": Fault(
        "OfuGpusIdle", on(10, 18), 14, {"job_id": "notebook-10"}, 2.2 * HOUR
    ),
    "starved": Fault("OfuJobEngineIdle", on(17, 10), 8, {"job_id": "notebook-17"}, 4.4 * HOUR),
    "windows": Fault("OfuMeasuredShareLow", on(11, 10), 3, _of("n1"), 40 * MINUTE),
    "above": Fault("OfuMfuAboveOfu", on(10, 10), 4, {"job_id": "big-1"}, 30 * MINUTE),
    "below": Fault("OfuMfuFarBelowOfu", on(11, 4), 4, {"job_id": "big-1"}, 50 * MINUTE),
    "pause": Fault("OfuPauseForgotten", on(2, 10), 5, _of("n4"), 2.1 * HOUR),
    "reload": Fault("OfuReloadFailed", on(12, 10), 3, _of("n5"), 10 * MINUTE),
    "certificate": Fault("OfuCertificateExpires", on(24, 10), 48, _of("n3"), 20 * MINUTE),
    "reports": Fault("OfuReportsStopped", on(17, 10), 4, {"job_id": "big-2"}, 45 * MINUTE),
    "stale": Fault("OfuSamplesStale", on(13, 10), 2, _of("n6"), 15 * MINUTE),
    "scheduler": Fault("OfuSchedulerUnavailable", on(14, 10), 2, _of("n4"), 15 * MINUTE),
    "simulated": Fault("OfuSimulatedData", on(18, 10), 2, _of("n5"), 15 * MINUTE),
    "source": Fault("OfuSourceUnavailable", on(19, 10), 2, _of("n6"), 15 * MINUTE),
    "source, its GPU": Fault("OfuGpuNotMeasured", on(19, 10), 2, _of("n6"), 15 * MINUTE),
    "state": Fault("OfuStateFileNotWritten", on(20, 10), 2, _of("n1"), 25 * MINUTE),
    "straggler": Fault("OfuStragglerGpu", on(16, 12), 4, {"job_id": "big-2"}, 30 * MINUTE),
    "hang": HANG,
    "hang, no reports": HANG._replace(alert="OfuReportsStopped", within=45 * MINUTE),
    "hang, its OFU": HANG._replace(alert="OfuJobOfuDropped", within=HOUR),
    "hang, its cluster": HANG._replace(
        alert="OfuClusterOfuDropped", where={"cluster": "c"}, within=1.5 * HOUR
    ),
    "again": Fault(
        "OfuJobDoesWorkAgain", on(2, 8), 4, {"job_id": "big-0"}, 3 * HOUR, after=24 * HOUR
    ),
}
REBOOTS = {"n4": (on(5, 2), on(19, 2)), "n1": (on(12, 3),), "n7": (on(19, 2), on(20, 4))}
"""When a drained node begins to start anew, which takes BOOT."""
BOOT = 12 * MINUTE


START = 10 * MINUTE
"""A training begins to compute so much later."""
STEP = 30 * MINUTE
"""Of the large trainings; the longest that is seen."""


class QuietJob(NamedTuple):
    job_id: str
    nodes: tuple[str, ...]
    begin: float
    end: float
    ofu: Callable[[float], float]
    idle: Callable[[float], float]
    """Share of time without a kernel."""
    framework: str = ""
    reports: bool = False
    is_seen: bool = True
    """Whether a hook tells the agents of it."""


def load(time: float) -> float:
    """Of a serving engine, as its greatest: less at night, and half on weekends."""
    hour, day = time % DAY / HOUR, time % WEEK // DAY
    rate = 0.05 + 0.25 * max(0.0, math.sin(math.pi * (hour - 7) / 14)) if 7 <= hour <= 21 else 0.05
    return rate * (0.6 if day >= 5 else 1.0)


def read_load(time: float) -> float:
    """Nobody asks at night."""
    return load(time) if 7 <= time % DAY / HOUR <= 21 else 0.0


def by_hand(time: float) -> float:
    """OFU of a notebook: a third of each hour, but for lunch and the evening of who forgets it."""
    hour = time % DAY / HOUR
    lunch, evening = 12.1 < hour < 13.2, hour >= 18 or hour < 9
    starved = FAULTS["starved"].at(time) and hour % 1 > 0.05
    return 0.0 if lunch or evening or starved or hour % 1 > 1 / 3 else 0.12


def always(level: float) -> Callable[[float], float]:
    return lambda _: level


def jobs() -> Iterator[QuietJob]:
    busy, big = always(0.02), ("n1", "n2", "n3")
    for week in range(4):
        monday, friday = on(7 * week, 8), on(7 * week + 4, 18)
        yield QuietJob(f"big-{week}", big, monday, friday, always(0.45), busy, "pytorch", True)
    hooks, night = FAULTS["hooks"], ("n1", "n2", "n3", "n7")
    yield QuietJob("night", night, hooks.begin, hooks.end, always(0.3), busy, is_seen=False)
    half_idle = always(0.4)
    yield QuietJob("serve-read", ("n5",), 0, LENGTH, read_load, always(0.9), "vllm")
    yield QuietJob("serve-unread", ("n6",), 5 * HOUR, LENGTH, load, half_idle)
    for day in range(26):
        if day % 7 < 5:
            end = FAULTS["forgotten notebook"].end if day == 10 else on(day, 18)
            idle = lambda time: 0.0 if by_hand(time) else 1.0  # noqa: E731
            yield QuietJob(f"notebook-{day}", ("n7",), on(day, 9), end, by_hand, idle)
    begin, number = 0.0, 0
    while begin < LENGTH:
        hours, level = 2 + number * 7 % 11, 0.15 + number * 13 % 31 / 100
        end = min(begin + hours * HOUR, *(r for r in REBOOTS["n4"] if r > begin), LENGTH)
        yield QuietJob(f"small-{number}", ("n4",), begin, end, always(level), busy)
        begin, number = end + (HOUR if end in REBOOTS["n4"] else 0.3 * HOUR), number + 1


class Pages:
    """What all scrapes brought, as lines of OpenMetrics by family."""

    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}

    def put(self, name: str, labels: Mapping[str, str], points: list[tuple[int, float]]) -> None:
        start = f"{name}{labelled(cluster='c', **labels)}"
        begin = int(BEGIN)
        lines = self._families.setdefault(name, [])
        lines += [f"{start} {value!r} {begin + time}" for time, value in points]

    def text(self) -> str:
        return openmetrics(self._families)


def times_of(node: str) -> list[int]:
    """When a node's page is scraped, or would be."""
    first = 5 + 7 * list(NODES).index(node)
    removed = FAULTS["removed"].begin if node == "n7" else LENGTH
    return list(range(first, int(removed), SCRAPE))


def down_times(node: str) -> list[tuple[float, float]]:
    """From when to when its page cannot be had."""
    down = [(begin, begin + BOOT) for begin in REBOOTS.get(node, ())]
    down += [(start - SCRAPE, start) for start in starts_of(node)]
    of_faults = {"n7": ("down",), "n5": ("two down",), "n6": ("two down",)}
    return down + [(FAULTS[name].begin, FAULTS[name].end) for name in of_faults.get(node, ())]


def starts_of(node: str) -> list[float]:
    """When the agent of a node was started: at upgrades on Wednesdays, with the node, and in a fault."""
    place = list(NODES).index(node)
    upgrades = [on(7 * week + 2, 3) + 10 * MINUTE * place for week in range(4)]
    booted = [begin + BOOT for begin in REBOOTS.get(node, ())]
    again = [FAULTS["restarts"].begin + n * 10 * MINUTE for n in range(6)] if node == "n5" else []
    return sorted([-DAY, *upgrades, *booted, *again])
