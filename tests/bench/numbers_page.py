"""Runs every measurement that tests/measured/benchmarks.md names, and replaces the tables below each by what it prints.

Below each command stands when and on what its tables were measured, for not all are made anew at once.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[1] / "measured" / "benchmarks.md"
_COMMAND = re.compile(r"^    python -m (tests\.bench\.[a-z_]+)(.*)$")
_NOTE = "    # "
"""Begins the line below a command that says when and on what its tables were measured."""


class Section(NamedTuple):
    """One command of the page and the tables below it, by their lines."""

    command: tuple[str, ...]
    place: int
    """The command's line."""
    first: int
    end: int

    @property
    def name(self) -> str:
        return self.command[0].rpartition(".")[2]


def sections(lines: list[str]) -> Iterator[Section]:
    """Every command, and the stretch of lines from its first table to the end of its last."""
    commands = [
        (place, match) for place, line in enumerate(lines) if (match := _COMMAND.match(line))
    ]
    ends = [*(place for place, _ in commands[1:]), len(lines)]
    for (place, match), end in zip(commands, ends, strict=True):
        rows = [row for row in range(place, end) if lines[row].startswith("|")]
        if rows:
            yield Section((match[1], *match[2].split()), place, rows[0], rows[-1] + 1)


def measured_on() -> str:
    """When and on what something was measured just now."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    today = datetime.now(tz=timezone.utc).date()
    return (
        f"{today}, load {os.getloadavg()[0]:.1f}: {os.cpu_count()} cores of "
        f"{model[1] if model else 'a CPU'}, {system}, Python {platform.python_version()}"
    )


def run(command: tuple[str, ...]) -> str:
    """What a measurement prints."""
    done = subprocess.run(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip("\n")


def measured(
    text: str,
    names: list[str],
    measure: Callable[[tuple[str, ...]], str] = run,
    note: Callable[[], str] = measured_on,
) -> str:
    """The page with new tables in the sections of these names, or in all where there is none."""
    lines = text.splitlines()
    for section in reversed([*sections(lines)]):
        if not names or section.name in names:
            lines[section.first : section.end] = measure(section.command).splitlines()
            below = section.place + 1
            has_note = lines[below].startswith(_NOTE)
            lines[below : below + has_note] = [f"{_NOTE}{note()}"]
    return "\n".join(lines) + "\n"
