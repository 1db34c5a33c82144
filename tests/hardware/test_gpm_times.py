"""Which words of GPM's samples are times."""

from __future__ import annotations

import struct

from tests.hardware.gpm_times import times


def test_a_time_is_told_in_samples_of_which_some_have_a_little_more_memory() -> None:
    taken = []
    for index in range(20):
        at = 5.0 + 0.125 * index
        words = struct.pack("QQ", 7, round((at - 0.05) * 1e6))
        taken.append((at, words + b"\0" * (8 * (index % 3 == 0))))
    (one,) = times(taken)
    assert (one["offset"], one["unit"], one["changes"]) == (8, "Q/1e+06", 19)
