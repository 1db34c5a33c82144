"""How far the windows that were counted are from the truth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tests.simulator.curve import Curve

NO_ERROR = 1e-6
"""What sums of floating-point numbers may be off."""


class Counted(Protocol):
    """A window that was counted."""

    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def utilization(self) -> float: ...
    @property
    def stderr(self) -> float | None: ...


class Span(NamedTuple):
    """From then to then."""

    start: float
    end: float


class Asked(NamedTuple):
    """What the agent could have known."""

    span: Span
    """From its begin to the end of the run."""
    lag: float
    """Most seconds after which the end of the run comes to light."""
    unknowable: Sequence[Span] = ()
    """When its source could not be read, or forgot."""


@dataclass(frozen=True)
class Score:
    """One source under one load."""

    truth: float
    bias: float
    """Of U / O over all of the run."""
    error: float
    """Mean absolute error of a window."""
    stated: float | None
    """Mean stated standard error; None where no window states one."""
    inside: float | None
    """Share of the windows that state an error whose truth is within two of it."""
    unstated: float
    """Share of the windows that state none."""
    coverage: float
    """O / span, each second once."""
    twice: float
    """Seconds that were counted before, or before the agent began."""
    windows: int


def score(curve: Curve, windows: Sequence[Counted], asked: Asked) -> Score | None:
    """None where nothing was counted."""
    if not windows:
        return None
    covered = union(Span(each.start, each.end) for each in windows)
    observed = math.fsum(each.end - each.start for each in windows)
    used = math.fsum(each.utilization * (each.end - each.start) for each in windows)
    span = _span(asked, covered[-1].end)
    knowable = without([span], asked.unknowable)
    truth = _mean(curve, union([*covered, *within(knowable, _hull(covered))]))
    errors = [each.utilization - curve.utilization(each.start, each.end) for each in windows]
    stated = [
        (each.stderr, e) for each, e in zip(windows, errors, strict=True) if each.stderr is not None
    ]
    return Score(
        truth=truth,
        bias=used / observed - truth,
        error=statistics.fmean(map(abs, errors)),
        stated=statistics.fmean(stderr for stderr, _ in stated) if stated else None,
        inside=_share(abs(e) <= 2 * stderr + NO_ERROR for stderr, e in stated) if stated else None,
        unstated=1 - len(stated) / len(windows),
        coverage=length(overlap(covered, knowable)) / length(knowable),
        twice=observed - length(within(covered, Span(asked.span.start, math.inf))),
        windows=len(windows),
    )


def _span(asked: Asked, last: float) -> Span:
    """What ends within the lag before the end of the run may be all that there is."""
    start, end = asked.span
    return Span(start, max(min(last, end), end - asked.lag))


def _hull(covered: Sequence[Span]) -> Span:
    return Span(covered[0].start, covered[-1].end)


def _mean(curve: Curve, spans: Sequence[Span]) -> float:
    used = math.fsum(curve.utilization(*span) * (span.end - span.start) for span in spans)
    return used / length(spans)


def _share(of: Iterable[bool]) -> float:
    return statistics.fmean(of)


# Sets of spans.


def union(spans: Iterable[Span]) -> list[Span]:
    """In order, none touching another."""
    made: list[Span] = []
    for span in sorted(spans):
        if made and span.start <= made[-1].end:
            made[-1] = Span(made[-1].start, max(made[-1].end, span.end))
        elif span.end > span.start:
            made.append(span)
    return made


def within(spans: Iterable[Span], outer: Span) -> list[Span]:
    cut = (Span(max(s.start, outer.start), min(s.end, outer.end)) for s in spans)
    return [span for span in cut if span.end > span.start]


def overlap(spans: Sequence[Span], others: Iterable[Span]) -> list[Span]:
    """`others` may not overlap each other."""
    return [span for other in others for span in within(spans, other)]


def without(spans: Sequence[Span], taken: Iterable[Span]) -> list[Span]:
    left = list(spans)
    for start, end in taken:
        before = [part for span in left for part in within([span], Span(-math.inf, start))]
        after = [part for span in left for part in within([span], Span(end, math.inf))]
        left = before + after
    return sorted(left)


def length(spans: Iterable[Span]) -> float:
    return math.fsum(span.end - span.start for span in spans)
