"""How near drivers and host engines come to the truth at every interval, whoever else reads: `tests.bench.accuracy`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from tests.simulator.agent import Counted
from tests.simulator.curve import Curve
from tests.simulator.loads import LOADS, Load
from tests.simulator.mishaps import BEGIN, END
from tests.simulator.run import ran
from tests.simulator.sources import Dcgm, Nvml

ROUNDING = 1e-6
"""What sums of floating-point numbers may be off."""
VARIANTS = {"clock noise": 3, "slower clock noise": 3, "training": 3}
"""Loads of the same shape with other chance, so that no row hangs on the luck of one."""
SETTLED_SECONDS = 5.0
"""A host engine has no window before."""
CLIENTS = ((0, 0.0), (1004, 1.0), (1001, 0.1), (1005, 0.25))
"""What another client of the host engine watches: nothing, or a field and its interval."""
DCGM_SECONDS = 1.0
"""Time between two samples of a host engine: no window is shorter."""
INTERVALS = (0.1, 0.5, 1.0, 1.4, 2.5, 5.0, 7.3, 15.0, 29.0, 30.0)


@dataclass(frozen=True)
class Cell:
    """One source at one interval under one load."""

    bias: float
    """Of the mean over ten minutes."""
    stated: float
    """Mean stated standard error of a window."""
    inside: float
    """Share of the windows that have the truth within two of it."""
    shown: float
    """Length of the shortest window that was shown, as a share of the interval."""
    by_cycles: float
    """Share of the windows by cycle counters. If any is, `stated` and `inside` are of these."""


def columns(interval: float) -> Iterator[tuple[str, Nvml | Dcgm]]:
    """The sources, each with each client that it can have."""
    for name in ("", ", cycles"):
        yield f"nvml{name}", Nvml(f"nvml{name}", bool(name), interval)
    for name, version in (("", "4.5"), (", cycles", "4.6")):
        if interval < DCGM_SECONDS:
            continue
        for field, seconds in CLIENTS:
            client = f", {field} at {seconds:g} s" if field else ""
            yield (
                f"dcgm{name}{client}",
                Dcgm(f"dcgm{name}{client}", version, field, seconds, interval),
            )


def measured(
    kind: Nvml | Dcgm, loads: Sequence[Load] = LOADS, end: float = END, is_varied: bool = True
) -> dict[str, Cell]:
    """The cells of a source, by load."""
    found: dict[str, list[tuple[Curve, list[Counted], list[Counted]]]] = {}
    variants = [each for load in loads for each in _variants(load)] if is_varied else loads
    for at_once in [variants] if kind.together else [[load] for load in variants]:
        windows = ran(kind, at_once, end=end)
        for load in at_once:
            run = load.curve, windows.windows[load.key], windows.shown[load.key]
            found.setdefault(load.name, []).append(run)
    return {name: _cell(runs, kind.interval) for name, runs in found.items()}


@cache
def _variants(load: Load) -> list[Load]:
    return [replace(load, variant=n) for n in range(VARIANTS.get(load.name, 1))]


def _cell(runs: Sequence[tuple[Curve, list[Counted], list[Counted]]], interval: float) -> Cell:
    errors = [(each, _error(curve, each)) for curve, windows, _ in runs for each in windows]
    seconds = math.fsum(each.end - each.start for each, _ in errors)
    judged = [pair for pair in errors if pair[0].method == "cycles"] or errors
    stated = [(each.stderr or 0.0, error) for each, error in judged]
    begin = BEGIN + SETTLED_SECONDS + interval
    shown = [each for *_, all_shown in runs for each in all_shown if each.start > begin]
    return Cell(
        bias=math.fsum(error * (each.end - each.start) for each, error in errors) / seconds,
        stated=statistics.fmean(stderr for stderr, _ in stated),
        inside=statistics.fmean(abs(error) <= 2 * stderr + ROUNDING for stderr, error in stated),
        shown=min(each.end - each.start for each in shown) / interval,
        by_cycles=statistics.fmean(each.method == "cycles" for each, _ in errors),
    )


def _error(curve: Curve, window: Counted) -> float:
    return window.utilization - curve.utilization(window.start, window.end)
