"""Lays out the time of a job on a node as a strip: when it waited, started, ran, and did steps again."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.support.durations import lasting
from ofu_exporter.support.percent import percent
from ofu_exporter.values.instant import Span

MARKS: Mapping[str, str] = {
    "starting": "s",
    "progress": "#",
    "running": "#",
    "done again": "r",
    "waiting": ".",
}
"""Kinds of time, and how a text draws them. What runs is progress where the job states steps."""
COLUMNS = 60
MOST_EDGES = 2000
"""A job with more begins and ends, on very many nodes, has no strip: it would cost too much."""


class StripPiece(NamedTuple):
    """A piece of the time; they follow one another."""

    kind: str
    start: float
    """Unix time."""
    end: float


def strip(job: JobTotals) -> list[StripPiece]:
    """The pieces from its begin to its end, or to now."""
    runs = [Span(run.began, job.updated if run.ended is None else run.ended) for run in job.runs]
    starts = [Span(since, job.updated if until is None else until) for since, until in job.starts]
    progress = job.reported.progress if job.reported else None
    again = list(progress.again) if progress else []
    if not runs:
        return []
    first, last = min(run.start for run in runs), max(run.end for run in runs)
    edges = {edge for span in (*runs, *starts, *again) for edge in span}
    if len(edges) > MOST_EDGES:
        return []
    times = sorted({first, last, *(edge for edge in edges if first < edge < last)})
    pieces: list[StripPiece] = []
    for start, end in itertools.pairwise(times):
        middle = (start + end) / 2
        kind = "progress" if progress else "running"
        kind = "starting" if _within(starts, middle) else kind
        kind = "done again" if _within(again, middle) else kind
        kind = kind if _within(runs, middle) else "waiting"
        is_same = bool(pieces) and pieces[-1].kind == kind
        pieces.append(StripPiece(kind, pieces.pop().start if is_same else start, end))
    return pieces


def _within(spans: Sequence[Span], at: float) -> bool:
    return any(start <= at < end for start, end in spans)


def by_kind(pieces: Sequence[StripPiece]) -> dict[str, float]:
    """The share of each kind, in the order of `MARKS`."""
    whole = pieces[-1].end - pieces[0].start if pieces else 0.0
    sums = {
        kind: sum(each.end - each.start for each in pieces if each.kind == kind) for kind in MARKS
    }
    return {kind: seconds / whole for kind, seconds in sums.items() if seconds and whole}


def strip_lines(job: JobTotals) -> list[str]:
    """The strip as text with what its marks mean, and how long it took to recover from restarts."""
    pieces = strip(job)
    if len(pieces) < 2:
        return recovery_lines(job)
    start, end = pieces[0].start, pieces[-1].end
    middles = (start + (end - start) * (column + 0.5) / COLUMNS for column in range(COLUMNS))
    marks = (next(MARKS[each.kind] for each in pieces if at < each.end) for at in middles)
    legend = (f"{MARKS[kind]} {kind} {percent(share)}" for kind, share in by_kind(pieces).items())
    return [
        f"Over time: [{''.join(marks)}] {lasting(end - start)}",
        f"  {', '.join(legend)}",
        *recovery_lines(job),
    ]


def recovery_lines(job: JobTotals) -> list[str]:
    """How long the job took after its last restarts until it made a new step."""
    progress = job.reported.progress if job.reported else None
    recoveries = progress.recoveries if progress else ()
    took = [each.recovered - each.at for each in recoveries if each.recovered is not None]
    if not recoveries:
        return []
    times = f"{', '.join(map(lasting, took[-3:]))} from the last step to a new one" if took else ""
    lacks = "not yet beyond its highest step" if recoveries[-1].recovered is None else ""
    return [f"After its last restarts: {', '.join(filter(None, (times, lacks)))}"]
