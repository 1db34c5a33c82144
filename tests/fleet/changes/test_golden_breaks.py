"""Series of many shapes, what changes are found in each and how sure they are, golden: no formula changes unseen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import pytest

from ofu_exporter.fleet.changes.alike import Likeness
from ofu_exporter.fleet.changes.peers import (
    PeerGroup,
    PeerHours,
    Place,
    compare_peers,
    polished,
)
from ofu_exporter.fleet.changes.point import OfuPoint, prepared, sizes
from ofu_exporter.fleet.changes.segments import breaks, learned
from ofu_exporter.fleet.changes.survey import OfuSeries, survey

pytestmark = pytest.mark.slow

COUNTS = (9, 14, 25, 48, 52, 90, 150)
SHAPES: dict[str, Callable[[float], float]] = {
    "flat": lambda part: 0.0 * part,
    "fell": lambda part: -0.6 * (part >= 0.6),
    "rose a little": lambda part: 0.12 * (part >= 0.4),
    "a hole": lambda part: -0.5 * (0.5 <= part < 0.75),
    "stairs": lambda part: -0.4 * (part >= 0.3) - 0.4 * (part >= 0.7),
    "one odd": lambda part: -2.0 * (0.49 < part < 0.52),
    "a slope": lambda part: -0.4 * part,
    "idle": lambda part: -7.0 * (part >= 0.8),
}


def noise(count: int, seed: int, alike: float) -> list[float]:
    """Nearly normal, by a generator that is written out: the same in every version of Python."""
    state, last, values = seed * 7919 + 12345, 0.0, []
    for _ in range(count):
        total = 0.0
        for _ in range(6):
            state = (state * 1103515245 + 12345) % 2**31
            total += state / 2**31 - 0.5
        last = alike * last + total * math.sqrt(2)
        values.append(last)
    return values


def points(shape: str, count: int, seed: int, alike: float, grows: bool) -> list[OfuPoint]:
    scatter = noise(count, seed, alike)
    return [
        OfuPoint(
            at_unix=1.7e9 + 3600.0 * place,
            value=0.4 * math.exp(SHAPES[shape](place / count) + 0.05 * scatter[place]),
            gpus=float(8 << (place % 3)) if grows else 64.0,
            gpu_hours=64.0,
            job_id=str(place),
        )
        for place in range(count)
    ]


def all_series() -> Iterator[tuple[str, list[OfuPoint]]]:
    seed = 0
    for shape in SHAPES:
        for count in COUNTS:
            seed += 1
            alike, grows = (0.0, 0.5)[seed % 3 == 0], seed % 4 == 0
            name = f"{shape}, {count} points{', alike' * (alike > 0)}{', of sizes' * grows}"
            yield name, points(shape, count, seed, alike, grows)


def numbers(*values: float) -> str:
    return " ".join(f"{value:.6g}" for value in values)


def changes(series: Sequence[OfuPoint], fleet: Likeness) -> Iterator[str]:
    for each in breaks(series, fleet):
        sizes = numbers(each.factor, each.factor_low, each.factor_high, each.before, each.after)
        yield f"  at {each.index}: {sizes}, by chance {numbers(each.chance, each.tail)}"


@pytest.mark.parametrize("shape", SHAPES)
def test_changes_of_a_shape_are_found_as_they_were(
    shape: str, golden: Callable[[str, str], None]
) -> None:
    lines = []
    for name, series in all_series():
        if name.startswith(shape):
            drawn = prepared(series)
            lines += [f"{name}: {numbers(sum(drawn), *drawn[-2:])} {(sizes(series) or [])[-3:]}"]
            for fleet in (Likeness(), Likeness(0.3, 400, 10)):
                lines += changes(series, fleet)
    golden(f"breaks/{shape.replace(' ', '-')}.txt", "\n".join(lines) + "\n")


def test_all_of_them_are_surveyed_together_as_they_were(
    golden: Callable[[str, str], None],
) -> None:
    short = [(name, each) for name, each in all_series() if len(each) < 60]
    found = survey([OfuSeries("job", (("name", name),), (*each,)) for name, each in short], 1.2)
    lines = [
        f"{change.series.labels[0][1]} at {change.level.index}:"
        f" {numbers(change.chance_in_report, change.lost_gpu_hours)}"
        f" {len(change.before)} {len(change.after)} {change.sure}"
        for change in found.changes
    ]
    likeness = [found.likeness["job"], learned(each for _, each in short)]
    known = [f"{numbers(each.value)} {each.points} {each.series}" for each in likeness]
    summary = f"{found.tested} {numbers(found.expected_false)} {found.smaller} {known}"
    golden("breaks/survey.txt", "\n".join([*lines, summary]) + "\n")


def test_who_is_slower_than_its_peers_is_as_it_was(golden: Callable[[str, str], None]) -> None:
    """Four nodes of four GPUs, of which one node and one GPU are slow, in six jobs."""
    hours, scatter = PeerHours(), iter(noise(8000, 3, 0.2))
    for hour in range(40):
        for job in range(6):
            values = {
                Place("a", f"n{node}", str(gpu), f"GPU-{node}{gpu}"): 0.4
                * math.exp(0.02 * next(scatter) - 0.1 * (node == 2) - 0.2 * (node == gpu == 1))
                for node in range(4)
                for gpu in range(4)
                if (node + job + hour // 8) % 3 and (node + gpu + job) % 5
            }
            hours.add(PeerGroup("a", str(job), "H100"), values)
    lines = []
    for of, deviations in (("gpu", hours.gpus), ("node", hours.nodes)):
        found = compare_peers(deviations, "ofu", "gpu" if of == "gpu" else "node")
        lines.append(
            f"{of}: {found.row.count} {found.row.too_few_hours} {numbers(found.row.spread)}"
        )
        for row in found.slow:
            told = numbers(row.slower, row.slower_low, row.slower_high, row.chance)
            lines.append(f"  {row.node} {row.gpu} {row.sure} {row.hours} {row.jobs}: {told}")
        means = {
            group: {place: each.mean for place, each in sums.items()}
            for group, sums in deviations.items()
        }
        effects, rest = polished(means)
        for place, effect in sorted(effects.items()):
            left = [round(each, 9) + 0.0 for each in (effect, *rest[place])]
            lines.append(f"  {place.node} {place.gpu}: {numbers(*left)}")
    golden("breaks/peers.txt", "\n".join(lines) + "\n")
