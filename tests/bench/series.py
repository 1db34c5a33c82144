"""How many series a node has: `python -m tests.bench.series` prints the table in docs/metrics.md.

Real agents on the stand-in for NVIDIA's library, with Slurm, a state file and the metrics of their own process: all
that /metrics has is counted.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.doubles.nvml import Scenario
from tests.helpers.agent import Agent, agent, until
from tests.helpers.job_node import Node
from tests.helpers.post import post

GPUS = 8
INSTANCES = 7
JOBS = 4
"""Each has two GPUs."""


def counted(running: Agent) -> Counter[str]:
    """The series of a page, by their metric."""
    lines = running.get("/metrics")[1].splitlines()
    return Counter(line.partition("{")[0].split()[0] for line in lines if not line.startswith("#"))


@contextlib.contextmanager
def on(scenario: Scenario, devices: int, *jobs: tuple[str, ...]) -> Iterator[Agent]:
    """An agent that measures every GPU or instance of a node, on which jobs have run before."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder))
        for job, *gpus in jobs:
            node.start(job, *gpus)
        flags = [
            *("run", "--source", "nvml", "--interval", "0.5s", "--clock-interval", "0.1s"),
            *("--scheduler", "slurm", "--job-dir", str(node.jobs), "--slurm-poll", "0.05s"),
            *("--state-file", str(node.state), "--state-interval", "0.2s"),
        ]
        with agent(*flags, env=scenario.environment()) as running:
            until(lambda: len(running.values("ofu_gpu_utilization_ratio")) == devices)
            yield running


def settled(
    running: Agent, is_there: Callable[[Counter[str]], bool] = bool, devices: int = GPUS
) -> Counter[str]:
    """The series of a page on which all are that take a while; a slow node shows no OFU for some moments."""
    seen = Counter[str]()

    def found() -> bool:
        nonlocal seen
        seen = counted(running)
        is_measured = seen["ofu_gpu_utilization_ratio"] == devices
        return is_measured and seen["ofu_exporter_http_requests_total"] > 0 and is_there(seen)

    until(found)
    return seen


def whole(folder: Path) -> Scenario:
    scenario = Scenario(folder / "nvml", GPUS)
    for gpu in range(GPUS):
        scenario.gpu(gpu, tensor=0.4)
    return scenario


def idle() -> Counter[str]:
    """A node of 8 GPUs that no job has."""
    with tempfile.TemporaryDirectory() as folder, on(whole(Path(folder)), GPUS) as running:
        return settled(running)


def owned(jobs: int) -> list[tuple[str, ...]]:
    """Jobs that have all GPUs of the node between them, each as its id and its GPUs."""
    each = GPUS // jobs
    return [(str(job), *map(str, range(each * job, each * job + each))) for job in range(jobs)]


def busy(jobs: int) -> Counter[str]:
    """The same node while jobs have all of its GPUs."""
    with (
        tempfile.TemporaryDirectory() as folder,
        on(whole(Path(folder)), GPUS, *owned(jobs)) as running,
    ):
        return settled(running, lambda seen: seen["ofu_job_energy_joules_total"] == jobs)


def reporting(jobs: int) -> Counter[str]:
    """The node while jobs have all GPUs and each has reported an MFU that OFU agrees with."""
    with (
        tempfile.TemporaryDirectory() as folder,
        on(whole(Path(folder)), GPUS, *owned(jobs)) as running,
    ):
        settled(running, lambda seen: seen["ofu_job_energy_joules_total"] == jobs)
        begin = time.time()
        until(lambda: time.time() > begin + 1)
        for job, *_ in owned(jobs):
            said = {"job_id": job, "mfu": 0.4, "start": begin, "precision": "bf16"}
            answer = post(running, said)
            assert answer.status == 200, answer
        return settled(running, lambda seen: seen["ofu_job_divergence_ratio"] == jobs)


def divided() -> Counter[str]:
    """A node of 8 GPUs in seven MIG instances each, which no job has."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(Path(folder) / "nvml", GPUS)
        for gpu in range(GPUS):
            scenario.gpu(gpu, mig=1)
            for number in range(INSTANCES):
                scenario.instance(gpu, number + 7, "1g.10gb", sms=16)
        with on(scenario, GPUS * INSTANCES) as running:
            return settled(running, devices=GPUS * INSTANCES)


def of(subject: str, seen: Counter[str]) -> int:
    """The series of one subject, by how the names of its metrics begin."""
    return sum(count for metric, count in seen.items() if metric.startswith(subject))


def per_job() -> float:
    """The series of a job on a node."""
    return of("ofu_job", busy(JOBS)) / JOBS


def table() -> str:
    """The numbers of series, as Markdown."""
    nothing, one, report, mig = idle(), busy(1), reporting(1), divided()
    rows = [
        (f"an idle node of {GPUS} GPUs", nothing.total()),
        ("of these: each GPU", of("ofu_gpu", nothing) / GPUS),
        ("each model and rating", of("ofu_model", nothing)),
        ("the agent and Slurm", of("ofu_exporter", nothing)),
        ("its process", of("process", nothing)),
        (f"the node while one job has all {GPUS} GPUs", one.total()),
        ("each job, on each of its nodes", per_job()),
        (
            "each job's reports, on each node that they come to",
            of("ofu_job", report) - of("ofu_job", one),
        ),
        (f"the node while {GPUS} jobs have a GPU each", busy(GPUS).total()),
        (f"the node while {GPUS} jobs have a GPU each and report", reporting(GPUS).total()),
        (f"an idle node of {GPUS} GPUs in {INSTANCES} MIG instances each", mig.total()),
        ("of these: each instance", of("ofu_gpu", mig) / (GPUS * INSTANCES)),
    ]
    lines = [f"| {name} | {count:g} |" for name, count in rows]
    return "\n".join(["| | series |", "|---|---:|", *lines])


if __name__ == "__main__":
    print(table())
