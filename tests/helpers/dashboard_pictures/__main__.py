"""Draws the dashboards for the docs: `python -m tests.helpers.dashboard_pictures [FOLDER]`.

A Prometheus takes in the pages of a simulated fleet's agents, and records what the project's rules make of them. Then
every panel asks its own queries.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.grafana.generate import FOLDER as BOARDS
from ofu_exporter.fleet.simulation.fleet import fleet_of
from ofu_exporter.fleet.simulation.spec import read_spec
from tests.helpers.dashboard_pictures.answers import Asked
from tests.helpers.dashboard_pictures.board import Board
from tests.helpers.screenshots import FOLDER
from tests.helpers.simulated_pages import scraped
from tests.helpers.stored_fleet import read_in, record, stored

SPEC = Path(__file__).parent / "fleet.yaml"
HOUR = 3600.0
BEGIN = 1756252800.0
"""When the fleet of SPEC begins: 2025-08-27 00:00 UTC."""
END = BEGIN + 3.5 * HOUR
SHOWN = 3 * HOUR
CHOICES = {"fleet": {}, "reports": {}, "job": {"job": "1001"}, "node": {"node": "h100-2"}}


def history(folder: Path, interval: int) -> None:
    """The fleet's pages and what the dashboards read of its rules, in `folder`/data."""
    read_in(folder, scraped(fleet_of(read_spec(SPEC)), BEGIN, interval))
    record(folder, BEGIN, END, " ".join(path.read_text() for path in BOARDS.glob("*.json")))


@contextmanager
def pictures(interval: int = 60) -> Iterator[dict[str, Board]]:
    """The dashboards over a Prometheus that holds the history, scraped so often, by name."""
    with tempfile.TemporaryDirectory() as scratch:
        history(Path(scratch), interval)
        with stored(Path(scratch)) as prometheus:
            yield {
                name: Board(
                    json.loads((BOARDS / f"{name}.json").read_text()),
                    Asked(prometheus.url, END, SHOWN, choices),
                )
                for name, choices in CHOICES.items()
            }


def main(folder: Path = FOLDER) -> None:
    with pictures() as boards:
        for name, board in boards.items():
            (folder / f"dashboard-{name}.svg").write_text(board.svg() + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
