"""Looks in NVML's opaque GPM samples for a time of their own: `python -m tests.hardware.gpm_times FILE`.

A word of a sample is a time if it grows, from sample to sample, by what the host's clock grows times some unit. The
layout is nobody's promise: what is found is a lead, and a size that malloc does not know may end this process.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import random
import statistics
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pynvml

from tests.hardware.counters import pause, samples

SAMPLES = 40
UNITS = (("Q", 1e9), ("Q", 1e6), ("Q", 1e3), ("d", 1.0))
"""Integers of nano-, micro- and milliseconds; a double of seconds."""
TOLERANCE = 0.12
"""Seconds, of all together: NVML takes its own values every 0.1 s."""
LARGEST_SAMPLE = 1 << 20


def times(taken: Sequence[tuple[float, bytes]]) -> Iterator[Mapping[str, Any]]:
    """Each word that is a time: where, its unit, how often it changed, and how its lag behind our clock varies."""
    seconds = taken[-1][0] - taken[0][0]
    size = min(
        len(each) for _, each in taken
    )  # what malloc gives may be a little more than asked for
    for offset, (code, unit) in itertools.product(range(0, size - 7, 8), UNITS):
        words = [struct.unpack_from(code, each, offset)[0] / unit for _, each in taken]
        grown = [after - before for before, after in itertools.pairwise(words)]
        if min(grown) < 0 or not abs(sum(grown) - seconds) < TOLERANCE:
            continue
        lags = [host - word for (host, _), word in zip(taken, words, strict=True)]
        least = min(lags)
        yield {
            "offset": offset,
            "unit": f"{code}/{unit:g}",
            "changes": sum(step > 0 for step in grown),
            "mean_lag_seconds": statistics.fmean(lags) - least,
            "largest_lag_seconds": max(lags) - least,
        }


def taken(handle: Any, count: int = SAMPLES) -> Iterator[tuple[float, bytes]]:
    """Samples at odd times, with the host's time of each."""
    libc = ctypes.CDLL(None)
    libc.malloc_usable_size.restype = ctypes.c_size_t
    some = random.Random(1)
    with samples(count) as kept:
        for sample in kept:
            pynvml.nvmlGpmSampleGet(handle, sample)
            at = time.monotonic()
            size = libc.malloc_usable_size(sample)
            yield at, ctypes.string_at(sample, min(size, LARGEST_SAMPLE))
            pause(some.uniform(0.01, 0.15))


def main(args: Sequence[str]) -> None:
    if len(args) != 1:
        raise SystemExit(__doc__)
    pynvml.nvmlInit()
    found = list(taken(pynvml.nvmlDeviceGetHandleByIndex(0)))
    answer = {"samples": len(found), "bytes": len(found[0][1]), "times": list(times(found))}
    Path(args[0]).write_text(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
