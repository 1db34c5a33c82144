"""Judges whether the driver's cycle counters may be believed, and what they say about one window.

NVML GPM ids 248 (SM cycles elapsed) and 250 (tensor cycles) would make OFU exact, but no document says whether they are
per SM or summed over the SMs. So they are compared with the polled clock and the any-tensor ratio first, and used only
after they have agreed several windows in a row. Until the polled clock of these windows together is known well, that is
how well the counters are known: it is better than the polled clock of one window.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ofu_exporter.values.reading import READ_CLOCK_EXCESS, CycleTotals

AGREEING_WINDOWS = 3
"""Windows in a row that must agree before the counters are used."""
CLOCK_TOLERANCE = 0.03
"""Polled and counted cycles may differ by this much, relative; a polled clock may be too high by READ_CLOCK_EXCESS
besides. The counters count as exact once the polled cycles are known this well."""
CLOCK_ERRORS = 4.0
"""This many standard errors of the polled clock are added to what they may differ by. They are compared in every
window, so a rare error must not end the trust."""
ACTIVITY_TOLERANCE = 0.02
"""Counted and measured tensor activity may differ by this much, absolute."""


class CycleTrust(NamedTuple):
    """How far the counters of one GPU are believed."""

    previous: CycleTotals | None = None
    scale: float = 1.0
    """The number of SMs that the counters seem to be summed over."""
    agreed: int = 0
    """Windows in a row that agreed; the sums below are over these windows."""
    counted: float = 0.0
    """Cycles by the counters."""
    polled: float = 0.0
    """Cycles by the polled clock."""
    variance: float = 0.0
    """Square of the standard error of the polled cycles."""
    edges: float = 0.0
    """Standard error of the counted cycles, as the ends of the windows are not known better: it does not grow."""

    @property
    def error(self) -> float:
        """Standard error of the difference of the two sums."""
        return math.hypot(math.sqrt(self.variance), self.edges)

    @property
    def earned(self) -> bool:
        """Whether the counters count as exact."""
        is_precise = 2 * self.error <= CLOCK_TOLERANCE * self.polled
        return self.agreed >= AGREEING_WINDOWS and is_precise and _agree(self.counted, self.polled)

    @property
    def error_ratio(self) -> float | None:
        """Standard error of the clock by the counters, relative; None while they may not be used.

        It includes what the counters differ by, which may not be chance.
        """
        if self.agreed < AGREEING_WINDOWS:
            return None
        away = math.hypot(self.error, self.counted - self.polled)
        return 0.0 if self.earned else away / self.polled


class CycleVerdict(NamedTuple):
    """The trust after one window, and what the counters say where they are believed."""

    trust: CycleTrust
    tensor_active: float | None = None
    sm_clock_hz: float | None = None
    error_ratio: float = 0.0
    """Standard error of the clock, relative."""
    implausible: bool = False


class Expected(NamedTuple):
    """What the other counters say about the same window."""

    seconds: float
    tensor_active: tuple[float, float]
    """The lowest and the highest activity of a part of the window: that of the whole lies between them, whatever the
    clock of each part was."""
    sm_clock_hz: float
    clock_error_hz: float | None
    """Standard error of the polled clock; None when it is not known, and then the clock proves nothing."""
    clock_limit_hz: float
    sm_count: int | None
    edge_seconds: float = 0.0
    """How well each end of what was counted is known."""

    @property
    def edges(self) -> float:
        """The cycles that may be counted more or less for it."""
        return math.sqrt(2) * self.edge_seconds * self.sm_clock_hz


def judge(trust: CycleTrust, totals: CycleTotals | None, expected: Expected) -> CycleVerdict:
    """Take the totals at the end of a window; say whether they describe it.

    The previous totals must be those at its start: the caller resets the trust after a gap. A window that ends without
    totals takes no trust away, as a host engine may have none of its last instant.
    """
    if totals is None or trust.previous is None:
        return CycleVerdict(trust._replace(previous=totals))
    elapsed = totals.elapsed - trust.previous.elapsed
    tensor = totals.tensor - trust.previous.tensor
    scale = trust.scale if trust.earned else _scale(elapsed, expected)
    if scale is None or not _possible(elapsed, tensor, scale, expected):
        return CycleVerdict(CycleTrust(totals), implausible=True)
    if trust.earned:
        after = trust._replace(previous=totals)
    else:
        trust = trust if scale == trust.scale else CycleTrust(scale=scale)
        after = _grown(trust, elapsed, expected)._replace(previous=totals)
        if _has_gone_astray(after):
            return CycleVerdict(CycleTrust(totals), implausible=True)
    if trust.error_ratio is None:
        return CycleVerdict(after)
    hz = elapsed / scale / expected.seconds
    return CycleVerdict(after, tensor / elapsed, hz, trust.error_ratio)


def _grown(trust: CycleTrust, elapsed: float, expected: Expected) -> CycleTrust:
    """The trust after a window that agreed. A window whose polled clock has no known error adds nothing."""
    if expected.clock_error_hz is None:
        return trust
    error = expected.clock_error_hz * expected.seconds
    return trust._replace(
        agreed=trust.agreed + 1,
        counted=trust.counted + elapsed / trust.scale,
        polled=trust.polled + expected.sm_clock_hz * expected.seconds,
        variance=trust.variance + error**2,
        edges=expected.edges,
    )


def _has_gone_astray(trust: CycleTrust) -> bool:
    """Whether the sums disagree over windows that agree one by one."""
    return not _agree(trust.counted, trust.polled, trust.error)


def _agree(counted: float, polled: float, error: float = 0.0) -> bool:
    """Whether these can be the same clock. `error` is the standard error of the polled one."""
    allowed = CLOCK_TOLERANCE * polled + CLOCK_ERRORS * error
    return polled / (1 + READ_CLOCK_EXCESS) - allowed <= counted <= polled + allowed


def _scale(elapsed: float, expected: Expected) -> float | None:
    """The number of SMs that makes the counted clock the polled one; None if neither does."""
    polled = expected.sm_clock_hz * expected.seconds
    error = math.hypot((expected.clock_error_hz or 0.0) * expected.seconds, expected.edges)
    for scale in (1.0, float(expected.sm_count or 1)):
        if _agree(elapsed / scale, polled, error):
            return scale
    return None


def _possible(elapsed: float, tensor: float, scale: float, expected: Expected) -> bool:
    """Whether the clock can have been that high, and the tensor cycles are the measured share of all cycles."""
    most = expected.clock_limit_hz * expected.seconds + 2 * expected.edges
    if not 0.0 < elapsed / scale <= most:
        return False
    if not 0.0 <= tensor <= elapsed:
        return False
    lowest, highest = expected.tensor_active
    return lowest - ACTIVITY_TOLERANCE <= tensor / elapsed <= highest + ACTIVITY_TOLERANCE
