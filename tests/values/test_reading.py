"""What a window says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.ofu.cycles import CycleTrust
from ofu_exporter.ofu.window import measure
from ofu_exporter.values.clock_limit import ClockLimit
from ofu_exporter.values.reading import Evidence
from tests.helpers.values import H100_RATING, reading


@pytest.mark.parametrize(
    ("limits", "cycles", "lower"),
    [
        ((ClockLimit.SW_POWER_CAP,), None, 0.5 * 1500 / 1830 * 0.13 / 1.13),
        (None, None, 0.5 * 1500 / 1830 * 0.13 / 1.13),
        ((ClockLimit.SW_POWER_CAP,), (7500e6, 3750e6), 0.0),
    ],
)
def test_a_clock_that_was_read_may_be_13_percent_too_high(
    limits: tuple[ClockLimit, ...] | None, cycles: tuple[float, float] | None, lower: float
) -> None:
    """Named 1485 to 1560 MHz, true 1368 (docs/hardware.md); cycle counters have the true clock."""
    trust, window = CycleTrust(), None
    for number in range(6):
        end = 5.0 * (number + 1)
        totals = cycles and (cycles[0] * (number + 1), cycles[1] * (number + 1))
        one = replace(
            reading(end - 5, end, 0.5, (1500e6,) * 10, cycles=totals), clock_limits=limits
        )
        outcome = measure(one, H100_RATING, trust)
        trust, window = outcome.trust, outcome.window
    assert window is not None
    assert window.clock_method == ("cycles" if cycles else "polled")
    assert window.overstated == pytest.approx(lower)


@pytest.mark.parametrize(
    ("evidence", "works"),
    [
        (Evidence(power_watts=199.0), False),
        (Evidence(power_watts=200.0), True),
        (Evidence(power_watts=650.0, power=0.49), False),
        (Evidence(power_watts=60.0, power=0.5), True),
        (Evidence(), False),
    ],
)
def test_the_power_of_a_gpu_that_works_is_a_share_of_its_limit_or_200_watts(
    evidence: Evidence, works: bool
) -> None:
    assert evidence.draws_power is works
