"""Reads what the engines of serving jobs served, hour by hour, with the energy and GPU-hours of the same hours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ofu_exporter.fleet.history import queries
from ofu_exporter.fleet.history.answers import HistoryAnswers, job_of
from ofu_exporter.fleet.history.fleet_history import ClusterJob, FleetHistory
from ofu_exporter.fleet.history.queries import JOB, LOOKS, WITHIN, Quantity, over_nodes
from ofu_exporter.fleet.history.served_sums import ServedSums

_KINDS = f"{JOB}, served_model, kind"
_LAST_HOUR = "increase1h[59m59s999ms]"
TOKENS = Quantity(
    "tokens",
    f"max by ({_KINDS}) (last_over_time(job:tokens:{_LAST_HOUR}))",
    over_nodes("increase(ofu_job_tokens_total{CLUSTER}[1h])", _KINDS),
    counter="ofu_job_tokens_total",
)
"""Tokens of an hour, each once."""


def _of_jobs(name: str, counter: str, unit: float = 3600.0) -> Quantity:
    return Quantity(
        name,
        f"max by ({JOB}) (last_over_time(job:{name}:{_LAST_HOUR}))",
        f"{over_nodes(f'increase({counter}{{CLUSTER}}[1h])')} / {unit:g}",
    )


_WATTS = over_nodes("rate(ofu_job_energy_joules_total{CLUSTER}[5m])")
_COMPUTED = over_nodes('rate(ofu_job_tokens_total{kind!="cached",CLUSTER}[5m])')
_RUNNING = f"max by ({JOB}) (max_over_time(ofu_job_requests_running{{CLUSTER}}[5m]))"
IDLE = Quantity(
    "idle_engine_joules",
    f"max by ({JOB}) (last_over_time(job:idle_engine_joules:{_LAST_HOUR}))",
    f"3600 * sum_over_time(({_WATTS} and on ({JOB}) {_RUNNING} == 0 and on ({JOB}) {_COMPUTED} == 0){WITHIN})"
    f" / {LOOKS}",
)
"""Energy of a serving job's measured GPUs in looks before which no request was seen to run and no token came for five
minutes; none while nobody can see that."""
BESIDE = (
    _of_jobs("held_gpu_hours", "ofu_job_held_gpu_seconds_total"),
    _of_jobs("energy_joules", "ofu_job_energy_joules_total", 1.0),
    IDLE,
    _of_jobs("memory_busy_gpu_hours", "ofu_job_memory_busy_seconds_total"),
    _of_jobs("memory_gpu_hours", "ofu_job_memory_gpu_seconds_total"),
)
"""What stands beside tokens, in the order of `_Hour`."""
ROLES = Quantity(
    "roles",
    f"max by ({JOB}, role) (last_over_time(job:engines:max1h[59m59s999ms]))",
    f"max by ({JOB}, role) (max_over_time(ofu_job_engines{{CLUSTER}}[1h]))",
)
MOST_NAMED = 300
"""Serving jobs up to which a server is asked for these alone."""


class _Hour(NamedTuple):
    """What is known of a job in an hour; None where the server has nothing."""

    held: float | None = None
    joules: float | None = None
    idle_joules: float | None = None
    memory_busy: float | None = None
    memory: float | None = None


def read_served(history: FleetHistory, answers: Callable[[str], HistoryAnswers]) -> None:
    """Add what jobs served to the history. `answers` asks the server about the jobs that a matcher selects."""
    tokens = _tokens(answers(""))
    if not tokens:
        return
    ids = {key.job_id for key, _ in tokens}
    asked = answers(queries.any_of("job_id", ids) if len(ids) <= MOST_NAMED else "")
    beside = _beside(asked)
    for (key, hour), counts in sorted(tokens.items()):
        at = beside.get(key, {}).get(hour, _Hour())
        job = history.jobs.get(history.owned(key, hour))
        if job is not None:
            job.served = job.served or ServedSums()
            job.served.add_hour(counts, at.held, at.joules)
            job.served.add_rest(at.idle_joules, at.memory_busy, at.memory)
    _read_roles(history, asked)


def _tokens(asked: HistoryAnswers) -> dict[tuple[ClusterJob, int], dict[tuple[str, str], float]]:
    """By job and hour, and by served model and kind."""
    tokens: dict[tuple[ClusterJob, int], dict[tuple[str, str], float]] = {}
    for answer in asked.either(TOKENS):
        for (cluster, job_id, *kind), hours in asked.largest(answer, _kind_of).items():
            model, name = kind
            for hour, count in hours.items():
                tokens.setdefault((ClusterJob(cluster, job_id), hour), {})[model, name] = count
    return tokens


def _read_roles(history: FleetHistory, asked: HistoryAnswers) -> None:
    for answer in asked.either(ROLES):
        for (cluster, job_id, role), hours in asked.largest(answer, _role_of).items():
            for hour in hours:
                job = history.jobs.get(history.owned(ClusterJob(cluster, job_id), hour))
                if job is not None and job.served is not None:
                    job.served.roles.add(role)


def _beside(asked: HistoryAnswers) -> Mapping[ClusterJob, dict[int, _Hour]]:
    by_job: dict[ClusterJob, dict[int, _Hour]] = {}
    for answers in asked.together("serving jobs", BESIDE):
        of_quantities: Sequence[Mapping[ClusterJob, Mapping[int, float]]] = [
            asked.largest(answer, job_of) for answer in answers
        ]
        for name, of_jobs in zip(_Hour._fields, of_quantities, strict=True):
            for key, hours in of_jobs.items():
                by_hour = by_job.setdefault(key, {})
                for hour, value in hours.items():
                    by_hour[hour] = by_hour.get(hour, _Hour())._replace(**{name: value})
    return by_job


def _kind_of(labels: Mapping[str, str]) -> tuple[str, str, str, str]:
    return (*job_of(labels)[:2], labels.get("served_model", ""), labels.get("kind", ""))


def _role_of(labels: Mapping[str, str]) -> tuple[str, str, str]:
    return (*job_of(labels)[:2], labels.get("role", ""))
