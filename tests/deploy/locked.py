"""Reads a list of packages that deploy/image/lock has written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Locked:
    """One package of the list."""

    version: str
    hashes: list[str] = field(default_factory=list)
    wanted_by: list[str] = field(default_factory=list)
    """Who needs it: other packages, or where the list came from."""


def read(path: Path) -> dict[str, Locked]:
    """The packages by name."""
    packages: dict[str, Locked] = {}
    current: Locked | None = None
    for line in path.read_text().splitlines():
        if match := re.match(r"([a-z0-9-]+)==(\S+)", line):
            current = packages[match[1]] = Locked(match[2])
        elif current is None:
            continue
        elif match := re.search(r"--hash=sha256:([0-9a-f]{64})\b", line):
            current.hashes.append(match[1])
        elif match := re.match(r"    # (?:via(?: |$)|  )(.*)", line):
            current.wanted_by += [match[1].strip()] if match[1] else []
    return packages
