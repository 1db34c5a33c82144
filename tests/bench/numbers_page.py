"""Runs every measurement that docs/benchmarks.md names and puts what it prints in the place of the tables below it."""

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

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
_COMMAND = re.compile(r"^    python -m (tests\.bench\.[a-z_]+)(.*)$")
_MEASURED = re.compile(r"^Measured on .*?(?=\n\n)", re.MULTILINE | re.DOTALL)


class Section(NamedTuple):
    """One command of the page and the tables below it, by their lines."""

    command: tuple[str, ...]
    first: int
    end: int


def sections(lines: list[str]) -> Iterator[Section]:
    """Every command, and the stretch of lines from its first table to the end of its last."""
    commands = [
        (place, match) for place, line in enumerate(lines) if (match := _COMMAND.match(line))
    ]
    ends = [*(place for place, _ in commands[1:]), len(lines)]
    for (place, match), end in zip(commands, ends, strict=True):
        rows = [row for row in range(place, end) if lines[row].startswith("|")]
        if rows:
            yield Section((match[1], *match[2].split()), rows[0], rows[-1] + 1)


def machine() -> str:
    """What the page says it was measured on."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    today = datetime.now(tz=timezone.utc).date()
    load = os.getloadavg()[1]
    return (
        f"Measured on {today} on {os.cpu_count()} virtual cores of {model[1] if model else 'a CPU'}, {system}, "
        f"Python {platform.python_version()}, without a GPU, at a load of {load:.1f} by others and by these programs."
    )


def run(command: tuple[str, ...]) -> str:
    """What a measurement prints."""
    done = subprocess.run(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip("\n")


def measured(text: str, names: list[str], measure: Callable[[tuple[str, ...]], str] = run) -> str:
    """The page with new tables in the sections of these names, or in all where there is none."""
    lines = text.splitlines()
    for section in reversed([*sections(lines)]):
        name = section.command[0].rpartition(".")[2]
        if not names or name in names:
            lines[section.first : section.end] = measure(section.command).splitlines()
    return _MEASURED.sub(lambda _: machine(), "\n".join(lines) + "\n", count=1)
