"""Counts what reports say of steps and events: how far a job has come, and which of its GPU-seconds were lost. Pure.

The time of a report is that from its start, or from the report before, to its end. Steps that a run of the same line
had reached before are done again; so is an evaluation or a checkpoint between them. A second counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.values.progress import (
    MOST_RECOVERIES,
    MOST_RUNS,
    MOST_SPANS,
    Fall,
    Progress,
    Recovery,
    RunLine,
)

BESIDE_SECONDS = 60.0
"""Two such times with less between them are one."""
LONGEST_SECONDS = 86400.0
"""No report covers more time: its start comes from a wrong clock."""
FAR = 100
"""A run that came more than this many times further in one report than up to the second after it was mistaken in it."""


class Countable(NamedTuple):
    """The time and the GPUs that a report may count."""

    since: float
    """Unix time before which nothing counts: the job was not here, or its time is that of its start."""
    until: float
    """Unix time of the end of the report."""
    gpus: float
    """How many GPUs of this node the job has."""


def after_report(
    before: Progress, report: MfuReport, run: str, countable: Countable, line: RunLine | None = None
) -> Progress:
    """With one more report of a run; `line` is what other jobs have told of the line of that run."""
    if report.step is None and report.event is None:
        return before
    now = before
    if run != now.run or run not in now.lines:
        now = _entered(now, run, line)
    return (
        _after_event(now, report, countable)
        if report.event
        else _after_step(now, report, countable)
    )


def restarted(progress: Progress) -> Progress:
    """At the start of another run of the job by its scheduler: its next step goes on from an earlier one."""
    line = progress.line
    return replace(
        progress,
        step=None,
        step_before=None,
        fall=None,
        highest_before=line.step if line else None,
        stopped=progress.until or (line.at if line else None),
    )


def _entered(progress: Progress, run: str, line: RunLine | None) -> Progress:
    lines_of_run = filter(None, (progress.lines.get(run), line))
    furthest = max(lines_of_run, key=lambda one: one.step, default=None)
    lines = progress.lines if furthest is None else with_line(progress.lines, run, furthest)
    return replace(
        restarted(replace(progress, run=run, lines=lines)), stopped=furthest and furthest.at
    )


def _after_event(now: Progress, report: MfuReport, countable: Countable) -> Progress:
    start, seconds = _counted(now, report, countable)
    step = report.step if now.step is None else now.step
    is_again = step is not None and now.highest_before is not None and step < now.highest_before
    name = "done_again_seconds" if is_again else f"{report.event}_seconds"
    changes: dict[str, Any] = {
        f"{report.event}_seconds": getattr(now, f"{report.event}_seconds") or 0.0
    }
    changes[name] = (getattr(now, name) or 0.0) + seconds * countable.gpus
    lines = now.lines
    if report.event == "checkpoint" and report.step is not None:
        line = now.line or RunLine(report.step, countable.until)
        saved = max(report.step, line.saved_step or 0)
        lines = with_line(lines, now.run, line._replace(saved_step=saved))
    again = _with_span(now.again, start, countable.until) if is_again and seconds else now.again
    until = max(countable.until, now.until or 0.0)
    return replace(now, lines=lines, until=until, again=again, **changes)


def _after_step(now: Progress, report: MfuReport, countable: Countable) -> Progress:
    step = report.step or 0
    if now.step is not None and (now.until or 0.0) >= countable.until and step <= now.step:
        return now  # it was on its way for longer than the report before
    if now.fall is not None:
        now = _settled(now, now.fall, step, countable)
    if now.step is not None and step < now.step:
        return replace(now, fall=Fall(step, report.start, countable.until))
    if step == now.step:
        return now
    start, seconds = _counted(now, report, countable)
    repeated = _share_done_again(now, step)
    return _reached(now, step, countable.until, (start, repeated * seconds, countable.gpus))


def _settled(now: Progress, fall: Fall, step: int, countable: Countable) -> Progress:
    """What a step below the one before was, by the step after it: a restart, or that of another program of the job."""
    at_highest = now.step or 0
    if fall.end >= countable.until or not fall.step < step <= at_highest:
        return replace(now, fall=None)
    before = now.step_before
    if before is not None and before < fall.step and at_highest - before > FAR * (step - before):
        return _without_mistake(now, fall, before)
    anew = replace(restarted(now), restarts=now.restarts + 1)
    seconds, start = 0.0, fall.end
    if fall.start is not None:
        start = max(fall.start, now.until or 0.0, countable.since, fall.end - LONGEST_SECONDS)
        seconds = max(0.0, fall.end - start)
    return _reached(anew, fall.step, fall.end, (start, seconds, countable.gpus))


def _without_mistake(now: Progress, fall: Fall, step_before: int) -> Progress:
    """As if the step before the fall, which was far too high, had not been stated."""
    highest = max(fall.step, step_before, now.highest_before or 0)
    line = (now.line or RunLine(highest, fall.end))._replace(step=highest, at=fall.end)
    lines = with_line(now.lines, now.run, line)
    until = max(fall.end, now.until or 0.0)
    return replace(now, fall=None, step=fall.step, until=until, lines=lines)


def _reached(now: Progress, step: int, at: float, again: tuple[float, float, float]) -> Progress:
    """With a step that was reached; `again` is when it was begun, its seconds of steps done again, and the GPUs."""
    start, seconds, gpus = again
    before = now.line
    if before is None or step > before.step:
        saved = before.saved_step if before else None
        lines = with_line(now.lines, now.run, RunLine(step, at, saved))
    else:
        lines = with_line(now.lines, now.run, before)
    return replace(
        now,
        step=step,
        step_before=now.step,
        until=max(at, now.until or 0.0),
        lines=lines,
        recoveries=_recovered(now, step, at),
        done_again_seconds=(now.done_again_seconds or 0.0) + seconds * gpus,
        again=_with_span(now.again, start, start + seconds) if seconds else now.again,
    )


def _recovered(now: Progress, step: int, at: float) -> tuple[Recovery, ...]:
    highest = now.highest_before
    recoveries = now.recoveries
    if now.step is None and highest is not None:
        new = Recovery(now.stopped or at, step, highest)
        recoveries = (*recoveries, new)[-MOST_RECOVERIES:]
    return tuple(
        each._replace(recovered=at) if each.recovered is None and step > each.highest_step else each
        for each in recoveries
    )


def _counted(now: Progress, report: MfuReport, countable: Countable) -> tuple[float, float]:
    """From when on a report counts, in Unix time, and for how many seconds; none of them was counted before."""
    begun = report.start if report.start is not None else now.until
    if begun is None:
        begun = countable.since
    start = max(begun, now.until or 0.0, countable.since, countable.until - LONGEST_SECONDS)
    return start, max(0.0, countable.until - start)


def _share_done_again(now: Progress, step: int) -> float:
    """The share of the steps since the last one that had been reached before."""
    highest = now.highest_before
    if highest is None:
        return 0.0
    if now.step is None:
        return 1.0 if step <= highest else 0.0
    return max(0.0, min(step, highest) - now.step) / (step - now.step)


def _with_span(
    spans: tuple[tuple[float, float], ...], start: float, end: float
) -> tuple[tuple[float, float], ...]:
    if spans and start - spans[-1][1] < BESIDE_SECONDS:
        return (*spans[:-1], (spans[-1][0], max(end, spans[-1][1])))
    return (*spans, (start, end))[-MOST_SPANS:]


def with_line(lines: Mapping[str, RunLine], run: str, line: RunLine) -> Mapping[str, RunLine]:
    """The lines with one that was heard of now, without the oldest of too many."""
    others = {name: each for name, each in lines.items() if name != run}
    return dict([*others.items(), (run, line)][-MOST_RUNS:])
