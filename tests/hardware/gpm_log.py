"""Writes everything that NVML's GPM says of a GPU, window after window, as JSON lines.

    python -m tests.hardware.gpm_log FILE SECONDS [WINDOW [READS [beside]]]

A line has the window's ends on the monotonic clock, which all processes of the machine share, every activity, the clock
reads in MHz with their times, and power, energy, utilization and what holds the clock down at the end; with `beside`
also all that `card_state.py` reads, every 20 ms. Nothing of the card is set.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import pynvml

from tests.hardware.card_state import CardState, Number
from tests.hardware.counters import ACTIVITY, TOTALS, asked, metrics, pause, samples, window

WINDOW_SECONDS = 1.0
CLOCK_READS = 20
"""Clock reads in a window."""
STATE_SECONDS = 0.02
"""NVML has new values every 100 ms."""


def log(
    handle: Any,
    out: TextIO,
    seconds: float,
    length: float = WINDOW_SECONDS,
    reads: int = CLOCK_READS,
    beside: CardState | None = None,
) -> None:
    """Windows without gaps: the sample that ends one begins the next."""
    answer = window(handle, TOTALS, 0.1)
    ids = (*ACTIVITY, *(id_ for id_ in TOTALS if isinstance(answer[id_], float)))
    with samples(2) as pair:
        pynvml.nvmlGpmSampleGet(handle, pair[0])
        start = began = time.monotonic()
        clocks: list[tuple[float, int]] = []
        states: list[list[Number]] = []
        while start < began + seconds:
            while (now := time.monotonic()) < start + length:
                clocks.append((round(now, 4), _clock(handle)))
                if beside and (not states or now - (states[-1][0] or 0) >= STATE_SECONDS):
                    states.append(beside.read())
                pause(min(length / reads, max(0.0, start + length - time.monotonic())))
            pynvml.nvmlGpmSampleGet(handle, pair[1])
            end = time.monotonic()
            line = {"start": start, "end": end, "unix": time.time(), "clocks_mhz": clocks}
            line |= {"metrics": metrics(pair[0], pair[1], ids), **_state(handle)}
            line |= (
                {"beside": dict(zip(beside.names, zip(*states, strict=True), strict=True))}
                if beside
                else {}
            )
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
            out.flush()
            pair.reverse()
            start, clocks, states = end, [], []


def _clock(handle: Any) -> int:
    return int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))


def _state(handle: Any) -> dict[str, Any]:
    """What NVML says of this instant."""
    reasons = getattr(
        pynvml,
        "nvmlDeviceGetCurrentClocksEventReasons",
        pynvml.nvmlDeviceGetCurrentClocksThrottleReasons,
    )
    rates = asked(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return {
        "power_watts": asked(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
        "energy_joules": asked(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000),
        "clock_reasons": asked(reasons, handle),
        "utilization_percent": getattr(rates, "gpu", rates),
        "celsius": asked(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
    }


def main(args: list[str]) -> None:
    if len(args) not in range(2, 6):
        raise SystemExit(__doc__)
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    with Path(args[0]).open("w", encoding="utf-8") as out:
        length = float(args[2]) if len(args) > 2 else WINDOW_SECONDS
        reads = int(args[3]) if len(args) > 3 else CLOCK_READS
        log(handle, out, float(args[1]), length, reads, CardState(handle) if args[4:] else None)


if __name__ == "__main__":
    main(sys.argv[1:])
