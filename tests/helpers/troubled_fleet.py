"""Half a day of a small fleet to which everything happens that a fleet meets: what two engines are held against.

Jobs end and begin within minutes, an agent restarts without a state file, a node vanishes with its job, and a GPU is
busy without one. Scrapes come some seconds after the minutes at which rules are evaluated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.helpers.stored_fleet import (
    BEGIN,
    HOUR,
    SCRAPE,
    Put,
    ScheduledJob,
    StoredNode,
    labelled,
    openmetrics,
    put_job,
    put_node,
    runs,
    seconds_of,
)

HOURS = 12
END = BEGIN + HOURS * HOUR
LATE = 7.0
"""Seconds after the minute of a scrape."""
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
N1, N2 = (StoredNode("a", f"n{each}:9846", H100, 4) for each in (1, 2))
RESTARTED = StoredNode("a", "n3:9846", H100, 4)
RESTART = BEGIN + 6.5 * HOUR
"""When its agent forgot all totals."""
GONE = StoredNode("b", "m1:9846", A100, 4, away=(9.0, 100.0))
FREE = StoredNode("b", "m2:9846", A100, 4, alone=(0.3,))
"""No job has it, and one of its GPUs is busy all the same."""
IDLING = StoredNode("b", "m3:9846", A100, 4)
NODES = (N1, N2, RESTARTED, GONE, FREE, IDLING)
LONG = ScheduledJob(
    *("1", "alice", (N1,), 1, 11, 0.42, 0.40),
    verdict="agree",
    framework="nemo",
    finding="host_bound",
)
OVER = ScheduledJob(
    "2", "bob", (RESTARTED,), 2, 10.1, 0.2, 0.5, verdict="mfu_above_ofu", cause="sparse_peak"
)
LEFT = ScheduledJob("1", "dave", (GONE,), 3, 12, 0.3, 0.28, measured=0.5, verdict="agree")
IDLE = ScheduledJob("3", "eve", (IDLING,), 1.5, 9, 0.0)
SHORT = tuple(
    ScheduledJob(f"1{number}", "carol", (N2,), 0.6 + 0.8 * number, 1.1 + 0.8 * number, 0.45)
    for number in range(13)
)
"""Half an hour each, with 18 minutes between them."""
SERVED = {LONG: 1000.0, IDLE: 0.0}
"""Jobs whose engines are pulled, and the tokens that they generate in a second."""
STANDS = (BEGIN + 4 * HOUR, BEGIN + 5 * HOUR)
"""When the first GPU of OVER stands, and the others wait for it."""
LOST_PROGRESS = {"starting": 0.04, "done_again": 0.12, "evaluation": 0.05, "checkpoint": 0.02}
"""Shares of the time of LONG and OVER that agents say were no progress."""
JOBS = (LONG, OVER, LEFT, IDLE, *SHORT)


def job_now(jobs: Iterable[ScheduledJob], time: float) -> ScheduledJob | None:
    return next((job for job in jobs if runs(job, time)), None)


def pages(nodes: Iterable[StoredNode] = NODES, jobs: Iterable[ScheduledJob] = JOBS) -> str:
    """All scrapes, as OpenMetrics: family by family."""
    families: dict[str, list[str]] = defaultdict(list)
    times = [BEGIN + LATE + SCRAPE * step for step in range(round(HOURS * HOUR / SCRAPE))]

    def put(name: str, labels: str, points: Iterable[tuple[float, float]]) -> None:
        shown = list(points)
        if name.endswith("_total") and RESTARTED.name in labels:
            shown = list(_forgotten(shown))
        families[name] += [f"{name}{labels} {value!r} {time:.3f}" for time, value in shown]

    every = list(jobs)
    for node in nodes:
        seen = [time for time in times if not node.is_away(time)]
        mine = [job for job in every if node in job.nodes]
        put_node(put, node, mine, seen)
        _put_more(put, node, mine, seen)
        for job in mine:
            put_job(put, job, node, seen)
            _put_parts(put, job, node, seen)
            if job in SERVED:
                _put_serving(put, job, node, seen)
    return openmetrics(families)


def _forgotten(points: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """The points of a counter that begins anew at RESTART."""
    before = max((value for time, value in points if time <= RESTART), default=0.0)
    return ((time, value - before if time > RESTART else value) for time, value in points)


def _started(node: StoredNode, times: list[float]) -> Iterator[tuple[float, float]]:
    """When the agent was started: of FREE twice more in its first hour."""
    starts = {RESTARTED: [RESTART], FREE: [BEGIN + 1200, BEGIN + 2400]}.get(node, [])
    return ((t, max([BEGIN - 600, *(each for each in starts if each < t)]) + 0.25) for t in times)


def _put_more(put: Put, node: StoredNode, jobs: list[ScheduledJob], times: list[float]) -> None:
    """Clock and activity of its GPUs, and what the agent says of itself."""
    where = {"cluster": node.cluster, "instance": node.name}
    put("process_start_time_seconds", labelled(**where, job="ofu-exporter"), _started(node, times))
    refused = ((t, (t - BEGIN) // 600) for t in times)
    put("ofu_exporter_rejected_reports_total", labelled(**where, reason="overlap"), refused)
    put("up", labelled(**where, job="ofu-exporter"), ((t, 1.0) for t in times))
    for gpu in range(node.gpus):
        which = labelled(**where, gpu=str(gpu), uuid=f"GPU-{node.name}-{gpu}")
        active = []
        for time in times:
            job = job_now(jobs, time)
            active.append((time, 1.25 * (job.ofu_of(gpu) if job else node.alone_of(gpu))))
        if node == IDLING:
            put(
                "ofu_gpu_unavailable",
                which.replace("}", ',reason="lost"}'),
                ((t, 1.0) for t in times[60:90]),
            )
        idle = ((t, _idle_seconds(node, gpu, jobs, t)) for t in times)
        put("ofu_gpu_lost_seconds_total", which.replace("}", ',part="idle"}'), idle)
        put("ofu_gpu_sm_clock_hertz", which, ((t, 1.5e9) for t in times))
        put("ofu_gpu_tensor_active_ratio", which, active)


def _idle_seconds(node: StoredNode, gpu: int, jobs: list[ScheduledJob], time: float) -> float:
    """A GPU runs no kernel without a job, and in a quarter of the time with one that works."""
    busy = sum(0.75 * seconds_of(job, time) for job in jobs if job.ofu)
    if node == RESTARTED and gpu == 0:
        busy -= 0.75 * max(0.0, min(time, STANDS[1]) - STANDS[0])
    return time - BEGIN - busy


def _put_parts(put: Put, job: ScheduledJob, node: StoredNode, times: list[float]) -> None:
    """Where the peak of a job went, its energy, and its reports."""
    shown = [time for time in times if runs(job, time, 300)]
    gpus = node.gpus * job.measured
    used = sum(job.ofu_of(gpu) for gpu in range(node.gpus)) * job.measured
    for part, share in (("no_tensor", 0.75), ("idle", 0.25)):
        lost = ((t, share * (gpus - used) * seconds_of(job, t)) for t in shown)
        put("ofu_job_lost_seconds_total", job.labels(node, part=part), lost)
    put("ofu_job_gained_seconds_total", job.labels(node), ((t, 0.0) for t in shown))
    energy = ((t, 500.0 * gpus * seconds_of(job, t)) for t in shown)
    put("ofu_job_energy_joules_total", job.labels(node), energy)
    if job in (LONG, OVER):
        put("ofu_job_step", job.labels(node), ((t, seconds_of(job, t) // 20) for t in shown))
        put("ofu_job_restarts_total", job.labels(node), ((t, (t - BEGIN) // 8000) for t in shown))
        for reason, share in LOST_PROGRESS.items():
            seconds = ((t, share * node.gpus * seconds_of(job, t)) for t in shown)
            put("ofu_job_lost_progress_gpu_seconds_total", job.labels(node, reason=reason), seconds)
    if job.mfu is not None:
        count = ((t, float(seconds_of(job, t) // 30)) for t in shown)
        put("ofu_job_report_timestamp_seconds", job.labels(node), ((t, t - 9.0) for t in shown))
        put("ofu_job_reports_total", job.labels(node, outcome="accepted"), count)


def _put_serving(put: Put, job: ScheduledJob, node: StoredNode, times: list[float]) -> None:
    """What its engines served, and how busy the memory was."""
    shown = [time for time in times if runs(job, time, 300)]
    tokens = ((t, SERVED[job] * seconds_of(job, t)) for t in shown)
    put("ofu_job_tokens_total", job.labels(node, served_model="m", kind="generation"), tokens)
    running = ((t, 3.0 if SERVED[job] and runs(job, t) else 0.0) for t in shown)
    put("ofu_job_requests_running", job.labels(node, served_model="m"), running)
    put("ofu_job_engines", job.labels(node, role="decode"), ((t, 1.0) for t in shown))
    for name, share in (("busy", 0.6), ("gpu", 1.0)):
        seconds = ((t, share * node.gpus * seconds_of(job, t)) for t in shown)
        put(f"ofu_job_memory_{name}_seconds_total", job.labels(node), seconds)
