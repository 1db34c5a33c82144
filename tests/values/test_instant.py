"""An instant on both clocks."""

from __future__ import annotations

from ofu_exporter.values.instant import Instant


def test_both_clocks_run_alike_in_either_direction() -> None:
    now = Instant(100.0, 1000.0)
    assert now.at(90.0) == now.at_unix(990.0) == Instant(90.0, 990.0)
    assert now.at(130.0) == now.at_unix(1030.0) == Instant(130.0, 1030.0)
