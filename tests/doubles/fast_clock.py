"""A clock that runs fast, for whatever program is started with these variables: an hour in seconds."""

from __future__ import annotations

import time
from pathlib import Path

from tests.doubles.native import build

SOURCE = Path(__file__).with_name("fast_clock.c")


class FastClock:
    """The clock of one program, which is right until it is told to run faster."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rate, self._since, self._ahead = 1.0, time.monotonic(), 0.0
        self.run_at(1.0)

    def now(self) -> float:
        """The program's monotonic seconds."""
        real = time.monotonic()
        return real + self._ahead + (self._rate - 1) * (real - self._since)

    def run_at(self, rate: float) -> None:
        """Let it pass so many seconds a second from now on."""
        real = time.monotonic()
        self._ahead += (self._rate - 1) * (real - self._since)
        self._rate, self._since = rate, real
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{rate} {real} {self._ahead}", encoding="ascii")
        fresh.replace(self._file)

    @property
    def env(self) -> dict[str, str]:
        """The variables of a process that has this clock."""
        library = build(SOURCE, "libfastclock.so")
        return {"LD_PRELOAD": str(library), "FAST_CLOCK": str(self._file)}
