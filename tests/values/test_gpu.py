"""What a source says of a GPU is kept where it can be true."""

from __future__ import annotations

import math

import pytest

from ofu_exporter.values.gpu import Gpu


@pytest.mark.parametrize("hz", [0.0, -1.0, 1980.0, 5e9, 1e300, math.inf, math.nan])
def test_a_highest_clock_that_cannot_be_one_is_not_known(hz: float) -> None:
    assert Gpu("0", "GPU-0", max_sm_clock_hz=hz).max_sm_clock_hz is None


def test_a_highest_clock_is_kept() -> None:
    assert Gpu("0", "GPU-0", max_sm_clock_hz=1.98e9).max_sm_clock_hz == pytest.approx(1.98e9)
