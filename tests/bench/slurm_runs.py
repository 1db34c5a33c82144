"""72 runs of a real Slurm: how far the time for which each is said to hold its GPUs is from what the node's hooks saw.

    python -m tests.bench.slurm_runs

Run by hand, as root and with Slurm installed; takes about two minutes. The truth is noted by a shell around both hooks:
the time from the begin of the prolog to the begin of the epilog. GPUs are simulated; everything else is as on a node,
with the agent's own defaults.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.helpers.agent import Agent, agent, until
from tests.helpers.slurm_cluster import GPUS, Cluster, missing

_NOTING = """\
#!/bin/sh
echo "$SLURM_JOB_ID {name} $(date +%s.%N)" >>{notes}
"""
KINDS = {
    "an array of 40, all at once": ("--gres=gpu:1", "--array=1-40"),
    "16 with two GPUs": ("--gres=gpu:2", "--array=1-16"),
    "8 that are requeued, 16 runs": ("--gres=gpu:1", "--array=1-8", "--requeue"),
}
REQUEUED = "8 that are requeued, 16 runs"


class Run(NamedTuple):
    """One run, as the hooks saw it and as the agent has it, in seconds of one GPU."""

    lasted: float
    held: float
    observed: float


def main() -> None:
    """Print a row for each kind of job, and one for all."""
    if why := missing():
        raise SystemExit(why)
    cluster = Cluster()
    notes = cluster.root / "notes"
    try:
        cluster.start()
        for name in ("prolog", "epilog"):
            hook = cluster.root / "hooks" / name
            ours = hook.read_text().partition("\n")[2]
            hook.write_text(_NOTING.format(name=name, notes=notes) + ours)
        flags = ("run", "--source", "simulate", "--simulated-gpus", str(GPUS))
        with agent(*flags, "--scheduler", "slurm", "--job-dir", str(cluster.jobs)) as running:
            until(lambda: len(running.values("ofu_gpu_utilization_ratio")) == GPUS)
            print("| runs | number | error of held, median | 90 % | largest | measured, median |")
            print("|---|---|---|---|---|---|")
            every: list[Run] = []
            for kind, options in KINDS.items():
                runs = [*runs_of(cluster, running, notes, options, kind == REQUEUED)]
                show(kind, runs)
                every += runs
            show("all", every)
    finally:
        cluster.stop()


def runs_of(
    cluster: Cluster, running: Agent, notes: Path, options: tuple[str, ...], again: bool
) -> Iterator[Run]:
    """Run an array whose tasks last between three and six seconds; with `again` each begins a second time."""
    script = "sleep 3.$((SLURM_JOB_ID * 37 % 10)); sleep $((SLURM_JOB_ID % 3))"
    array = cluster.submit(*options, first=script)
    if again:
        until(lambda: len(running.values("ofu_job_info", array_job_id=array)) == GPUS)
        ids = cluster.call("squeue", "--noheader", "--format=%A", f"--jobs={array}").split()
        cluster.call("scontrol", "requeue", ",".join(ids))
    until(lambda: not cluster.call("squeue", "--noheader"), seconds=300)
    until(lambda: not running.values("ofu_gpu_info", array_job_id=array))
    seen = [line.split() for line in notes.read_text().splitlines()]
    for job in json.loads(running.get("/v1/jobs")[1]):
        if job["array_job_id"] == array:
            times = [(name, float(at)) for job_id, name, at in seen if job_id == job["job_id"]]
            starts = [at for name, at in times if name == "prolog"]
            ends = [at for name, at in times if name == "epilog"]
            for start, end, run in zip(starts, ends, job["runs"], strict=True):
                gpus = int(options[0][-1])
                held, observed = (run[f"{what}_seconds"] / gpus for what in ("held", "observed"))
                yield Run(end - start, held, observed)


def show(kind: str, runs: list[Run]) -> None:
    errors = sorted(abs(run.held - run.lasted) for run in runs)
    lean = statistics.median(run.held - run.lasted for run in runs)
    measured = statistics.median(run.observed / run.lasted for run in runs)
    print(
        f"| {kind} | {len(runs)} | {statistics.median(errors):.2f} s (lean {lean:+.2f}) "
        f"| {errors[int(0.9 * len(errors))]:.2f} s | {errors[-1]:.2f} s | {measured:.0%} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
