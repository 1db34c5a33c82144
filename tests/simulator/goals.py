"""What every source must reach, and what it need not because it cannot."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.simulator.curve import TENSOR_CLOCK_MHZ
from tests.simulator.loads import BY_NAME, LOADS, Load
from tests.simulator.mishaps import BEGIN, END
from tests.simulator.page_server import collections
from tests.simulator.score import Score
from tests.simulator.sources import Kind, Page

MILD, HARSH = 0.003, 0.015
"""How far the mean over ten minutes may be off."""
INSIDE = 0.93
"""Share of the windows with a stated error that have the truth within two of it."""
COVERAGE = 0.99
TWICE_SECONDS = 1e-3
NOTHING = "nothing was counted"
ANY_LOAD = "any load"


class Goal(NamedTuple):
    """What is asked for: of one load, of all of them, or after a mishap."""

    source: str
    of: str
    """A load, `any load` or a mishap."""
    what: str
    """bias, inside, coverage or twice."""


def goals_of(kind: Kind, loads: Sequence[Load] = LOADS) -> list[Goal]:
    nothing = dict.fromkeys((load.name for load in loads), None)
    return [*under_loads(kind, nothing), *after_mishaps(kind, dict.fromkeys(kind.mishaps, None))]


def under_loads(kind: Kind, scores: Mapping[str, Score | None]) -> dict[Goal, str]:
    """Every goal under these loads: "" where it is reached, else by how much it is not."""
    found: dict[Goal, str] = {}
    for name, score in scores.items():
        found[Goal(kind.name, name, "bias")] = bias(score, bias_limit(kind, BY_NAME[name]))
        found[Goal(kind.name, name, "inside")] = inside(score)
    known = [score for score in scores.values() if score is not None]
    return found | _of_time(kind, ANY_LOAD, known if len(known) == len(scores) else [])


def after_mishaps(kind: Kind, scores: Mapping[str, Score | None]) -> dict[Goal, str]:
    """Every goal after each mishap. What stands on a page then may be off by anything."""
    found: dict[Goal, str] = {}
    for mishap, score in scores.items():
        if not isinstance(kind, Page):
            found[Goal(kind.name, mishap, "bias")] = bias(score, MILD)
        found[Goal(kind.name, mishap, "inside")] = inside(score)
        found |= _of_time(kind, mishap, [score] if score else [])
    return found


def bias(score: Score | None, limit: float) -> str:
    if score is None:
        return NOTHING
    reached = abs(score.bias) <= limit
    return "" if reached else f"{100 * score.bias:+.2f} points, not {100 * limit:.2f}"


def inside(score: Score | None) -> str:
    if score is None:
        return NOTHING
    reached = score.inside is None or score.inside >= INSIDE
    return "" if reached else f"{score.inside:.0%} of the windows"


def _of_time(kind: Kind, of: str, scores: Sequence[Score]) -> dict[Goal, str]:
    coverage, twice = Goal(kind.name, of, "coverage"), Goal(kind.name, of, "twice")
    if not scores:
        return dict.fromkeys((coverage, twice), NOTHING)
    least, most = min(s.coverage for s in scores), max(s.twice for s in scores)
    return {
        coverage: "" if least >= COVERAGE else f"{least:.2%} observed",
        twice: "" if most <= TWICE_SECONDS else f"{most:.1f} s twice",
    }


def bias_limit(kind: Kind, load: Load) -> float:
    """A page's may be further off, as far as what stands on it is."""
    limit = MILD if load.mild else HARSH
    return limit + abs(page_error(kind, load)) if isinstance(kind, Page) else limit


def page_error(page: Page, load: Load) -> float:
    """How far the mean is off when every value of a page is taken once, with the clock beside it."""
    times = [at for at in collections(page.pace) if BEGIN < at < END]
    used = math.fsum(
        load.curve.tensor_active(*pair) * load.curve.at(pair[1]).mhz * (pair[1] - pair[0])
        for pair in itertools.pairwise(times)
    )
    mean = used / (times[-1] - times[0]) / TENSOR_CLOCK_MHZ
    return mean - load.curve.utilization(times[0], times[-1])
