"""The pages of a small fleet in which one GPU has a lower clock, another does less, and all else is alike.

Another fleet is of one node: a job there begins on a small MIG instance and gets a large one, with a lower clock.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.helpers.stored_fleet import BEGIN, HOUR, SCRAPE, labelled, openmetrics

NODES, GPUS = 5, 4
JOBS = {"1": (0.0, 9.0), "2": (10.0, 20.0)}
"""Begin and end of two jobs on all nodes, in hours."""
HOURS = 20
LAGGARD = ("n2", 1)
"""All others wait for it: its clock is a fifth lower, it is active for longer, and its OFU is that of the others."""
SHIRKER = ("n4", 3)
"""Does a quarter less than the others."""
CLOCK_HZ = 1.755e9
OFU = 0.36


def pages() -> str:
    """All scrapes of all nodes, as OpenMetrics: family by family."""
    families: dict[str, list[str]] = {}
    for name, labels, step, value in _samples():
        time = BEGIN + SCRAPE * step
        families.setdefault(name, []).append(f"{name}{labels} {value!r} {time:.3f}")
    return openmetrics(families)


def job_at(hours: float) -> str | None:
    return next((job for job, (begin, end) in JOBS.items() if begin <= hours <= end), None)


def _samples() -> Iterator[tuple[str, str, int, float]]:
    for node in range(1, NODES + 1):
        yield from _of_node(f"n{node}")
        for gpu in range(GPUS):
            yield from _of_gpu(f"n{node}", gpu)


def _steps() -> range:
    return range(round(HOURS * HOUR / SCRAPE) + 1)


def _of_node(node: str) -> Iterator[tuple[str, str, int, float]]:
    where = {"cluster": "c", "instance": node}
    for step in _steps():
        yield "ofu_exporter_build_info", labelled(**where, version="1"), step, 1.0
        job = job_at(SCRAPE * step / HOUR)
        if job is not None:
            labels = labelled(**where, job_id=job)
            names = labelled(**where, job_id=job, job_name="train", user="ana")
            begin = JOBS[job][0] * HOUR
            yield "ofu_job_info", names, step, 1.0
            for name, weight in (("held_gpu", 1.0), ("gpu", 1.0), ("utilization", OFU)):
                seconds = GPUS * weight * (SCRAPE * step - begin)
                yield f"ofu_job_{name}_seconds_total", labels, step, seconds


def _of_gpu(node: str, gpu: int) -> Iterator[tuple[str, str, int, float]]:
    labels = {"cluster": "c", "instance": node, "gpu": str(gpu), "uuid": f"GPU-{node}-{gpu}"}
    clock = CLOCK_HZ * (0.8 if (node, gpu) == LAGGARD else 1.0)
    ofu = OFU * (0.75 if (node, gpu) == SHIRKER else 1.0)
    seconds = 0.0
    for step in _steps():
        job = job_at(SCRAPE * step / HOUR)
        seconds += ofu * SCRAPE if job is not None and step else 0.0
        own = labelled(**labels)
        held = {} if job is None else {"job_id": job}
        yield "ofu_gpu_info", labelled(**labels, model="H100", **held), step, 1.0
        yield "ofu_gpu_observed_seconds_total", own, step, SCRAPE * step
        yield "ofu_gpu_utilization_seconds_total", own, step, seconds
        yield "ofu_gpu_sm_clock_hertz", own, step, clock
        active = ofu * 1.83e9 / clock if job is not None else 0.0
        yield "ofu_gpu_tensor_active_ratio", own, step, active


GROWS, PARTED_HOURS = 2.0, 6
"""Hours after which the job has both instances, and of the pages."""
PARTED = {"1": (1 / 7, 0.2, 1.0, 0.0), "2": (4 / 7, 0.8, 0.5, GROWS)}
"""Instances: share of the GPU, activity, SM clock / tensor clock, and from which hour on the job has it."""


def parted_sums(end: float) -> tuple[float, float, float]:
    """GPU-hours of that job until an hour: measured, in activity, at the full peak."""
    hours = {each: max(0.0, end - PARTED[each][3]) for each in PARTED}
    measured = {each: share * hours[each] for each, (share, *_) in PARTED.items()}
    active = {each: measured[each] * PARTED[each][1] for each in PARTED}
    return (
        sum(measured.values()),
        sum(active.values()),
        sum(active[each] * PARTED[each][2] for each in PARTED),
    )


def parted_pages() -> str:
    """All scrapes of the node with two instances, as OpenMetrics."""
    where, families = {"cluster": "c", "instance": "m1"}, dict[str, list[str]]()

    def put(name: str, labels: dict[str, str], hours: float, value: float) -> None:
        line = f"{name}{labelled(**where, **labels)} {value!r} {BEGIN + HOUR * hours:.3f}"
        families.setdefault(name, []).append(line)

    steps = [SCRAPE * step / HOUR for step in range(round(PARTED_HOURS * HOUR / SCRAPE) + 1)]
    job = {"job_id": "1"}
    for at in steps:
        put("ofu_exporter_build_info", {}, at, 1.0)
        put("ofu_job_info", {**job, "job_name": "train", "user": "ana"}, at, 1.0)
        measured, _, utilized = parted_sums(at)
        for name, hours in (("held_gpu", measured), ("gpu", measured), ("utilization", utilized)):
            put(f"ofu_job_{name}_seconds_total", job, at, HOUR * hours)
    for number, (share, active, clock, since) in PARTED.items():
        gpu = {"gpu": "0", "uuid": "GPU-0", "gpu_instance": number}
        for at in steps:
            worked = max(0.0, at - since) * active * clock
            has = job if at >= since else {}
            put("ofu_gpu_info", {**gpu, "model": "H100", **has}, at, 1.0)
            put("ofu_gpu_instance_share_ratio", gpu, at, share)
            put("ofu_gpu_tensor_active_ratio", gpu, at, active if at >= since else 0.0)
            put("ofu_gpu_observed_seconds_total", gpu, at, HOUR * share * at)
            put("ofu_gpu_utilization_seconds_total", gpu, at, HOUR * share * worked)
    return openmetrics(families)
