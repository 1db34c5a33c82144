"""Two clusters with the same node names, shared GPUs, MIG and jobs across midnight, with the true sums of it.

Pages and truth are made from one schedule: who had which GPU from when to when, and what it did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.helpers.stored_fleet import HOUR, labelled, openmetrics

Put = Callable[[str, dict[str, str], Iterable[tuple[float, float]]], None]

BEGIN = 1767571200.0 + 18 * HOUR + 17 * 60
"""2026-01-05 18:17 UTC: the hours of the rules end at 17 minutes past."""
HOURS = 14
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
SCRAPE = 60.0


class Job(NamedTuple):
    cluster: str
    job_id: str
    user: str
    account: str
    partition: str
    mfu: float | None = None

    @property
    def names(self) -> dict[str, str]:
        return {
            "job_name": f"train-{self.user}",
            "user": self.user,
            "account": self.account,
            "partition": self.partition,
        }


class Stretch(NamedTuple):
    """What a GPU did for some time, hours after BEGIN."""

    begin: float
    end: float
    jobs: tuple[Job, ...]
    ofu: float

    def within(self, start: float, end: float) -> float:
        """Seconds between two times that it lasted."""
        return max(0.0, min(end, BEGIN + self.end * HOUR) - max(start, BEGIN + self.begin * HOUR))


class Unit(NamedTuple):
    """A GPU, or an instance of one."""

    cluster: str
    node: str
    gpu: int
    model: str
    stretches: tuple[Stretch, ...]
    instance: str = ""
    share: float = 1.0

    @property
    def labels(self) -> dict[str, str]:
        where = {"cluster": self.cluster, "instance": self.node, "gpu": str(self.gpu)}
        return {
            **where,
            "uuid": f"GPU-{self.cluster}-{self.node}-{self.gpu}",
            "gpu_instance": self.instance,
        }


A1 = Job("a", "1", "ada", "bio", "batch", 0.55)
A2 = Job("a", "2", "bob", "chem", "batch")
A3 = Job("a", "3", "ada", "chem", "debug")
A4 = Job("a", "4", "cyd", "bio", "debug")
A5 = Job("a", "5", "bob", "bio", "batch", 0.3)
B1 = Job("b", "1", "ada", "bio", "batch")
B2 = Job("b", "2", "eve", "phys", "batch", 0.2)
JOBS = (A1, A2, A3, A4, A5, B1, B2)


def units() -> Iterator[Unit]:
    for gpu in range(4):  # a job on two nodes from 0:30 to 9:30, across midnight; then a short one
        yield Unit(
            "a", "n1", gpu, H100, (Stretch(0.5, 9.5, (A1,), 0.4), Stretch(9.5, 10.0, (A5,), 0.3))
        )
        if gpu < 2:
            yield Unit(
                "a",
                "n2",
                gpu,
                H100,
                (Stretch(0.5, 9.5, (A1,), 0.2), Stretch(10.5, 13.0, (A5,), 0.25)),
            )
    yield Unit(
        "a",
        "n2",
        2,
        H100,
        (
            Stretch(1.5, 6.0, (A2,), 0.1),
            Stretch(6.0, 8.5, (A2, A3), 0.6),
            Stretch(8.5, 12.0, (A3,), 0.5),
        ),
    )
    yield Unit("a", "n2", 3, H100, (Stretch(3.0, 7.5, (A2,), 0.0), Stretch(8.0, 11.0, (), 0.35)))
    yield Unit("a", "n3", 0, A100, (Stretch(2.5, 8.5, (A4,), 0.3),), "1", 3 / 7)
    yield Unit("a", "n3", 0, A100, (Stretch(4.5, 5.5, (A5,), 0.5),), "2", 4 / 7)
    for gpu in range(2):
        yield Unit("b", "n1", gpu, H100, (Stretch(1.0, 13.5, (B1,), 0.45),))
    for gpu in range(4):
        yield Unit("b", "n2", gpu, A100, (Stretch(4.5, 7.0, (B2,), 0.15 + 0.05 * gpu),))


UNITS = tuple(units())


@dataclass
class Sums:
    """GPU-hours."""

    held: float = 0.0
    observed: float = 0.0
    used: float = 0.0
    compared: float = 0.0
    compared_mfu: float = 0.0
    compared_used: float = 0.0


def truth(start: float, end: float, of: Callable[[Job], str]) -> dict[str, Sums]:
    """What jobs had between two times, by what they have in common. What two share, each has half of, not measured."""
    found: dict[str, Sums] = defaultdict(Sums)
    for unit in UNITS:
        for each in unit.stretches:
            hours = each.within(start, end) / HOUR * unit.share
            for job in each.jobs if hours else ():
                sums = found[of(job)]
                sums.held += hours / len(each.jobs)
                if len(each.jobs) == 1:
                    sums.observed += hours
                    sums.used += hours * each.ofu
                    if job.mfu is not None:
                        sums.compared += hours
                        sums.compared_mfu += hours * job.mfu
                        sums.compared_used += hours * each.ofu
    return found


def of_gpus(start: float, end: float) -> Sums:
    """What all GPUs had and did, whoever held them."""
    found = Sums()
    for unit in UNITS:
        found.observed += unit.share * (end - start) / HOUR
        used = (each.within(start, end) * each.ofu for each in unit.stretches)
        found.used += sum(used) * unit.share / HOUR
    return found


def pages() -> str:
    families: dict[str, list[str]] = defaultdict(list)
    times = [BEGIN - 600 + SCRAPE * n for n in range(int(HOURS * HOUR / SCRAPE) + 11)]

    def put(name: str, labels: dict[str, str], points: Iterable[tuple[float, float]]) -> None:
        text = labelled(**labels)
        families[name] += [f"{name}{text} {value!r} {time:.3f}" for time, value in points]

    for cluster, node in sorted({(unit.cluster, unit.node) for unit in UNITS}):
        where = {"cluster": cluster, "instance": node}
        put("ofu_exporter_build_info", {**where, "version": "1"}, ((t, 1.0) for t in times))
        put("ofu_exporter_simulated", where, ((t, 0.0) for t in times))
        for job in JOBS:
            if job.cluster == cluster:
                put_job(put, (cluster, node), job, times)
    for unit in UNITS:
        put_unit(put, unit, times)
    return openmetrics(families)


def put_unit(put: Put, unit: Unit, times: Sequence[float]) -> None:
    start, labels = times[0], unit.labels

    def grown(weight: Callable[[Stretch], float]) -> list[tuple[float, float]]:
        at = [
            (t, sum(weight(each) * each.within(start, t) for each in unit.stretches)) for t in times
        ]
        return [(t, unit.share * value) for t, value in at]

    put("ofu_gpu_observed_seconds_total", labels, ((t, unit.share * (t - start)) for t in times))
    put("ofu_gpu_utilization_seconds_total", labels, grown(lambda each: each.ofu))
    if unit.instance:
        put("ofu_gpu_instance_share_ratio", labels, ((t, unit.share) for t in times))
    owners: dict[str, list[tuple[float, float]]] = defaultdict(list)
    shared: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for t in times:
        jobs = next((s.jobs for s in unit.stretches if s.begin <= (t - BEGIN) / HOUR < s.end), ())
        owners[jobs[0].job_id if len(jobs) == 1 else ""].append((t, 1.0))
        for job in jobs if len(jobs) > 1 else ():
            shared[job.job_id].append((t, 1.0))
    for job_id, points in owners.items():
        put("ofu_gpu_info", {**labels, "model": unit.model, "job_id": job_id}, points)
    for job_id, points in shared.items():
        put("ofu_gpu_shared", {**labels, "job_id": job_id}, points)


def put_job(put: Put, place: tuple[str, str], job: Job, times: Sequence[float]) -> None:
    """The job's totals on a node, which are served for five minutes after it left."""
    its = [
        (unit.share, each)
        for unit in UNITS
        for each in unit.stretches
        if (unit.cluster, unit.node) == place and job in each.jobs
    ]
    if not its:
        return
    first, last = min(each.begin for _, each in its), max(each.end for _, each in its)
    shown = [t for t in times if BEGIN + first * HOUR <= t <= BEGIN + last * HOUR + 300]
    labels = {"cluster": place[0], "instance": place[1], "job_id": job.job_id}
    put("ofu_job_info", {**labels, **job.names}, ((t, 1.0) for t in shown))

    def total(name: str, weight: Callable[[Stretch], float]) -> None:
        at = [
            (t, sum(share * weight(s) * s.within(times[0], t) for share, s in its)) for t in shown
        ]
        put(f"ofu_job_{name}_seconds_total", labels, at)

    total("held_gpu", lambda each: 1 / len(each.jobs))
    total("gpu", lambda each: float(len(each.jobs) == 1))
    total("utilization", lambda each: each.ofu * (len(each.jobs) == 1))
    if (mfu := job.mfu) is not None:
        total("compared_gpu", lambda each: float(len(each.jobs) == 1))
        total("compared_mfu", lambda each: mfu * (len(each.jobs) == 1))
        total("compared_utilization", lambda each: each.ofu * (len(each.jobs) == 1))
