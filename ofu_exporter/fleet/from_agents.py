"""Makes the report from what agents themselves hold: their jobs' totals, without any history of hours."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ofu_exporter.fleet.actions import first_actions
from ofu_exporter.fleet.chunks import ChunkReader, MissingChunk
from ofu_exporter.fleet.history.fleet_history import (
    ClusterJob,
    FleetHistory,
    JobHistory,
    JobSums,
    ModelSums,
)
from ofu_exporter.fleet.history.queries import NAMES
from ofu_exporter.fleet.history.served_sums import ServedSums
from ofu_exporter.fleet.history_server import HistoryServer
from ofu_exporter.fleet.hours import DAY, HOUR, ServerClock, TimeSpan
from ofu_exporter.fleet.reports.fleet_report import ReportOptions, fleet_report
from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.periods import with_periods
from ofu_exporter.fleet.reports.result import AGENTS, FleetReport
from ofu_exporter.jobs.gather import ask_for_all
from ofu_exporter.jobs.hosts import Host
from ofu_exporter.jobs.reported_mfu import ReportedMfu
from ofu_exporter.jobs.state_writer import MOST_TOLD
from ofu_exporter.jobs.totals import JobTotals, merged
from ofu_exporter.reports.agent_access import AgentAccess
from ofu_exporter.serving.node_json import IDLE_RATIO, GpuJson
from ofu_exporter.serving.node_reader import read_node
from ofu_exporter.support.bounded_get import NoAnswerError

AT_ONCE = 32
"""Agents that are asked at once."""
LONGEST = 366 * DAY
"""Seconds for which a job may have run."""
LEAST_FREE_SECONDS = 2.0
"""Two answers of an agent are a moment apart: less between them is no time without a job."""
IDLE_STEP = 0
"""Of the distribution of windows: an OFU below a quarter of a point."""


class AgentJobs(NamedTuple):
    """What one agent says."""

    host: str
    jobs: Sequence[JobTotals]
    gpus: Sequence[GpuJson] = ()
    why: str = ""
    """Why it said nothing."""


def ask_agents(hosts: Sequence[Host]) -> list[AgentJobs]:
    """What each says; one that says nothing is told with the reason. Raises ConfigError."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_asked, hosts))


def _asked(host: Host) -> AgentJobs:
    try:
        node = read_node(host.url)
    except NoAnswerError as error:
        return AgentJobs(host.name, (), why=str(error))
    jobs = ask_for_all(host.url, AgentAccess(os.environ), ended=True)
    if isinstance(jobs, str):
        return AgentJobs(host.name, (), node.gpus, jobs)
    return AgentJobs(host.name, jobs, node.gpus)


def agents_report(
    answers: Sequence[AgentJobs], times: tuple[float, float], wanted: ReportOptions
) -> FleetReport:
    """The report on the jobs that held GPUs between two Unix times, each with all of its totals."""
    start, end = times[0], float(int(times[1]))  # hours are counted from a whole second
    jobs = [_whole(parts) for parts in _by_job(answers, start)]
    since = min((_begin(job, end) for job in jobs), default=end - HOUR)
    clock = ServerClock(end % HOUR)
    history = FleetHistory(clock, clock.whole(min(since, end - HOUR) - HOUR, end))
    gpus = [gpu for answer in answers for gpu in answer.gpus]
    models = {gpu.uuid: gpu.name for gpu in gpus}
    for job in jobs:
        _add(history, job, models, end)
    for answer in answers:
        _add_free(history, answer, end)
    answering = [answer for answer in answers if not answer.why]
    history.covered = {
        ("", hour): len(answering) / len(answers) for hour in clock.hours(history.span) if answering
    }
    for (_, hour), share in history.covered.items():
        history.gpus["", hour] = share * sum(gpu.share_ratio for gpu in gpus)
    are_made_up = [job.simulated for job in jobs] + [gpu.simulated for gpu in gpus]
    history.is_simulated = any(are_made_up)
    history.is_partly_measured = not all(are_made_up)
    history.remark = _remark(len(answering), len(answers), since)
    reader = ChunkReader(HistoryServer(AGENTS, queries=len(answers)))
    reader.missing += [_missing(answer, history.span) for answer in answers if answer.why]
    report = with_periods(fleet_report(history, wanted, reader), ())
    return report.model_copy(update={"actions": first_actions(report), "hours": []})


def _remark(answering: int, asked: int, since: float) -> str:
    return (
        f"From what {answering} of {asked} agents hold, since {iso(since)}: jobs that run, and ended ones as their "
        "state files remember them. Totals of a job are spread evenly over its time. GPUs without a job count for as "
        "long as their agents measured them since they started."
    )


def _missing(answer: AgentJobs, span: TimeSpan) -> MissingChunk:
    return MissingChunk(f"agent of {answer.host}", span, answer.why)


def _by_job(answers: Iterable[AgentJobs], start: float) -> list[list[JobTotals]]:
    """The records of each job: an id is of one job for as long as it is of one user."""
    parts: dict[tuple[str, str], list[JobTotals]] = defaultdict(list)
    for answer in answers:
        for job in answer.jobs:
            if job.ended is None or job.ended > start:
                parts[job.job_id, job.user].append(job)
    return [parts[key] for key in sorted(parts)]


def _whole(parts: Sequence[JobTotals]) -> JobTotals:
    return merged(parts) if len(parts) > 1 else parts[0]


def _begin(job: JobTotals, end: float) -> float:
    """When a job began, as far as that can be: an agent may say anything."""
    return min(max(job.held_since or job.began, end - LONGEST), end)


def _add(history: FleetHistory, job: JobTotals, models: Mapping[str, str], end: float) -> None:
    """`end` is that of the report: no job is known beyond it."""
    key = ClusterJob("", job.job_id)
    if key in history.jobs:  # another user's job had the id
        key = key._replace(user=job.user)
    job_history = history.job(key)
    job_history.names[tuple(getattr(job, name) for name in NAMES)] = 1
    job_history.add_size(job.gpu_count, 1.0)
    for gpu in job.gpus:
        if model := models.get(gpu.uuid):
            job_history.models[model] = job_history.models.get(model, 0.0) + gpu.held_seconds
    if job.reported is not None:
        _add_reported(job_history, job.reported)
    job_history.served = _served(job)
    begin = _begin(job, end)
    until = min(max(job.ended or job.updated, begin), end)
    for hour in (history.clock.hour_of(begin + 1), history.clock.hour_of(until)):
        job_history.note_hour(hour)
    for day, share in _days(begin, until):
        job_history.days[day] = _sums(job, share / HOUR)
        for gpu in job.gpus:
            sums = history.models.setdefault((day, "", models.get(gpu.uuid, "")), ModelSums())
            sums.installed += share * gpu.held_seconds / HOUR
            sums.observed += share * gpu.observed_seconds / HOUR
            sums.utilized += share * gpu.utilization_seconds / HOUR


def _add_reported(history: JobHistory, reported: ReportedMfu) -> None:
    history.verdicts[reported.verdict.value] = 1.0
    first = reported.causes.first if reported.causes else None
    if first is not None and reported.verdict is reported.recent_verdict:
        history.causes[first.cause] = 1.0
    if reported.framework:
        history.frameworks[reported.framework] = 1.0


def _served(job: JobTotals) -> ServedSums | None:
    """What the job served, and how busy its memory was while that was measured for half of its time or more. Nobody
    knows for which of its hours its engines were read, so that no token has a price."""
    if not job.served:
        return None
    served, memory = ServedSums(), job.sums.memory
    kinds = {(of.served_model, kind): n for of in job.served for kind, n in of.tokens.items()}
    served.add_hour(kinds, None, None)
    if memory and memory.seconds >= sum(gpu.held_seconds for gpu in job.gpus) / 2:
        served.add_rest(None, memory.busy_seconds / HOUR, memory.seconds / HOUR)
    return served


def _add_free(history: FleetHistory, answer: AgentJobs, end: float) -> None:
    """What GPUs were measured beyond their jobs: the agent counts them since its start, and jobs for longer."""
    if answer.why or len(answer.jobs) >= MOST_TOLD:
        return  # of jobs that it does not tell, or no longer, the GPUs would be called free
    used = [gpu for job in answer.jobs for gpu in job.gpus]
    for gpu in answer.gpus:
        its = [each for each in used if each.key == (gpu.uuid, gpu.gpu_instance)]
        free = gpu.observed_seconds - sum(each.observed_seconds for each in its)
        done = gpu.utilization_seconds - sum(each.utilization_seconds for each in its)
        if not LEAST_FREE_SECONDS <= free <= LONGEST:
            continue
        done = min(max(0.0, done), free)
        for day, share in _days(end - min(free / gpu.share_ratio, LONGEST), end):
            sums = history.models.setdefault((day, "", gpu.name), ModelSums())
            sums.installed += share * free / HOUR
            sums.observed += share * free / HOUR
            sums.utilized += share * done / HOUR
            if done < IDLE_RATIO * free:  # else it is not known how long it was busy
                sums.jobless.observed += share * free / HOUR
                sums.jobless.utilized += share * done / HOUR
                sums.jobless.idle += share * free / HOUR


def _days(begin: float, end: float) -> Iterator[tuple[int, float]]:
    """The days since 1970 of a time, each with its share."""
    if end - begin < 1:
        yield int(end // DAY), 1.0
        return
    for day in range(int(begin // DAY), int(end // DAY) + 1):
        share = (min(end, DAY * (day + 1)) - max(begin, DAY * day)) / (end - begin)
        if share > 0:
            yield day, share


def _sums(job: JobTotals, scale: float) -> JobSums:
    """The totals of a job times a scale, which makes hours of seconds too."""
    compared, sums = job.reported.total if job.reported else None, job.sums
    return JobSums(
        held=scale * sum(gpu.held_seconds for gpu in job.gpus),
        observed=scale * job.gpu_seconds,
        utilized=scale * sum(gpu.utilization_seconds for gpu in job.gpus),
        compared=scale * compared.gpu_seconds if compared else 0.0,
        compared_mfu=scale * compared.mfu_seconds if compared else 0.0,
        compared_utilized=scale * compared.utilization_seconds if compared else 0.0,
        idle=scale * min(job.distribution.get(IDLE_STEP, 0.0), job.gpu_seconds),
        gained=scale * sums.gained,
        joules=scale * HOUR * (sums.energy_joules or 0.0),
        idle_joules=scale * HOUR * (sums.idle_energy_joules or 0.0),
        lost={part.value: scale * seconds for part, seconds in sums.lost.items()},
    )
