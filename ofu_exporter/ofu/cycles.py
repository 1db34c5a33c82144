"""Judges whether the driver's cycle counters may be believed, and what they say about one window.

NVML GPM ids 248 (SM cycles elapsed) and 250 (tensor cycles) would make OFU exact, but no document
says whether they are per SM or summed over the SMs. So they are compared with the polled clock and
the any-tensor ratio first, and used only after they have agreed several windows in a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from ofu_exporter.values.reading import CycleTotals

AGREEING_WINDOWS = 3
"""Windows in a row that must agree before the counters are used."""
CLOCK_TOLERANCE = 0.03
"""Polled and counted clock may differ by this much, relative, while trust is being built."""
ACTIVITY_TOLERANCE = 0.02
"""Counted and measured tensor activity may differ by this much, absolute."""


@dataclass(frozen=True, slots=True)
class CycleTrust:
    """How far the counters of one GPU are believed."""

    previous: CycleTotals | None = None
    scale: float = 1.0
    """How many SMs the counters are summed over, as far as they have shown."""
    agreed: int = 0

    @property
    def earned(self) -> bool:
        return self.agreed >= AGREEING_WINDOWS


@dataclass(frozen=True, slots=True)
class CycleVerdict:
    """The trust after one window, and what the counters say where they are believed."""

    trust: CycleTrust
    tensor_active: float | None = None
    sm_clock_hz: float | None = None
    implausible: bool = False


@dataclass(frozen=True, slots=True)
class Expected:
    """What the other counters say about the same window."""

    seconds: float
    tensor_active: float
    sm_clock_hz: float
    clock_limit_hz: float
    sm_count: int | None


def judge(trust: CycleTrust, totals: CycleTotals | None, expected: Expected) -> CycleVerdict:
    """Take the totals at the end of a window; say whether they describe it.

    The previous totals must be those at its start: the caller resets the trust after a gap.
    """
    if totals is None:
        return CycleVerdict(CycleTrust())
    if trust.previous is None:
        return CycleVerdict(CycleTrust(totals))
    elapsed = totals.elapsed - trust.previous.elapsed
    tensor = totals.tensor - trust.previous.tensor
    scale = trust.scale if trust.earned else _scale(elapsed, expected)
    if scale is None or not _possible(elapsed, tensor, scale, expected):
        return CycleVerdict(CycleTrust(totals), implausible=True)
    agreed = trust.agreed + 1 if scale == trust.scale else 1
    grown = CycleTrust(totals, scale, agreed)
    if not trust.earned:
        return CycleVerdict(grown)
    return CycleVerdict(grown, tensor / elapsed, elapsed / scale / expected.seconds)


def _scale(elapsed: float, expected: Expected) -> float | None:
    """The number of SMs that makes the counted clock the polled one; None if neither does."""
    for scale in (1.0, float(expected.sm_count or 1)):
        counted_hz = elapsed / scale / expected.seconds
        if abs(counted_hz - expected.sm_clock_hz) <= CLOCK_TOLERANCE * expected.sm_clock_hz:
            return scale
    return None


def _possible(elapsed: float, tensor: float, scale: float, expected: Expected) -> bool:
    """Whether the clock can have been that high, and the tensor cycles are the measured share of all cycles."""
    if not 0.0 < elapsed / scale / expected.seconds <= expected.clock_limit_hz:
        return False
    if not 0.0 <= tensor <= elapsed:
        return False
    return abs(tensor / elapsed - expected.tensor_active) <= ACTIVITY_TOLERANCE
