"""Tells when a job begins to work: until then its measured GPU-seconds are those of a start. Pure.

Work is tensor work that lasts, or a stated step. A job without either, such as one that computes in FP32, works once
kernels have run on its GPUs for as long as no start takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.instant import Instant, Span
from ofu_exporter.values.job import Start, UnsureWindow
from ofu_exporter.values.reading import Window

WORKS = 0.01
"""A window has tensor work from this tensor activity on."""
GAP_SECONDS = 1.0
"""Two windows of a GPU follow one another if there is less between them."""
PATIENCE_SECONDS = 90.0
"""No window waits longer for the one that tells whether work has begun; a window has 30 s at most."""
BUSY = 0.1
"""A GPU runs kernels in a window from this share of its time on."""
BUSY_SECONDS = 600.0
"""No start runs kernels for longer than this."""
MOST_STARTS = 32
"""Most starts that are told apart; of more, the oldest are forgotten."""


def start_opened(start: Start, now: Instant) -> Start:
    """The run that begins now, or begins again, starts."""
    earlier = start.earlier
    if start.since is not None:
        until = now.unix if start.worked_at is None else now.at(start.worked_at).unix
        earlier = (*earlier, Span(start.since, until))[1 - MOST_STARTS :]
    seconds = settled(start).seconds or 0.0
    return Start(seconds, is_open=True, since=now.unix, earlier=earlier, opened_at=now.monotonic)


def so_far(start: Start) -> Start:
    """With the windows that wait, but from the first one with tensor work on, which may be the end of the start."""
    work = (one.start for one in start.unsure if one.works)
    return _counted(start, start.unsure, min(work, default=math.inf))


def settled(start: Start) -> Start:
    """With all windows that wait, since no more come."""
    return _counted(start, start.unsure, math.inf)


def after_window(start: Start, key: GpuKey, window: Window) -> Start:
    """With one more window: work has begun when two windows of one GPU in a row had tensor work.

    It began with the first of the two. What other GPUs did since then is no start either, so all windows wait for the
    next ones. A window that began before the start is of the run before, which a restart ended.
    """
    if window.utilization is None or window.start < start.opened_at:
        return start
    if not start.is_open:
        return _late(start, window)
    works = (window.tensor_active or 0.0) >= WORKS
    before = [one for one in start.unsure if one.key == key][-1:]
    is_next = bool(before) and window.start - before[0].end < GAP_SECONDS
    if works and is_next and before[0].works:
        return start_ended(start, before[0].start)
    start = _busier(start, window)
    if start.busy_seconds >= BUSY_SECONDS:
        return start_ended(start, window.start)
    now = UnsureWindow(key, window.start, window.end, window.gpu_seconds, works)
    unsure = [*start.unsure, now]
    last = {one.key: one for one in unsure}
    oldest = window.start - PATIENCE_SECONDS
    work = (one.start for one in last.values() if one.works and one.start > oldest)
    return _counted(start, unsure, min([window.start, *work]))


def _busier(start: Start, window: Window) -> Start:
    """With the seconds of a window in which kernels ran; those of several GPUs count once."""
    since = max(window.start, start.busy_until)
    if (window.activity.engine or 0.0) < BUSY or window.end <= since:
        return start
    seconds = start.busy_seconds + window.end - since
    return start._replace(busy_seconds=seconds, busy_until=window.end)


def start_ended(start: Start, at: float) -> Start:
    """The start of a run that began to work at an instant; of a window around it, the part before is of the start."""
    parts = (_before(one, at) for one in start.unsure)
    seconds = math.fsum([start.seconds or 0.0, *parts])
    return start._replace(seconds=seconds, is_open=False, worked_at=at, unsure=())


def _late(start: Start, window: Window) -> Start:
    """With a window that was read when the run was known to work already."""
    if start.seconds is None or start.worked_at is None or window.start >= start.worked_at:
        return start
    return start._replace(seconds=start.seconds + _before(window, start.worked_at))


def _before(window: Window | UnsureWindow, at: float) -> float:
    """The GPU-seconds of a window before an instant."""
    if window.end <= at:
        return window.gpu_seconds
    return window.gpu_seconds * max(0.0, at - window.start) / (window.end - window.start)


def _counted(start: Start, unsure: Sequence[UnsureWindow], until: float) -> Start:
    """Count the windows that were over by then; the others go on waiting."""
    if not unsure:
        return start
    over = [one for one in unsure if one.end <= until]
    seconds = math.fsum([start.seconds or 0.0, *(one.gpu_seconds for one in over)])
    return start._replace(seconds=seconds, unsure=tuple(one for one in unsure if one.end > until))
