"""Judges whether counters that could each be true can be true together, and in window after window.

Four things are not believed:

- A clock that is 0 in every read of a window: a GPU that runs has a clock.
- Tensor activity of 0 while the GPU draws power, its engine is busy, and no other pipe did anything
  either: any kernel has integer instructions, so the counters stand still. Work that really leaves
  the tensor pipes alone keeps another pipe busy, and its 0 is a fact.
- 0 in every profiling counter, the engine's too, while the driver's own utilization and the power draw show
  work at any time: all profiling counters are dead at once. Utilization is sampled apart from the counters, so
  it may still show the work before the first 0. From then on no 0 is believed until something is counted again,
  because work comes and goes.
- Tensor activity and its split exactly the same window after window. A live counter is a share of
  billions of cycles, and a window ends somewhere in a kernel. Take a very steady load, whose activity
  scatters by one part in 100,000: two windows agree in the sixth digit (the last of a dcgm-exporter
  page) in 3 of 100 cases, and FROZEN_WINDOWS in a row once in 10^16. But a source may round, and a
  load may be made up. So the counter stands still for sure when the GPU's work has changed meanwhile,
  by its engine or its clock. When nothing has changed at all, only a value with more than
  COARSE_DIGITS digits is doubted, and only after an hour. An idle GPU is never doubted.

The windows before a counter was found to stand still have been counted; that cannot be taken back.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ofu_exporter.values.gpu import ABSURD_CLOCK_HZ
from ofu_exporter.values.reading import Evidence, Reading
from ofu_exporter.values.reasons import Rejection

FROZEN_WINDOWS, FROZEN_SECONDS = 12, 60.0
"""After this many windows and seconds of one value, while the work changed, the counter stands still."""
UNCHANGED_SECONDS = 3600.0
"""After this many seconds of one value with many digits, while nothing changed, it is doubted: no work is that even."""
DEAD_WINDOWS = 3
"""After this many windows in a row with work that no pipe counted, the counters are not believed."""
TRAILING_SECONDS = 2.5
"""Utilization that is seen this long after the first 0 is not that of the work before: it trails by a second and may be
a second old."""
BUSY_GRAPHICS = 0.5
"""A GPU with an engine this busy, which draws power, is not idle."""
GRAPHICS_CHANGE = 0.05
"""The work has changed when the engine's activity changed by this much, absolute."""
CLOCK_CHANGE = 0.25
"""The work has changed, too, when the clock changed by this much, relative."""
COARSE_DIGITS = 4
SAME = 1e-9
"""Means of one value differ by the rounding of their weights."""
OVERLAP_SECONDS = 1e-6
"""Windows may overlap by a rounding of their bounds, not more."""


class Extremes(NamedTuple):
    """Lowest and highest of the values that were seen."""

    lowest: float = math.inf
    highest: float = -math.inf

    def with_value(self, value: float) -> Extremes:
        return Extremes(min(self.lowest, value), max(self.highest, value))


class Suspicion(NamedTuple):
    """What has made one GPU's counters suspicious until now."""

    activity: tuple[float, ...] = ()
    """Tensor activity and its split, as long as they stay the same."""
    since: float = 0.0
    """Seconds: the end of the first window with these values."""
    windows: int = 0
    """How many windows had these values."""
    graphics: Extremes = Extremes()
    """Activity of the engine in these windows, where it is known."""
    clock_hz: Extremes = Extremes()
    """The clock in these windows, each window's mean."""
    dead_windows: int = 0
    """How many windows in a row showed work that no pipe counted."""
    zeros_since: float | None = None
    """Start of the first window, of those in a row, in which nothing was counted; seconds."""
    is_contradicted: bool = False
    """Whether utilization and power have shown work since then."""


class Judgement(NamedTuple):
    """The suspicion after a window, and what in the window cannot be true."""

    suspicion: Suspicion
    rejection: Rejection | None = None
    detail: str = ""


def runs_backwards(reading: Reading, sampled_until: float | None) -> bool:
    """Whether a window ends before it begins, or before one that was measured already."""
    ends_before = sampled_until is not None and reading.end < sampled_until - OVERLAP_SECONDS
    return reading.end < reading.start or ends_before


def judge(suspicion: Suspicion, reading: Reading) -> Judgement:
    suspicion = _remember(suspicion, reading)
    if reading.clocks and all(sample.hz == 0 for sample in reading.clocks):
        return Judgement(suspicion, Rejection.CLOCK_ZERO, "the SM clock reads 0 all the time")
    if suspicion.dead_windows >= DEAD_WINDOWS:
        detail = "power and engine show work, but no pipe counted any instruction"
        return Judgement(suspicion, Rejection.ZERO_WHILE_BUSY, detail)
    if suspicion.is_contradicted:
        detail = "utilization and power show work, but every profiling counter is 0"
        return Judgement(suspicion, Rejection.ZERO_WHILE_BUSY, detail)
    if _is_frozen(suspicion, reading.end):
        detail = f"tensor activity was exactly {suspicion.activity[0]:.9g} in {suspicion.windows} windows"
        return Judgement(suspicion, Rejection.FROZEN, detail)
    return Judgement(suspicion)


def _remember(suspicion: Suspicion, reading: Reading) -> Suspicion:
    if not reading.tensor_active:
        dead = suspicion.dead_windows + 1 if _is_dead(reading) else 0
        if not _counted_nothing(reading):
            return Suspicion(dead_windows=dead)
        since = reading.start if suspicion.zeros_since is None else suspicion.zeros_since
        is_contradicted = suspicion.is_contradicted or _worked_after(since, reading)
        return Suspicion(dead_windows=dead, zeros_since=since, is_contradicted=is_contradicted)
    activity = (reading.tensor_active, *[reading.pipes[pipe] for pipe in sorted(reading.pipes)])
    if not _same(activity, suspicion.activity):
        suspicion = Suspicion(activity, reading.end)
    engine = (reading.evidence or Evidence()).busy_ratio
    # A read that is no clock says nothing of the work: a clock that comes back has not changed.
    clocks = [sample.hz for sample in reading.clocks if 0 < sample.hz <= ABSURD_CLOCK_HZ]
    graphics, clock_hz = suspicion.graphics, suspicion.clock_hz
    return suspicion._replace(
        windows=suspicion.windows + 1,
        graphics=graphics if engine is None else graphics.with_value(engine),
        clock_hz=clock_hz.with_value(math.fsum(clocks) / len(clocks)) if clocks else clock_hz,
    )


def _counted_nothing(reading: Reading) -> bool:
    """Whether the tensor pipes and all that is known beside them are 0, and something is known."""
    evidence = reading.evidence or Evidence()
    others = [
        each for each in (evidence.graphics_active, evidence.other_active) if each is not None
    ]
    return reading.tensor_active == 0 and bool(others) and not any(others)


def _worked_after(zeros_since: float, reading: Reading) -> bool:
    """Whether utilization and power show work that was not that before the zeros."""
    evidence = reading.evidence or Evidence()
    worked = evidence.worked_seconds
    if evidence.shows_work:
        worked = reading.end - reading.start
    return worked is not None and reading.start + worked - zeros_since > TRAILING_SECONDS


def _same(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return len(one) == len(other) and all(
        abs(a - b) <= SAME for a, b in zip(one, other, strict=True)
    )


def _is_dead(reading: Reading) -> bool:
    """Whether the other counters show work and no pipe counted one instruction."""
    evidence = reading.evidence or Evidence()
    if evidence.busy_ratio is None or evidence.other_active is None:
        return False
    busy = evidence.busy_ratio >= BUSY_GRAPHICS and evidence.draws_power
    return busy and reading.tensor_active == 0 and evidence.other_active == 0


def _is_frozen(suspicion: Suspicion, now: float) -> bool:
    seconds = now - suspicion.since
    if suspicion.windows < FROZEN_WINDOWS or seconds < FROZEN_SECONDS:
        return False
    graphics, clock_hz = suspicion.graphics, suspicion.clock_hz
    changed = (
        graphics.highest - graphics.lowest > GRAPHICS_CHANGE
        or clock_hz.lowest < (1 - CLOCK_CHANGE) * clock_hz.highest
    )
    fine = abs(round(suspicion.activity[0], COARSE_DIGITS) - suspicion.activity[0]) > SAME
    return changed or (fine and seconds >= UNCHANGED_SECONDS)
