"""A clock that runs fast, for whatever program is started with these variables: an hour in seconds."""

from __future__ import annotations

import math
import time
from pathlib import Path

from tests.doubles.native import build

SOURCE = Path(__file__).with_name("fast_clock.c")


class FastClock:
    """The clock of one program, which is right until it is told to run faster."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rate, self._since, self._ahead = 1.0, time.monotonic(), 0.0
        self._end, self._next = math.inf, 1.0
        self.run_at(1.0)

    def now(self) -> float:
        """The program's monotonic seconds."""
        real = time.monotonic()
        return real + self._ahead_at(real)

    def _ahead_at(self, real: float) -> float:
        ahead = self._ahead + (self._rate - 1) * (min(real, self._end) - self._since)
        return ahead + (self._next - 1) * max(0.0, real - self._end)

    def run_at(self, rate: float) -> None:
        """Let it pass so many seconds a second from now on."""
        self._run(rate, math.inf, rate)

    def run_to(self, program_second: float, rate: float, then: float) -> None:
        """Let it pass so many seconds a second until then, and `then` from there on; returns there."""
        left = program_second - self.now()
        if left > 0:
            self._run(rate, time.monotonic() + left / rate, then)
            while self.now() < program_second:
                time.sleep(0.02)

    def _run(self, rate: float, end: float, then: float) -> None:
        real = time.monotonic()
        self._ahead = self._ahead_at(real)
        self._rate, self._since, self._end, self._next = rate, real, end, then
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{rate} {real} {self._ahead} {end} {then}", encoding="ascii")
        fresh.replace(self._file)

    @property
    def env(self) -> dict[str, str]:
        """The variables of a process that has this clock."""
        library = build(SOURCE, "libfastclock.so")
        return {"LD_PRELOAD": str(library), "FAST_CLOCK": str(self._file)}
