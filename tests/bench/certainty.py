"""How often `fleet changes` is sure of what is not, and how often its intervals hold.

Its table is in tests/measured/changes.md.

    python -m tests.bench.certainty [--answers 400]

An answer is over some series of equal length, part of which fall to a half in their middle half. The change of a series
that is nearest to its fall stands for it, if it is at most three points or a tenth of them away; every other change is
false. The noise is made here, by definition: normal, skewed (an exponential distribution), or normal and three times as
large from the middle on.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, product
from typing import NamedTuple

from ofu_exporter.fleet.changes.survey import LevelChange, OfuSeries, survey
from tests.bench.changes import noise, points

NOISES = ("normal", "skewed", "growing")
ALIKE = (0.0, 0.5, 0.8)
POOLS = ((1, 20), (1, 60), (1, 200), (3, 20), (3, 60), (10, 20), (10, 60), (50, 20), (300, 20))
"""Series and the points of each."""
SCATTER, GROWTH = 0.1, 3.0
MOST_SERIES = 45_000
"""Series of a cell, so that the largest pools make fewer answers."""


class Cell(NamedTuple):
    """One row of the table."""

    series: int
    points: int
    alike: float
    noise: str


def outcomes(cell: Cell, answers: int) -> Counter[str]:
    """How many answers, falls and intervals there were, and what became of them."""
    rng = random.Random(str(cell))
    counts: Counter[str] = Counter()
    for _ in range(answers):
        falls = [_fall(cell, rng) for _ in range(cell.series)]
        made = [_series(cell, number, fall, rng) for number, fall in enumerate(falls)]
        changes = survey(made, 1.0).changes
        hits = _hits(changes, falls, max(3, cell.points // 10))
        counts["found"] += len(hits)
        counts["sure"] += sum(each.sure for each in hits)
        counts["held"] += sum(
            each.level.factor_low <= 0.5 <= each.level.factor_high for each in hits
        )
        counts["false"] += any(each.sure and each not in hits for each in changes)
        counts["answers"] += 1
        counts["falls"] += sum(fall is not None for fall in falls)
    return counts


def _hits(
    changes: Sequence[LevelChange], falls: Sequence[int | None], near: int
) -> list[LevelChange]:
    """The change that is nearest to each fall, where one is near."""
    hits = []
    for number, fall in enumerate(falls):
        of_series = [each for each in changes if each.series.labels[0][1] == str(number)]
        if fall is not None and of_series:
            nearest = min(of_series, key=lambda each: abs(each.level.index - fall))
            hits += [nearest] * (abs(nearest.level.index - fall) <= near)
    return hits


def _fall(cell: Cell, rng: random.Random) -> int | None:
    part = 0.5 if cell.series <= 3 else 0.1
    place = rng.randint(cell.points // 4, 3 * cell.points // 4)
    return place if rng.random() < part else None


def _series(cell: Cell, number: int, fall: int | None, rng: random.Random) -> OfuSeries:
    kind = "normal" if cell.noise == "growing" else cell.noise
    half = cell.points // 2
    logs = [
        SCATTER * value * (GROWTH if cell.noise == "growing" and at >= half else 1.0)
        - (math.log(2) if fall is not None and at >= fall else 0.0)
        for at, value in enumerate(noise(cell.points, kind, cell.alike, rng))
    ]
    return OfuSeries("name", (("job_name", str(number)),), tuple(points(logs)))


def rows(answers: int) -> Iterator[str]:
    """The table: of each noise the answers with a false sure change, sure falls, and intervals that hold."""
    heads = [f"{noise}: false" for noise in NOISES]
    heads += [f"{noise}: sure" for noise in NOISES] + [f"{noise}: interval" for noise in NOISES]
    yield f"| series | points of each | autocorrelation | answers | {' | '.join(heads)} |"
    yield "|---" * (4 + len(heads)) + "|"
    cells = [Cell(*pool, alike, noise) for pool, alike, noise in product(POOLS, ALIKE, NOISES)]
    tries = [max(min(answers, MOST_SERIES // cell.series), 1) for cell in cells]
    with ProcessPoolExecutor() as workers:
        found = workers.map(outcomes, cells, tries)
        for cell in cells[:: len(NOISES)]:
            yield _row(cell, list(islice(found, len(NOISES))))


def _row(cell: Cell, noises: list[Counter[str]]) -> str:
    shares = [f"{each['false'] / each['answers']:.1%}" for each in noises]
    shares += [f"{each['sure'] / each['falls']:.0%}" for each in noises]
    shares += [f"{each['held'] / each['found']:.0%}" if each["found"] else "" for each in noises]
    first = (cell.series, cell.points, cell.alike, noises[0]["answers"])
    return f"| {' | '.join(map(str, first))} | {' | '.join(shares)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--answers", type=int, default=400, help="for each row, at most")
    options = parser.parse_args()
    for line in rows(options.answers):
        print(line, flush=True)


if __name__ == "__main__":
    main()
