"""A day of three clusters in which every counter grows steadily, so that engines that read ranges differently agree.

Prometheus 2 counts the sample at the begin of a range and extrapolates a rate to its ends; VictoriaMetrics does not.
They agree where no scrape is at the end of a range, where a counter grows evenly, where a gauge has the same mean in
every quarter of an hour, and where a cluster's OFU is always the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.helpers.stored_fleet import HOUR, labelled, openmetrics

HOURS = 27
SCRAPE = 60
LATE = 7
"""Seconds by which a scrape comes after the minute at which rules are evaluated."""
QUARTER = 900
GPUS = 2


class SteadyJob(NamedTuple):
    """A job that has all GPUs of its nodes, from an hour on to the end."""

    job_id: str
    cluster: str
    nodes: tuple[str, ...]
    ofu: float
    mfu: float
    begin: int = 0

    @property
    def names(self) -> dict[str, str]:
        return {
            "job_name": f"train-{self.job_id}",
            "user": f"user{self.job_id}",
            "account": f"account-{self.cluster}",
            "partition": "batch",
            "namespace": "research",
            "scheduler": "slurm",
        }


JOBS = (
    SteadyJob("7", "east", ("n1", "n2", "n3"), 0.375, 0.36),
    SteadyJob("8", "east", ("n4",), 0.0, 0.01),
    SteadyJob("7", "west", ("n5", "n6"), 0.25, 0.5),
    SteadyJob("9", "north", ("n7", "n8"), 0.5, 0.46, begin=14),
)
"""One id in two clusters, a job that does nothing, and one that is younger than a day."""
NODES = {node: job.cluster for job in JOBS for node in job.nodes}
CLUSTERS = tuple(dict.fromkeys(job.cluster for job in JOBS))
MODELS = dict(
    zip(CLUSTERS, ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA H200"), strict=True)
)
Sample = tuple[str, str, int, float]
"""A name, labels, a second and a value."""


def pages(begin: float, nodes: Iterable[str] = tuple(NODES), with_cluster: bool = True) -> str:
    """What scrapes of some nodes bring from a time on, as OpenMetrics: family by family."""
    chosen = frozenset(nodes)
    families: dict[str, list[str]] = {}
    for name, labels, second, value in _scraped(chosen, with_cluster):
        line = f"{name}{labels} {value!r} {begin + second:.0f}"
        families.setdefault(name, []).append(line)
    return openmetrics(families)


def _scraped(nodes: frozenset[str], with_cluster: bool) -> Iterator[Sample]:
    for job in JOBS:
        for node in sorted(nodes.intersection(job.nodes)):
            here = {"instance": node, **({"cluster": job.cluster} if with_cluster else {})}
            for gpu in range(GPUS):
                yield from _of_gpu(job, here, gpu)
            yield from _totals(job, here)


SECONDS = range(LATE, round(HOURS * HOUR) + 1, SCRAPE)


def _of_gpu(job: SteadyJob, here: dict[str, str], gpu: int) -> Iterator[Sample]:
    which = {**here, "gpu": str(gpu), "uuid": f"GPU-{here['instance']}-{gpu}"}
    device, clock = labelled(**which), clock_hz(here["instance"], gpu)
    idle = labelled(**which, part="idle")
    without_job = labelled(**which, model=MODELS[job.cluster])
    with_job = labelled(**which, model=MODELS[job.cluster], job_id=job.job_id)
    for second in SECONDS:
        ran = max(second - job.begin * HOUR, 0.0)
        turn = math.sin(2 * math.pi * (second - LATE) / QUARTER)
        yield "ofu_gpu_info", with_job if ran else without_job, second, 1.0
        yield "ofu_gpu_observed_seconds_total", device, second, float(second)
        yield "ofu_gpu_utilization_seconds_total", device, second, job.ofu * ran
        yield "ofu_gpu_idle_energy_joules_total", device, second, 20.0 * ran
        yield "ofu_gpu_lost_seconds_total", idle, second, ran * (0.25 if job.ofu else 1.0)
        yield "ofu_gpu_sm_clock_hertz", device, second, clock + 1e8 * turn
        yield "ofu_gpu_tensor_active_ratio", device, second, job.ofu * (1.25 + 0.1 * turn)


def clock_hz(node: str, gpu: int) -> float:
    """The mean SM clock of a GPU."""
    return 1.5e9 + 1e6 * (10 * int(node[1:]) + gpu)


def _totals(job: SteadyJob, here: dict[str, str]) -> Iterator[Sample]:
    own, names = (labelled(**here, job_id=job.job_id, **more) for more in ({}, job.names))
    grown = {
        "held_gpu": 1.0,
        "gpu": 1.0,
        "utilization": job.ofu,
        "compared_gpu": 1.0,
        "compared_mfu": job.mfu,
        "compared_utilization": job.ofu,
    }
    lost = [
        (labelled(**here, job_id=job.job_id, part=part), share * (1 - job.ofu))
        for part, share in (("no_tensor", 0.75), ("idle", 0.25))
    ]
    no_progress = [
        (labelled(**here, job_id=job.job_id, reason=reason), share)
        for reason, share in (("starting", 0.0), ("done_again", 0.1), ("checkpoint", 0.05))
    ]
    for second in SECONDS:
        ran = second - job.begin * HOUR
        if ran < 0:
            continue
        yield "ofu_job_info", names, second, 1.0
        for name, share in grown.items():
            yield f"ofu_job_{name}_seconds_total", own, second, share * GPUS * ran
        for labels, share in lost:
            yield "ofu_job_lost_seconds_total", labels, second, share * GPUS * ran
        for labels, share in no_progress:
            seconds = share * GPUS * ran
            yield "ofu_job_lost_progress_gpu_seconds_total", labels, second, seconds
        yield "ofu_job_step", own, second, float(ran // 10)
        yield "ofu_job_restarts_total", own, second, 0.0
        yield "ofu_job_gained_seconds_total", own, second, 0.0
        yield "ofu_job_energy_joules_total", own, second, 500.0 * GPUS * ran
