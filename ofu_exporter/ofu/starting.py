"""Tells when a job begins to work: until then its measured GPU-seconds are those of a start. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import Start
from ofu_exporter.values.reading import Window

WORKS = 0.01
"""A window has tensor work from this tensor activity on."""
GAP_SECONDS = 1.0
"""Two windows of a GPU follow one another if there is less between them."""
PATIENCE_SECONDS = 90.0
"""No window waits longer for the one that tells whether work has begun; a window has 30 s at most."""


def opened(start: Start) -> Start:
    """The run that begins now, or begins again, starts."""
    return Start(settled(start).seconds or 0.0, is_open=True)


def settled(start: Start) -> Start:
    """With all windows that wait, since no more come."""
    return _counted(start, start.unsure, math.inf)


def after_window(start: Start, key: GpuKey, window: Window) -> Start:
    """With one more window: work has begun when two windows of one GPU in a row had tensor work.

    It began with the first of the two. What other GPUs did since then is no start either, so all windows wait for the
    next ones.
    """
    if not start.is_open or window.utilization is None:
        return start
    works = (window.tensor_active or 0.0) >= WORKS
    before = [one for one in start.unsure if one[0] == key][-1:]
    is_next = bool(before) and window.start - before[0][2] < GAP_SECONDS
    if works and is_next and before[0][4]:
        return begun(start, before[0][1])
    unsure = [*start.unsure, (key, window.start, window.end, window.gpu_seconds, works)]
    last = {one[0]: one for one in unsure}
    oldest = window.start - PATIENCE_SECONDS
    work = (one[1] for one in last.values() if one[4] and one[1] > oldest)
    return _counted(start, unsure, min([window.start, *work]))


def begun(start: Start, at: float) -> Start:
    """The start of a run that began to work at an instant."""
    return _counted(start, start.unsure, at)._replace(is_open=False, worked_at=at, unsure=())


def _counted(
    start: Start, unsure: Sequence[tuple[GpuKey, float, float, float, bool]], until: float
) -> Start:
    """Count the windows that were over by then; the others go on waiting."""
    if not unsure:
        return start
    over = [one for one in unsure if one[2] <= until]
    seconds = math.fsum([start.seconds or 0.0, *(one[3] for one in over)])
    return start._replace(seconds=seconds, unsure=tuple(one for one in unsure if one[2] > until))
