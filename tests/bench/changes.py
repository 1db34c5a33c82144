"""How often `fleet changes` sees a change where there is none, and how many drops it finds.

Its tables are in tests/measured/changes.md.

    python -m tests.bench.changes [--series 2000] [--table NAME]

OfuSeries are made from noise whose truth is known: normal, with heavy tails (Student's t of 3 degrees: now and then a
job is far off), or skewed (a job is never much better than usual, and some are much worse). With autocorrelation, each
point has a part of the one before.
Scatter is the standard deviation of the log of OFU from job to job.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ofu_exporter.fleet.changes import segments
from ofu_exporter.fleet.changes.alike import Likeness
from ofu_exporter.fleet.changes.point import OfuPoint
from ofu_exporter.fleet.changes.segments import Break, breaks
from ofu_exporter.fleet.changes.survey import OfuSeries, survey

Noise = Callable[[random.Random], float]
SCATTER = 0.1
LEVEL = 0.4
"""OFU before a change."""
HOUR = 3600.0
COUNTS = (10, 20, 40, 60, 200, 336)
FLEET_SERIES = 100
"""Series that the likeness of neighbours is learned from."""


def student(rng: random.Random) -> float:
    """Student's t of 3 degrees, with standard deviation 1."""
    return rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2) / 3) / math.sqrt(3)


NOISES: dict[str, Noise] = {
    "normal": lambda rng: rng.gauss(0, 1),
    "heavy tails": student,
    "skewed": lambda rng: 1 - rng.expovariate(1),
}


def noise(count: int, kind: str, alike: float, rng: random.Random) -> list[float]:
    """Noise of standard deviation 1 of which each value keeps a part of the one before."""
    part = math.sqrt(1 - alike * alike)
    values = [NOISES[kind](rng)]
    for _ in range(count - 1):
        values.append(alike * values[-1] + part * NOISES[kind](rng))
    return values


def points(logs: Sequence[float], gpus: Sequence[float] | None = None) -> list[OfuPoint]:
    """Points an hour apart."""
    each = gpus or [64.0] * len(logs)
    return [
        OfuPoint(index * HOUR, LEVEL * math.exp(value), each[index], each[index], str(index))
        for index, value in enumerate(logs)
    ]


def quiet(count: int, kind: str, alike: float, rng: random.Random) -> list[OfuPoint]:
    """A series in which nothing changes."""
    return points([SCATTER * value for value in noise(count, kind, alike, rng)])


def growing(count: int, kind: str, alike: float, rng: random.Random) -> list[OfuPoint]:
    """Jobs that grow 64-fold, lose 8 % of OFU with every doubling, and scatter less the larger they are."""
    doublings = [round(6 * index / (count - 1)) for index in range(count)]
    scatter = noise(count, kind, alike, rng)
    logs = [
        SCATTER * value * (1.5 - size / 6) - 0.08 * size
        for value, size in zip(scatter, doublings, strict=True)
    ]
    return points(logs, [8.0 * 2**size for size in doublings])


def learned(make: Callable[[int], list[OfuPoint]], rng: random.Random) -> Likeness:
    """What a fleet of such series of 9 to 40 points says of the likeness of neighbours."""
    return segments.learned(make(rng.randint(9, 40)) for _ in range(FLEET_SERIES))


def alarm_shares(
    make: Callable[[int], list[OfuPoint]], series: int, rng: random.Random
) -> list[float]:
    """For every number of points, the share of quiet series in which a change is seen."""
    fleet = learned(make, rng)
    return [
        sum(bool(breaks(make(count), fleet)) for _ in range(series)) / series for count in COUNTS
    ]


def false_alarms(series: int) -> Iterator[str]:
    """The table of false alarms of one series."""
    yield "| noise | autocorrelation | job sizes | 10 points | 20 | 40 | 60 | 200 | 336 |"
    yield "|---|---|---|---|---|---|---|---|---|"
    rows = [("normal", 0.0, quiet), ("normal", 0.3, quiet), ("normal", 0.5, quiet)]
    rows += [("normal", 0.8, quiet), ("heavy tails", 0.0, quiet), ("heavy tails", 0.5, quiet)]
    rows += [("skewed", 0.0, quiet), ("skewed", 0.5, quiet)]
    rows += [("normal", 0.0, growing), ("heavy tails", 0.0, growing)]
    for kind, alike, maker in rows:
        rng = random.Random(f"{kind}{alike}")
        cells = alarm_shares(partial(maker, kind=kind, alike=alike, rng=rng), series, rng)
        grow = "grow 64-fold" if maker is growing else "equal"
        yield f"| {kind} | {alike} | {grow} | " + " | ".join(f"{c:.1%}" for c in cells) + " |"


def dropped(
    count: int, after: int, scatter: float, alike: float, rng: random.Random
) -> list[OfuPoint]:
    """A series whose last points are at half the level."""
    logs = [scatter * value for value in noise(count, "normal", alike, rng)]
    return points([v - math.log(2) * (i >= count - after) for i, v in enumerate(logs)])


def near(found: Sequence[Break], index: int) -> bool:
    """Whether a fall is seen within 3 points of where it is."""
    return any(abs(each.index - index) <= 3 and each.factor < 1 for each in found)


def drops(series: int) -> Iterator[str]:
    """The table of drops to a half of which only 3 points are seen yet."""
    yield "| scatter | autocorrelation | 9 points, 3 after | 12 | 20 | 40 | 60 | 200 | 336 |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for scatter in (0.05, 0.1, 0.15, 0.2):
        for alike in (0.0, 0.5):
            rng = random.Random(f"{scatter}{alike}")
            cells = [
                _found_share(series, count, scatter, alike, rng)
                for count in (9, 12, 20, 40, 60, 200, 336)
            ]
            yield f"| {scatter:.0%} | {alike} | " + " | ".join(f"{c:.1%}" for c in cells) + " |"


def _found_share(
    series: int, count: int, scatter: float, alike: float, rng: random.Random
) -> float:
    fleet = learned(partial(quiet, kind="normal", alike=alike, rng=rng), rng)
    made = (dropped(count, 3, scatter, alike, rng) for _ in range(series))
    return sum(near(breaks(each, fleet), count - 3) for each in made) / series


def fleet_of(
    size: int, kind: str, alike: float, rng: random.Random, falls: int = 0
) -> list[OfuSeries]:
    """Series of 9 to 40 jobs, some of which fall to a half 3 jobs before their end."""
    made = []
    for number in range(size):
        count = rng.randint(9, 40)
        each = quiet(count, kind, alike, rng)
        if number < falls:
            each = dropped(count, 3, SCATTER, alike, rng)
        made.append(OfuSeries("name", (("job_name", str(number)),), tuple(each)))
    return made


POSSIBLE = (
    (1, 9),
    (1, 20),
    (1, 40),
    (1, 60),
    (1, 200),
    (3, 20),
    (3, 40),
    (10, 20),
    (10, 40),
    (30, 20),
)
"""Series of an answer and the points of each."""


def possible_in_quiet(
    pool: tuple[int, int], kind: str, alike: float, series: int
) -> tuple[float, float]:
    """Of whole answers in which nothing changes: how many possible changes they state and show, for each series."""
    rng, (size, count) = random.Random(f"{pool}{kind}{alike}"), pool
    stated = found = 0.0
    answers = -(-series // size)
    for _ in range(answers):
        quiets = [quiet(count, kind, alike, rng) for _ in range(size)]
        made = [
            OfuSeries("name", (("job_name", str(at)),), tuple(each))
            for at, each in enumerate(quiets)
        ]
        answer = survey(made, 1.0)
        stated += answer.expected_false
        found += sum(not each.sure for each in answer.changes)
    return stated / (answers * size), found / (answers * size)


def possible(series: int) -> Iterator[str]:
    """The table of false alarms that answers state and show."""
    yield "| series | points of each | stated at most | 0.0 | 0.5 | 0.8 | heavy tails, 0.8 | skewed, 0.8 |"
    yield "|---|---|---|---|---|---|---|---|"
    noises = [("normal", 0.0), ("normal", 0.5), ("normal", 0.8)]
    noises += [("heavy tails", 0.8), ("skewed", 0.8)]
    for pool in POSSIBLE:
        cells = [possible_in_quiet(pool, kind, alike, series) for kind, alike in noises]
        shown = " | ".join(f"{found:.2f}" for _, found in cells)
        yield f"| {pool[0]} | {pool[1]} | {cells[0][0]:.2f} | {shown} |"


TABLES = {"false-alarms": false_alarms, "drops": drops, "possible": possible}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--series", type=int, default=2000, help="series for each number")
    parser.add_argument("--table", choices=TABLES, action="append", help="only these tables")
    options = parser.parse_args()
    for name in options.table or TABLES:
        print(f"{name}, {options.series} series for each number\n", flush=True)
        for line in TABLES[name](options.series):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
