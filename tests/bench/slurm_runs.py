"""72 runs of a real Slurm: how far the time for which each is said to hold its GPUs is from what its nodes' hooks saw.

    python -m tests.bench.slurm_runs > tests/measured/slurm-runs.md

Run by hand, as root and with Slurm installed; takes about three minutes. The truth is noted by a shell around both
hooks: the time from the begin of the prolog to the begin of the epilog. Two nodes are two slurmd of this machine, each
with an agent; GPUs are simulated; everything else is as on a node, with the agent's own defaults.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.helpers.agent import Agent, agent, until
from tests.helpers.slurm_cluster import GPUS, Cluster, divided, missing

NODES = ("n1", "n2")
_NOTING = """\
#!/bin/sh
echo "$SLURM_JOB_ID $SLURMD_NODENAME {name} $(date +%s.%N)" >>{notes}
"""
_PREEMPTION = """\
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=ALL PriorityTier=1 MaxTime=INFINITE State=UP PreemptMode=REQUEUE
PartitionName=high Nodes=ALL PriorityTier=9 MaxTime=INFINITE State=UP PreemptMode=OFF
"""
_HEAD = """\
# Held time of real Slurm jobs

    python -m tests.bench.slurm_runs > tests/measured/slurm-runs.md

Runs of a real Slurm {version} on two nodes, each with an agent. The error is the held time of a run, as its agent
has it, less the time from the begin of its prolog to the begin of its epilog, in seconds of one GPU. Measured on
{cores} cores with a load of {load:.0f}.

| runs | number | error of held, median | 90 % | largest | measured, median |
|---|---|---|---|---|---|"""


class Run(NamedTuple):
    """One run on one node, as the hooks saw it and as the agent has it, in seconds of one GPU."""

    lasted: float
    held: float
    observed: float


class TwoNodes(Cluster):
    """A cluster of two nodes, whose jobs of a higher partition have those of a lower one requeued."""

    def _configure(self) -> None:
        super()._configure()
        self.notes = self.root / "notes"
        self._conf.write_text(divided(self._conf.read_text(), self.root, NODES) + _PREEMPTION)
        gres = self.root / "etc" / "gres.conf"
        gres.write_text(gres.read_text().replace("=localhost", f"={','.join(NODES)}"))
        for name in ("prolog", "epilog"):
            hook = self.root / "hooks" / name
            ours = hook.read_text().partition("\n")[2]
            own = ours.replace(f"={self.jobs} ", f"={self.jobs}-$SLURMD_NODENAME ")
            hook.write_text(_NOTING.format(name=name, notes=self.notes) + own)

    def start_slurmd(self, *inside: str) -> None:
        for node in NODES:
            self._spawn(f"slurmd-{node}", *inside, "slurmd", "-D", "-N", node)

    def array(self, number: int, gpus: int, *options: str) -> None:
        """Runs that last between three and six seconds."""
        self.submit(f"--gres=gpu:{gpus}", f"--array=1-{number}", *options, first=LASTS)

    def running(self, number: int) -> None:
        """Wait until so many jobs run, whose prologs have ended."""
        ask = ("squeue", "--noheader", "--states=R", "--format=%A %r")
        until(
            lambda: [each.split()[1] for each in self.call(*ask).splitlines()] == ["None"] * number
        )


LASTS = "sleep 3.$((SLURM_JOB_ID * 37 % 10)); sleep $((SLURM_JOB_ID % 3))"


def at_once(cluster: TwoNodes) -> None:
    cluster.array(20, 1)


def with_two_gpus(cluster: TwoNodes) -> None:
    cluster.array(12, 2)


def requeued(cluster: TwoNodes) -> None:
    cluster.array(8, 1, "--requeue")
    cluster.running(8)
    ids = cluster.call("squeue", "--noheader", "--format=%A").split()
    cluster.call("scontrol", "requeue", ",".join(ids))


def heterogeneous(cluster: TwoNodes) -> None:
    for _ in range(6):
        cluster.submit("--gres=gpu:1", ":", "--gres=gpu:1", first=LASTS)


def preempted(cluster: TwoNodes) -> None:
    cluster.array(4, 4, "--partition=low", "--requeue")
    cluster.running(4)
    cluster.array(4, 4, "--partition=high")


KINDS = {
    "an array of 20, 16 of them at once": (at_once, 20, 1),
    "12 with two GPUs": (with_two_gpus, 12, 2),
    "8 that are requeued": (requeued, 16, 1),
    "6 heterogeneous jobs of two parts": (heterogeneous, 12, 1),
    "4 that are preempted (PreemptMode=REQUEUE), by 4": (preempted, 12, 4),
}
"""What makes runs, how many, and with how many GPUs each."""


def main() -> None:
    """Print a row for each kind of job, and one for all."""
    if why := missing():
        raise SystemExit(why)
    cluster = TwoNodes()
    try:
        cluster.start()
        version = cluster.call("sinfo", "--version").removeprefix("slurm-wlm ")
        print(_HEAD.format(version=version, cores=os.cpu_count(), load=os.getloadavg()[0]))
        with ExitStack() as ends:
            agents = {node: ends.enter_context(agent(*flags(cluster, node))) for node in NODES}
            for running in agents.values():
                until(lambda: len(running.values("ofu_gpu_utilization_ratio")) == GPUS)  # noqa: B023
            every: list[Run] = []
            for kind, (make, number, gpus) in KINDS.items():
                before = len(noted(cluster.notes))
                make(cluster)
                until(lambda: not cluster.call("squeue", "--noheader"), seconds=300)
                for running in agents.values():
                    until(lambda: not any(running.values("ofu_job_info")) or free(running))  # noqa: B023
                runs = [*runs_of(noted(cluster.notes)[before:], agents, gpus)]
                assert len(runs) == number, f"{kind}: {len(runs)} runs"
                show(kind, runs)
                every += runs
            show("all", every)
    finally:
        cluster.stop()


def flags(cluster: Cluster, node: str) -> tuple[str, ...]:
    simulated = ("run", "--source", "simulate", "--simulated-gpus", str(GPUS))
    return (*simulated, "--scheduler", "slurm", "--job-dir", f"{cluster.jobs}-{node}")


def free(running: Agent) -> bool:
    return len(running.values("ofu_gpu_info", job_id="")) == GPUS


def noted(notes: Path) -> list[list[str]]:
    return [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []


def runs_of(lines: list[list[str]], agents: Mapping[str, Agent], gpus: int) -> Iterator[Run]:
    """What was noted of each run, beside what the agent of its node has of it."""
    begun: dict[tuple[str, str], float] = {}
    lasted: dict[tuple[str, str], list[float]] = {}
    for job_id, node, name, at in lines:
        if name == "prolog":
            begun[node, job_id] = float(at)
        elif (begin := begun.pop((node, job_id), None)) is not None:  # Slurm may call it twice
            lasted.setdefault((node, job_id), []).append(float(at) - begin)
    for (node, job_id), lengths in lasted.items():
        jobs = json.loads(agents[node].get("/v1/jobs")[1])
        (job,) = (each for each in jobs if each["job_id"] == job_id)
        for length, run in zip(lengths, job["runs"], strict=True):
            held, observed = (run[f"{what}_seconds"] / gpus for what in ("held", "observed"))
            yield Run(length, held, observed)


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
