"""Holds the rules' progress against ml-goodput-measurement's: `python -m tests.bench.goodput PYTHON`.

PYTHON is that of an environment with that package. Both are told of the same planted jobs: our rules by the pages of
their agents, over a real Prometheus, ml-goodput-measurement by its own events. Printed are minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.deploy.test_progress import NAMES, engine, over
from tests.helpers import progress_fleet
from tests.helpers.progress_fleet import PlannedRun
from tests.helpers.stored_fleet import BEGIN, HOUR

STEP = 10.0
"""Seconds."""
SEEDS = (5, 1, 2)
MOST = 10
THEIRS = Path(__file__).parent / "goodput_theirs.py"


def events(runs: list[PlannedRun]) -> Iterator[dict[str, Any]]:
    """Of each run its start, and the begins of its steps; the steps of `again` were reached before."""
    reached = 0
    for run in runs:
        again = sum(each.seconds for each in run.stretches if each.kind == "again")
        step, steps = max(0, reached - round(again / STEP)), []
        for begin, end, stretch in run.spans():
            if stretch.kind in ("work", "again"):
                times = [begin + STEP * number for number in range(int((end - begin) / STEP))]
                steps += [(step + number, time) for number, time in enumerate(times)]
                step += len(times)
        reached = max(reached, step)
        start = run.stretches[0].seconds
        yield {"begin": run.begin, "end": run.end, "start": start, "steps": steps}


def lost_at_first(runs: list[dict[str, Any]]) -> float:
    """Seconds from the first to the last begin, in the run before, of the steps that a restart does again."""
    lost = 0.0
    for before, after in pairwise(runs):
        resumed = after["steps"][0][0]
        times = [time for step, time in before["steps"] if step >= resumed]
        lost += times[-1] - times[0] if times else 0.0
    return lost


def minutes(seed: int, python: str, folder: Path) -> Iterator[list[str]]:
    fleet = progress_fleet.planned(seed)
    with engine("prometheus", fleet, NAMES, folder) as client:
        end = BEGIN + fleet.hours * HOUR
        found = over(client, "job:lost_progress_gpu_hours:sum1h", "job_id, reason", end)
    by_job: dict[str, list[PlannedRun]] = defaultdict(list)
    for run in fleet.runs:
        if run.states_steps:
            by_job[run.job_id].append(run)
    told = {job: list(events(runs)) for job, runs in by_job.items() if len(runs) > 1}
    done = subprocess.run(
        [python, str(THEIRS)], input=json.dumps(told), capture_output=True, text=True, check=True
    )
    for job, theirs in json.loads(done.stdout).items():
        runs, badput = by_job[job], theirs["badput"]
        ours = {
            reason: 60 * found.get((job, reason), 0.0) / runs[0].gpus
            for reason in ("starting", "done_again")
        }
        planted = [
            sum(each.seconds for run in runs for each in run.stretches if each.kind == kind) / 60
            for kind in ("start", "again")
        ]
        start = sum(badput[kind] for kind in ("TPU_INITIALIZATION", "TRAINING_PREP"))
        wasted = badput["WASTED_PROGRESS_FROM_DISRUPTION"]
        values = (
            *(planted[0], ours["starting"], start / 60, badput["PROGRAM_STARTUP"] / 60),
            *(planted[1], ours["done_again"], lost_at_first(told[job]) / 60, wasted / 60),
        )
        yield [
            f"{seed}/{job}",
            str(len(runs) - 1),
            str(theirs["disruptions"]),
            *(f"{each:.1f}" for each in values),
        ]


def main(python: str) -> None:
    rows: list[list[str]] = []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            rows += minutes(seed, python, Path(folder))
    heads = ["job", "restarts", "disruptions", "start", "ours", "theirs", "its program start"]
    print("|", " | ".join([*heads, "again", "ours", "lost, with pauses", "theirs"]), "|")
    print("|" + "---|" * 11)
    for row in rows[:MOST]:
        print("|", " | ".join(row), "|")


if __name__ == "__main__":
    main(sys.argv[1])
