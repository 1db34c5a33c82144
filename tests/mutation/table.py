"""Says what became of the mutants of a room: `python -m tests.mutation.table ofu`, where mutmut has run."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("mutants/ofu_exporter")
KILLED = {1, 3}
"""Exit codes of pytest: a test failed, or none could be run."""
SURVIVED, NOT_REACHED = {0}, {5, 33}
"""No test failed; no test of the room comes to the function."""


def outcomes(room: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Of every file, what became of each mutant that was tried."""
    for meta in sorted((ROOT / room).rglob("*.meta")):
        codes = json.loads(meta.read_text())["exit_code_by_key"]
        tried = {mutant: code for mutant, code in codes.items() if code is not None}
        if tried:
            name = str(meta.relative_to(ROOT).with_suffix(""))
            yield name, {mutant: outcome(code) for mutant, code in tried.items()}


def outcome(code: int) -> str:
    """A mutant that makes the tests hang or crash is as good as killed."""
    if code in SURVIVED | NOT_REACHED:
        return "survived" if code in SURVIVED else "not reached"
    return "killed" if code in KILLED else "hung"


def main(room: str) -> None:
    total: Counter[str] = Counter()
    survivors: list[str] = []
    print("| file | mutants | killed | survived |\n|---|---|---|---|")
    for name, became in outcomes(room):
        counts = Counter(became.values())
        total += counts
        print(row(name, counts))
        survivors += [
            f"{mutant}  ({what})"
            for mutant, what in became.items()
            if what not in ("killed", "hung")
        ]
    print(row("all", total), *survivors, sep="\n")


def row(name: str, counts: Counter[str]) -> str:
    killed = counts["killed"] + counts["hung"]
    return f"| {name} | {counts.total()} | {killed} | {counts.total() - killed} |"


if __name__ == "__main__":
    main(sys.argv[1])
