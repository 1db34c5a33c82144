"""Judges every source under every load: `python -m tests.simulator`, about half a minute.

It prints the tables in Markdown; `--write` puts them into tests/measured/accuracy.md, and `--missed` prints instead the
goals that are not reached, as tests/simulator/missed.py has them. `--source` chooses some by the start of their names.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.helpers.markdown import with_section
from tests.simulator.goals import Goal, after_mishaps, under_loads
from tests.simulator.loads import EVENTFUL, LOADS
from tests.simulator.run import judged
from tests.simulator.score import Score
from tests.simulator.sources import KINDS, Kind
from tests.simulator.table import tables

PAGE = Path(__file__).parents[2] / "tests/measured/accuracy.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="put the tables into tests/measured/accuracy.md"
    )
    parser.add_argument(
        "--missed", action="store_true", help="print the goals that are not reached"
    )
    parser.add_argument("--source", default="", help="only those whose name begins so")
    asked = parser.parse_args()
    kinds = [kind for kind in KINDS if kind.name.startswith(asked.source)]
    scores = {kind.name: judged(kind, LOADS) for kind in kinds}
    mishaps = {kind.name: with_mishaps(kind) for kind in kinds}
    lines = tables(scores, mishaps)
    if asked.missed:
        for kind in kinds:
            print_missed(under_loads(kind, scores[kind.name]))
            print_missed(after_mishaps(kind, mishaps[kind.name]))
    elif asked.write:
        PAGE.write_text(with_section(PAGE, "simulator", lines))
    else:
        print(*lines, "", sep="\n")


def with_mishaps(kind: Kind) -> dict[str, Score | None]:
    return {mishap: judged(kind, [EVENTFUL], mishap)[EVENTFUL.name] for mishap in kind.mishaps}


def print_missed(goals: dict[Goal, str]) -> None:
    for goal, missed in goals.items():
        if missed:
            print(f'    ("{goal.source}", "{goal.of}", "{goal.what}"): "{missed}",')


if __name__ == "__main__":
    main()
