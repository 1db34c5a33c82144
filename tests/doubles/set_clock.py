"""A clock that is set, for whatever program is started with these variables."""

from __future__ import annotations

from pathlib import Path

from tests.doubles.native import build

SOURCE = Path(__file__).with_name("set_clock.c")


class SetClock:
    """The clock of one node, which is right until it is set."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.seconds = 0
        self.set_by(0)

    def set_by(self, seconds: int) -> None:
        """Set it, from now on, to the right time and so many seconds."""
        self.seconds = seconds
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(seconds), encoding="ascii")
        fresh.replace(self._file)

    @property
    def env(self) -> dict[str, str]:
        """The variables of a process that has this clock."""
        library = build(SOURCE, "libsetclock.so")
        return {"LD_PRELOAD": str(library), "CLOCK_SET_BY": str(self._file)}
