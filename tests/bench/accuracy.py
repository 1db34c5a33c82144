"""How near each driver and host engine comes to the truth, at each interval and beside each client.

    python -m tests.bench.accuracy            # prints the tables; some minutes
    python -m tests.bench.accuracy --write    # puts them into tests/measured/accuracy.md

The truth is that of tests/simulator, which takes nothing from the agent.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.helpers.markdown import with_section
from tests.simulator.grid import INTERVALS, Cell, columns, measured
from tests.simulator.loads import BY_NAME, LOADS

PAGE = Path(__file__).parents[2] / "tests/measured/accuracy.md"
FULL = (5.0, 30.0)
"""The intervals at which every load is shown."""
SOME = ("training", "hard steps")
"""The loads at every other interval."""

Table = Mapping[str, Mapping[str, Cell]]
"""By column and load."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.accuracy", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many at once")
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.processes) as pool:
        cells = list(pool.map(at, *zip(*_columns(), strict=True)))
    tables: dict[float, dict[str, Mapping[str, Cell]]] = {}
    for (interval, name), column in zip(_columns(), cells, strict=True):
        tables.setdefault(interval, {})[name] = column
    if asked.write:
        end = "<!-- end of intervals -->"
        PAGE.write_text(with_section(PAGE, "intervals", lines(tables), end))
    else:
        print(*lines(tables), "", sep="\n")


def _columns() -> Iterator[tuple[float, str]]:
    return ((interval, name) for interval in INTERVALS for name, _ in columns(interval))


def at(interval: float, name: str) -> Mapping[str, Cell]:
    """One source at one interval."""
    loads = LOADS if interval in FULL else [BY_NAME[load] for load in SOME]
    return measured(dict(columns(interval))[name], loads)


def lines(tables: Mapping[float, Table]) -> Iterator[str]:
    for interval in FULL:
        yield from ["", f"`--interval {interval:g}s`:", ""]
        yield from grid("", {name: texts(cells) for name, cells in tables[interval].items()})
    for load in SOME:
        yield from ["", f"The load `{load}` at every interval:", ""]
        yield from by_interval(tables, texts, load)
    yield from ["", "The shortest window that was shown, as a share of the interval:", ""]
    yield from by_interval(tables, shown, "")


def by_interval(
    tables: Mapping[float, Table], cell: Callable[[Mapping[str, Cell]], Mapping[str, str]], key: str
) -> Iterator[str]:
    """A row for each interval."""
    rows = {name: dict[str, str]() for name in tables[FULL[0]]}
    for interval, table in tables.items():
        for name, row in rows.items():
            row[f"{interval:g} s"] = cell(table[name])[key] if name in table else ""
    yield from grid("interval", rows)


def shown(cells: Mapping[str, Cell]) -> dict[str, str]:
    return {"": f"{min(each.shown for each in cells.values()):.2f}"}


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
