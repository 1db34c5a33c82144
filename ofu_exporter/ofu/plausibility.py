"""Whether counters that could each be true can be true together, and window after window.

Three things are not believed:

- A clock that is 0 in every read of a window: what runs has a clock, and what does not has no window.
- Tensor activity of 0 while the GPU draws power, its engine is busy, and no other pipe did anything
  either: any kernel has integer instructions, so the counters stand still. Work that really leaves
  the tensor pipes alone keeps another pipe busy, and its 0 is a fact.
- Tensor activity and its split exactly the same window after window. A live counter is a share of
  billions of cycles, and a window ends somewhere in a kernel: of a load as steady as can be, whose
  activity scatters by one part in 100,000, two windows agree in the sixth digit (the last of a
  dcgm-exporter page) in 3 of 100 cases, and FROZEN_WINDOWS in a row once in 10^16. But a source may
  round, and a load may be made up. So the counter stands still for sure when the GPU's work has changed
  meanwhile, by its engine or its clock; when nothing has changed at all, only a value with more
  than COARSE_DIGITS digits is doubted, and only after an hour. An idle GPU, 0 all the time, never is.

The windows before a counter was found out have been counted; that cannot be taken back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from ofu_exporter.values.reading import Evidence, Reading
from ofu_exporter.values.reasons import Rejection

FROZEN_WINDOWS, FROZEN_SECONDS = 12, 60.0
"""So many windows with one value, over so long, while the work changed: the counter stands still."""
UNCHANGED_SECONDS = 3600.0
"""So long with one value of many digits, while nothing changed: no work is that even."""
DEAD_WINDOWS = 3
"""So many windows in which work was done and no pipe counted any."""
BUSY_GRAPHICS, BUSY_POWER = 0.5, 0.5
"""The engine was busy half of the time, and the power draw is half of its limit: no idle GPU."""
GRAPHICS_CHANGE = 0.05
"""The work has changed when the engine's activity has by this much, absolute,"""
CLOCK_CHANGE = 0.25
"""or the clock by this much, relative."""
COARSE_DIGITS = 4
SAME = 1e-9
"""Means of one value differ by the rounding of their weights."""
OVERLAP_SECONDS = 1e-6
"""Windows may overlap by a rounding of their bounds, not more."""


Span = tuple[float, float]
"""Lowest and highest of what was seen; (inf, -inf) of nothing."""
NOTHING = (math.inf, -math.inf)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What makes one GPU's counters suspicious so far."""

    activity: tuple[float, ...] = ()
    """Tensor activity and its split, while they stay the same."""
    since: float = 0.0
    """Seconds: the end of the first window with them."""
    windows: int = 0
    """How many had them."""
    graphics: Span = NOTHING
    """Activity of the engine in these windows, where it is known."""
    clock_hz: Span = NOTHING
    """The clock in these windows, each window's mean."""
    dead_windows: int = 0
    """How many in a row showed work that no pipe counted."""


class Judgement(NamedTuple):
    """What is remembered, and what of the reading cannot be true."""

    doubt: Suspicion
    rejection: Rejection | None = None
    detail: str = ""


def runs_backwards(reading: Reading, sampled_until: float | None) -> bool:
    """Whether a window ends before it begins, or before one that was measured already."""
    ends_before = sampled_until is not None and reading.end < sampled_until - OVERLAP_SECONDS
    return reading.end < reading.start or ends_before


def judge(doubt: Suspicion, reading: Reading) -> Judgement:
    """Take in one window."""
    doubt = _remember(doubt, reading)
    if reading.clocks and all(sample.hz == 0 for sample in reading.clocks):
        return Judgement(doubt, Rejection.CLOCK_ZERO, "the SM clock reads 0 all the time")
    if doubt.dead_windows >= DEAD_WINDOWS:
        detail = "power and engine show work, but no pipe counted any instruction"
        return Judgement(doubt, Rejection.ZERO_WHILE_BUSY, detail)
    if _is_frozen(doubt, reading.end):
        detail = f"tensor activity was exactly {doubt.activity[0]:.9g} in {doubt.windows} windows"
        return Judgement(doubt, Rejection.FROZEN, detail)
    return Judgement(doubt)


def _remember(doubt: Suspicion, reading: Reading) -> Suspicion:
    dead = doubt.dead_windows + 1 if _is_dead(reading) else 0
    if not reading.tensor_active:
        return Suspicion(dead_windows=dead)
    pipes = (reading.pipes[pipe] for pipe in sorted(reading.pipes))
    activity = (reading.tensor_active, *pipes)
    if not _same(activity, doubt.activity):
        doubt = Suspicion(activity, reading.end)
    engine = (reading.evidence or Evidence()).graphics_active
    clocks = [sample.hz for sample in reading.clocks]
    return replace(
        doubt,
        windows=doubt.windows + 1,
        graphics=_wider(doubt.graphics, engine),
        clock_hz=_wider(doubt.clock_hz, math.fsum(clocks) / len(clocks) if clocks else None),
        dead_windows=dead,
    )


def _wider(span: Span, value: float | None) -> Span:
    return span if value is None else (min(span[0], value), max(span[1], value))


def _same(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return len(one) == len(other) and all(
        abs(a - b) <= SAME for a, b in zip(one, other, strict=True)
    )


def _is_dead(reading: Reading) -> bool:
    """Whether there was work, by all that is known, and not one instruction in any pipe."""
    known = reading.evidence or Evidence()
    if known.graphics_active is None or known.other_active is None or known.power is None:
        return False
    busy = known.graphics_active >= BUSY_GRAPHICS and known.power >= BUSY_POWER
    return busy and reading.tensor_active == 0 and known.other_active == 0


def _is_frozen(doubt: Suspicion, now: float) -> bool:
    seconds = now - doubt.since
    if doubt.windows < FROZEN_WINDOWS or seconds < FROZEN_SECONDS:
        return False
    changed = (
        doubt.graphics[1] - doubt.graphics[0] > GRAPHICS_CHANGE
        or doubt.clock_hz[0] < (1 - CLOCK_CHANGE) * doubt.clock_hz[1]
    )
    fine = abs(round(doubt.activity[0], COARSE_DIGITS) - doubt.activity[0]) > SAME
    return changed or (fine and seconds >= UNCHANGED_SECONDS)
