"""Joins the last windows of a GPU into the one that is shown, which is about as long as was asked for.

Windows may be shorter: a source ends them with its own samples, and a change of job ends them early. The short ones
count for totals and jobs by themselves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from ofu_exporter.ofu.plausibility import OVERLAP_SECONDS
from ofu_exporter.values.losses import NO_LOSSES, Losses, LossSums
from ofu_exporter.values.reading import Activity, Window

LEAST_SHARE = 0.9
"""The shown window is at least this share of the interval."""
METHODS = ("point", "polled", "cycles")
"""The worst first."""


def latest(before: Sequence[Window], window: Window, interval: float) -> tuple[Window, ...]:
    """The windows to join: the new one, and those just before it that are needed to reach the interval."""
    taken = [window]
    for earlier in reversed(before):
        is_beside = abs(taken[0].start - earlier.end) <= OVERLAP_SECONDS
        is_whole = None not in (earlier.utilization, taken[0].utilization)
        if window.end - taken[0].start >= LEAST_SHARE * interval or not (is_beside and is_whole):
            break
        taken.insert(0, earlier)
    return tuple(taken)


def joined(windows: Sequence[Window]) -> Window:
    """One window over the time of several that follow one another. Activity is a share of cycles, all else of time."""
    last = windows[-1]
    if len(windows) == 1:
        return last
    times = [window.seconds for window in windows]
    cycles = [(window.sm_clock_hz or 0.0) * window.seconds for window in windows]
    errors = [window.stderr for window in windows if window.stderr is not None]
    squares = math.fsum((e * s) ** 2 for e, s in zip(errors, times, strict=False))
    pipes = set.intersection(*(set(window.pipes) for window in windows))
    losses = _losses(windows, times)
    sums = functools.reduce(LossSums.plus, (window.sums for window in windows))
    return last._replace(
        start=windows[0].start,
        tensor_active=_mean([window.tensor_active or 0.0 for window in windows], cycles),
        pipes={
            pipe: _mean([window.pipes[pipe] for window in windows], cycles)
            for pipe in last.pipes
            if pipe in pipes
        },
        sm_clock_hz=math.fsum(cycles) / math.fsum(times),
        utilization=_mean([window.utilization or 0.0 for window in windows], times),
        stderr=math.sqrt(squares) / math.fsum(times) if len(errors) == len(windows) else None,
        clock_method=min((window.clock_method for window in windows), key=METHODS.index),
        inner=(),
        activity=_activity(windows, times),
        losses=losses,
        used_seconds=math.fsum(window.used_seconds for window in windows),
        observed_seconds=math.fsum(window.observed_seconds for window in windows),
        sums=sums if losses else NO_LOSSES,
    )


def _activity(windows: Sequence[Window], times: Sequence[float]) -> Activity:
    """The means of what every window has; the energy is their sum."""
    columns = zip(*(window.activity for window in windows), strict=True)
    means = (
        None if None in column else _mean([value or 0.0 for value in column], times)
        for column in columns
    )
    joules = [window.activity.energy_joules for window in windows]
    counted = [each for each in joules if each is not None]
    whole = math.fsum(counted) if len(counted) == len(windows) else None
    return Activity(*means)._replace(energy_joules=whole)


def _losses(windows: Sequence[Window], times: Sequence[float]) -> Losses:
    """Where the rest of the peak went, over all of the time; none where the windows know different losses."""
    losses = windows[-1].losses.keys()
    if any(window.losses.keys() != losses for window in windows):
        return {}
    return {loss: _mean([window.losses[loss] for window in windows], times) for loss in losses}


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    total = math.fsum(weights)
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / total
