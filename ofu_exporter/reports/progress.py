"""Counts what reports say of steps and events: how far a job has come, and which of its GPU-seconds were lost. Pure.

The time of a report is that from its start, or from the report before, to its end. Steps that a run of the same line
had reached before are done again; so is an evaluation or a checkpoint between them. A second counts once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.values.instant import Span
from ofu_exporter.values.progress import (
    MOST_RECOVERIES,
    MOST_RUN_LINES,
    MOST_SPANS,
    Fall,
    Progress,
    Recovery,
    RunLine,
    Unsure,
)

BESIDE_SECONDS = 60.0
"""Two such times with less between them are one."""
LATE_SECONDS = 1.0
"""A failure that is this much older than the last step is one that this step came after."""
LONGEST_SECONDS = 86400.0
"""No report covers more time: its start comes from a wrong clock."""
CLOCKS_SET = 1_577_836_800.0
"""2020 in Unix time. A node that states an earlier one has a clock that nobody has set."""
FAR = 100
"""A run that came more than this many times further in one report than up to the second after it was mistaken in it."""
SILENCE = 1.25
"""Lower steps are a restart once no higher one has come for this many times the time between two. Two programs of one
job go on side by side."""
FORGET = 0.8
"""How much of a longer time between steps counts at the next one."""


class Countable(NamedTuple):
    """The time and the GPUs that a report may count."""

    since: float
    """Unix time before which nothing counts: the job was not here, or its time is that of its start."""
    until: float
    """Unix time of the end of the report."""
    gpus: float
    """How many GPUs of this node the job has."""
    is_open: bool = False
    """Whether the run still starts, so that it is not known from when on its time is not that of its start."""


def after_report(
    before: Progress, report: MfuReport, run: str, countable: Countable, line: RunLine | None = None
) -> Progress:
    """With one more report of a run; `line` is what other jobs have told of the line of that run."""
    if report.step is None and report.event is None:
        return before
    now = before
    if run != now.run or run not in now.lines:
        now = _entered(now, run, line)
    if now.step is None and report.reached is not None:
        at = report.reached_at or 0.0
        at = countable.since if at < CLOCKS_SET else at
        if at <= countable.since:  # else another node of this very run has reached it
            now = _continued(now, report.reached, min(at, countable.until))
    if report.event == "restart":
        return _after_restart(now, report, countable)
    return (
        _after_event(now, report, countable)
        if report.event
        else _after_step(now, report, countable)
    )


def not_ahead(progress: Progress, now: float) -> Progress:
    """With no time ahead of now, Unix time: where the clock was set back, all that was stated was before."""
    if (progress.until or 0.0) <= now + LATE_SECONDS:
        return progress
    told = None if progress.told is None else min(progress.told, now)
    return replace(progress, until=now, told=told, fall=None)


def working_since(progress: Progress, since: float) -> Progress:
    """Once it is known since when the run works (Unix time): what was stated of the time before is of its start."""
    now = replace(progress, unsure=())
    for each in progress.unsure:
        start = min(each.end, max(each.start, since))
        share = (each.end - start) / (each.end - each.start)
        now = _lost(now, each.reason, Span(start, each.end), share * each.gpu_seconds)
    return now


def _lost(now: Progress, reason: str, span: Span, gpu_seconds: float) -> Progress:
    name = f"{reason}_seconds"
    changes: dict[str, Any] = {name: (getattr(now, name) or 0.0) + gpu_seconds}
    if reason == "done_again" and gpu_seconds:
        changes["again"] = _with_span(now.again, span)
    return replace(now, **changes)


def _stated(now: Progress, reason: str, span: Span, countable: Countable) -> Progress:
    """With time that was no progress; while the run starts, it waits for the end of that."""
    gpu_seconds = (span.end - span.start) * countable.gpus
    if not countable.is_open or not gpu_seconds:
        return _lost(now, reason, span, gpu_seconds)
    unsure = _with_unsure(now.unsure, Unsure(reason, *span, gpu_seconds))
    return replace(_lost(now, reason, span, 0.0), unsure=unsure)


def _with_unsure(unsure: tuple[Unsure, ...], new: Unsure) -> tuple[Unsure, ...]:
    """With one more; of too many, it is one with the last of its reason, so that no time is forgotten."""
    last = next((one for one in reversed(unsure) if one.reason == new.reason), None)
    if len(unsure) < MOST_SPANS or last is None:
        return (*unsure, new)[-MOST_SPANS:]
    joined = Unsure(new.reason, last.start, new.end, last.gpu_seconds + new.gpu_seconds)
    return (*(one for one in unsure if one is not last), joined)


def restarted(progress: Progress) -> Progress:
    """At the start of another run of the job by its scheduler: its next step goes on from an earlier one."""
    line = progress.line
    return replace(
        progress,
        step=None,
        step_before=None,
        fall=None,
        told=None,
        are_several=False,
        highest_before=line.step if line else None,
        stopped=progress.until or (line.at if line else None),
    )


def restarted_anew(progress: Progress, now: float) -> Progress:
    """After a restart that the scheduler counts, which the reports may have told before it: then it is no other one."""
    if progress.told is not None and now - progress.told < BESIDE_SECONDS:
        return replace(progress, told=None, restarts=progress.restarts - 1)
    return restarted(progress)


def _entered(progress: Progress, run: str, line: RunLine | None) -> Progress:
    lines_of_run = filter(None, (progress.lines.get(run), line))
    furthest = max(lines_of_run, key=lambda one: one.step, default=None)
    lines = progress.lines if furthest is None else with_line(progress.lines, run, furthest)
    return replace(
        restarted(replace(progress, run=run, lines=lines)), stopped=furthest and furthest.at
    )


def _continued(now: Progress, reached: int, at: float) -> Progress:
    """Before the first step of a run that says itself how far earlier ones came, maybe on other nodes."""
    if now.line is not None and now.line.step >= reached:
        return now
    line = (now.line or RunLine(reached, at))._replace(step=reached, at=at)
    lines = with_line(now.lines, now.run, line)
    return replace(now, lines=lines, highest_before=reached, stopped=max(now.stopped or 0.0, at))


def _after_restart(now: Progress, report: MfuReport, countable: Countable) -> Progress:
    """After a restart that the job itself tells: no step tells it too, nor does another node."""
    failed = countable.until if report.start is None else report.start
    if now.step is None or failed < (now.until or 0.0) - LATE_SECONDS:
        return now
    until = max(countable.until, now.until or 0.0)
    after = replace(restarted(now), restarts=now.restarts + 1)
    return replace(after, stopped=failed, until=until, told=until)


def _after_event(now: Progress, report: MfuReport, countable: Countable) -> Progress:
    event = report.event or ""
    span = _counted(now, report, countable)
    step = max((each for each in (report.step, now.step) if each is not None), default=None)
    is_again = step is not None and now.highest_before is not None and step < now.highest_before
    now = _lost(now, event, span, 0.0)  # it is known from now on
    now = _stated(now, "done_again" if is_again else event, span, countable)
    lines = now.lines
    if event == "checkpoint" and report.step is not None:
        line = now.line or RunLine(report.step, countable.until)
        saved = max(report.step, line.saved_step or 0)
        lines = with_line(lines, now.run, line._replace(saved_step=saved))
    return replace(now, lines=lines, until=max(countable.until, now.until or 0.0))


def _after_step(now: Progress, report: MfuReport, countable: Countable) -> Progress:
    step = report.step or 0
    if now.step is not None and (now.until or 0.0) >= countable.until and step <= now.step:
        return now  # it was on its way for longer than the report before
    if now.fall is not None:
        now = _settled(now, now.fall, step, countable)
    if now.step is not None and step < now.step:
        return replace(now, fall=_fallen(now, report, countable))
    if step == now.step:
        return now
    span = _counted(now, report, countable)
    if _goes_on_beside(now, step, countable.until):
        return replace(_reached(now, step, countable.until), are_several=True, highest_before=None)
    until = span.start + _share_done_again(now, step) * (span.end - span.start)
    after = _reached(now, step, countable.until)
    return _stated(after, "done_again", span._replace(end=until), countable)


def _fallen(now: Progress, report: MfuReport, countable: Countable) -> Fall:
    """The lower steps with one more; those that go on from each other belong together."""
    step, end, fall = report.step or 0, countable.until, now.fall
    if fall is not None and fall.step <= step:
        return fall._replace(step=step, end=end)
    start = end  # the time of a failure is not of a step
    if report.start is not None:
        start = min(
            end, max(report.start, now.until or 0.0, countable.since, end - LONGEST_SECONDS)
        )
    return Fall(step, start, end, step, now.until or end)


def _settled(now: Progress, fall: Fall, step: int, countable: Countable) -> Progress:
    """What lower steps were, by one more: a restart, those of another program of the job, or not known yet."""
    highest = now.step or 0
    if fall.end >= countable.until or step < fall.step or step > highest:
        return replace(now, fall=None)
    if step == fall.step or now.are_several:
        return now
    if _is_mistaken(now, highest, step):
        return _without_mistake(now, fall)
    if now.pace is not None and countable.until - fall.since <= SILENCE * now.pace:
        return now
    anew = replace(restarted(now), restarts=now.restarts + 1, told=countable.until)
    # Of an evaluation among them, and of a start, the time has counted.
    start = min(fall.end, max(fall.start, now.until or 0.0, countable.since))
    after = _reached(anew, fall.step, fall.end)
    after = _stated(after, "done_again", Span(start, fall.end), countable)
    last = after.recoveries[-1]._replace(resumed_step=fall.first)
    return replace(after, recoveries=(*after.recoveries[:-1], last))


def _goes_on_beside(now: Progress, step: int, at: float) -> bool:
    """Whether this step is of a program that only rested, while the lower ones of another seemed to be a restart.

    It is beyond the highest one, and far more than those can have come since.
    """
    before, highest = now.step_before, now.highest_before
    if now.told is None or before is None or highest is None or now.step is None or step <= highest:
        return False
    steps = (at - (now.until or at)) / now.pace if now.pace else 1.0
    return step - now.step > FAR * max(1.0, steps) * max(1, now.step - before)


def _is_mistaken(now: Progress, highest: int, step: int) -> bool:
    """Whether the highest step was stated by mistake: those before and after it are too near to each other."""
    before = now.step_before
    if before is None:
        return highest > FAR * max(step, now.highest_before or 0)
    return before < step and highest - before > FAR * (step - before)


def _without_mistake(now: Progress, fall: Fall) -> Progress:
    """As if the step before the fall, which was far too high, had not been stated."""
    highest = max(fall.step, now.step_before or 0, now.highest_before or 0)
    line = (now.line or RunLine(highest, fall.end))._replace(step=highest, at=fall.end)
    lines = with_line(now.lines, now.run, line)
    until = max(fall.end, now.until or 0.0)
    after = replace(now, fall=None, step=fall.step, until=until, lines=lines)
    return replace(after, recoveries=tuple(_recoveries_without_mistake(now, fall)))


def _recoveries_without_mistake(now: Progress, fall: Fall) -> Iterator[Recovery]:
    stated = now.line.at if now.line else None
    for each in now.recoveries:
        one = each._replace(recovered=None) if each.recovered == stated else each
        is_first = now.step_before is None and one.resumed_step == now.step
        yield one._replace(resumed_step=fall.first, resumed=fall.end) if is_first else one


def _reached(now: Progress, step: int, at: float) -> Progress:
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
        pace=_pace(now, at),
        until=max(at, now.until or 0.0),
        lines=lines,
        recoveries=_recovered(now, step, at),
    )


def _pace(now: Progress, at: float) -> float | None:
    if now.step is None or now.until is None:
        return now.pace
    return max(0.0, at - now.until, FORGET * (now.pace or 0.0))


def _recovered(now: Progress, step: int, at: float) -> tuple[Recovery, ...]:
    highest = now.highest_before
    recoveries = now.recoveries
    if now.step is None and highest is not None:
        new = Recovery(now.stopped or at, step, highest, resumed=at)
        recoveries = (*recoveries, new)[-MOST_RECOVERIES:]
    return tuple(
        each._replace(recovered=at) if each.recovered is None and step > each.highest_step else each
        for each in recoveries
    )


def _counted(now: Progress, report: MfuReport, countable: Countable) -> Span:
    """The time that a report counts, none of which was counted before; Unix time."""
    begun = report.start if report.start is not None else now.until
    if begun is None:
        begun = countable.since
    start = max(begun, now.until or 0.0, countable.since, countable.until - LONGEST_SECONDS)
    return Span(start, max(start, countable.until))


def _share_done_again(now: Progress, step: int) -> float:
    """The share of the steps since the last one that had been reached before."""
    highest = now.highest_before
    if highest is None:
        return 0.0
    if now.step is None:
        return 1.0 if step <= highest else 0.0
    return max(0.0, min(step, highest) - now.step) / (step - now.step)


def _with_span(spans: tuple[Span, ...], new: Span) -> tuple[Span, ...]:
    last = spans[-1] if spans else None
    if last is not None and new.start - last.end < BESIDE_SECONDS:
        return (*spans[:-1], Span(last.start, max(new.end, last.end)))
    return (*spans, new)[-MOST_SPANS:]


def with_line(lines: Mapping[str, RunLine], run: str, line: RunLine) -> Mapping[str, RunLine]:
    """The lines with one that was heard of now, without the oldest of too many."""
    others = {name: each for name, each in lines.items() if name != run}
    return dict([*others.items(), (run, line)][-MOST_RUN_LINES:])
