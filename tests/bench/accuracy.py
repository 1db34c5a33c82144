"""How near each driver and host engine comes to the truth, at each interval and beside each client.

    python -m tests.bench.accuracy            # prints the tables; some minutes
    python -m tests.bench.accuracy --write    # puts them into docs/source-accuracy.md

The truth is that of tests/simulator, which takes nothing from the agent.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.simulator.grid import INTERVALS, Cell, columns, measured
from tests.simulator.loads import BY_NAME, LOADS

PAGE = Path(__file__).parents[2] / "docs/source-accuracy.md"
BEGIN, END = "<!-- generated: intervals -->\n", "<!-- end of intervals -->"
FULL = (1.0, 5.0, 30.0)
"""The intervals at which every load is shown."""

Table = Mapping[str, Mapping[str, Cell]]
"""By column and load."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.accuracy", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    tables = {interval: at(interval) for interval in INTERVALS}
    text = "\n".join(lines(tables)) + "\n"
    if parser.parse_args().write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(before + BEGIN + text + END + after, encoding="utf-8")
    else:
        print(text)


def at(interval: float) -> Table:
    """Every source at one interval; where not all loads are shown, under one mild and one hard load."""
    loads = LOADS if interval in FULL else (BY_NAME["training"], BY_NAME["hard steps"])
    return {name: measured(kind, loads) for name, kind in columns(interval)}


def lines(tables: Mapping[float, Table]) -> Iterator[str]:
    for interval in FULL:
        yield from ["", f"`--interval {interval:g}s`:", ""]
        yield from grid("", {name: texts(cells) for name, cells in tables[interval].items()})
    yield from ["", "The shortest window that was shown, as a share of the interval:", ""]
    shown = {name: dict[str, str]() for name in tables[FULL[0]]}
    for interval, table in tables.items():
        for name, cells in table.items():
            shown[name][f"{interval:g} s"] = f"{min(each.shown for each in cells.values()):.2f}"
    yield from grid("interval", shown)


def texts(cells: Mapping[str, Cell]) -> dict[str, str]:
    return {load: text(cell) for load, cell in cells.items()}


def text(cell: Cell) -> str:
    return f"{100 * cell.bias + 0.0:+.2f}, ±{100 * cell.stated:.2f}, {cell.inside:.0%}"


def grid(corner: str, cells: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """A table with a column for each source."""
    yield "| " + " | ".join([corner, *cells]) + " |"
    yield "|---" * (1 + len(cells)) + "|"
    for row in next(iter(cells.values())):
        yield "| " + " | ".join([row, *(column[row] for column in cells.values())]) + " |"


if __name__ == "__main__":
    main()
