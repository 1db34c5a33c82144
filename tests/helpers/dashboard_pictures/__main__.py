"""Draws the dashboards for the docs: `python -m tests.helpers.dashboard_pictures [FOLDER]`.

`tests.simulated_history` writes the history of a simulated fleet, and a Prometheus takes it in. The project's rules
add what is recorded of single GPUs. Then every panel asks its own queries.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.grafana.generate import FOLDER as BOARDS
from tests.helpers.dashboard_pictures.answers import Asked
from tests.helpers.dashboard_pictures.board import Board
from tests.helpers.screenshots import FOLDER
from tests.helpers.stored_fleet import CREATE_BLOCKS, record, stored

SPEC = Path(__file__).parent / "fleet.yaml"
HOUR = 3600.0
BEGIN = 1756252800.0
"""When the fleet of SPEC begins: 2025-08-27 00:00 UTC."""
END = BEGIN + 6.5 * HOUR
SHOWN = 6 * HOUR
OF_GPUS = "job_gpu:ofu:ratio_rate5m job:lost_progress_gpu_hours:sum1h job:lost_progress_utilized_gpu_hours:sum1h"
"""What dashboards read and the history leaves out. It is recorded from the pages of four nodes in the history."""
CHOICES = {"fleet": {}, "reports": {}, "job": {"job": "1001"}, "node": {"node": "h100-2"}}


def history(folder: Path) -> None:
    """The fleet's history, in `folder`/data."""
    written = folder / "history"
    command = [sys.executable, "-m", "tests.simulated_history", str(SPEC), str(written)]
    subprocess.run(command, check=True, capture_output=True)
    for file in sorted(written.glob("*.om")):
        blocks = [*CREATE_BLOCKS, str(file), str(folder / "data")]
        subprocess.run(blocks, check=True, capture_output=True)
    record(folder, BEGIN, END, OF_GPUS)


@contextmanager
def pictures() -> Iterator[dict[str, Board]]:
    """The dashboards over a Prometheus that holds the history, by name."""
    with tempfile.TemporaryDirectory() as scratch:
        history(Path(scratch))
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
