"""Reads the story of one job: its OFU and MFU over time, its GPUs hour by hour, and its earlier runs.

Every value of a minute is taken from the recorded series where there is one, and from the agents' own otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from ofu_exporter.errors import OfuError
from ofu_exporter.fleet.answer import ResultRow
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.answers import HistoryAnswers
from ofu_exporter.fleet.history.fleet_history import ClusterJob, FleetHistory, JobHistory
from ofu_exporter.fleet.history.history import read_history
from ofu_exporter.fleet.history.queries import (
    GPU,
    JOB,
    SHORT_RATE,
    WITHIN,
    activity,
    any_of,
    matcher,
    over_nodes,
)
from ofu_exporter.fleet.history.served import read_served
from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan
from ofu_exporter.fleet.reports.job_rows import iso, longest, names_of
from ofu_exporter.values.losses import Loss

STEPS = (60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0)
MOST_POINTS = 400
MOST_EARLIER = 30
RATE_SECONDS = 300.0
"""What the values of a point are means over."""
_GAINED = "gained"
"""Stands for a part in the answer about losses."""


class UnknownJobError(OfuError):
    """A job of which nothing is known in the asked time."""


class PointRow(ResultRow, frozen=False):
    """What the job did at one time."""

    time: str
    gpus: float | None
    ofu: float | None
    mfu: float | None
    activity: float | None
    clock: float | None = Field(description="SM clock / tensor clock while active.")
    lost: dict[Loss, float] = Field(
        default_factory=dict,
        description="Where the rest of the peak went, by part, as shares of the measured time: with the OFU they add "
        "up to 1. Empty where no part is known.",
    )


@dataclass(slots=True)
class GpuHours:
    node: str
    gpu: str
    """Its index, of a MIG instance INDEX/INSTANCE."""
    uuid: str
    ofu: dict[int, float] = field(default_factory=dict)
    clock_hz: dict[int, float] = field(default_factory=dict)
    model: str = ""


@dataclass(slots=True)
class JobStory:
    job: JobHistory
    history: FleetHistory
    """Of the job and its earlier runs."""
    step: float
    points: list[PointRow]
    gpus: list[GpuHours]
    others: list[str]
    """Other users who had the job's id, one after the other."""

    @property
    def earlier(self) -> list[JobHistory]:
        """Jobs of the same name, user, GPU model and about the same size that began before, the latest first."""
        begun = self.job.first_hour or 0
        runs = [
            job
            for job in self.history.jobs.values()
            if job is not self.job and (job.first_hour or 0) < begun and _is_alike(job, self.job)
        ]
        return sorted(runs, key=lambda job: (-(job.first_hour or 0), job.key))[:MOST_EARLIER]


def _is_alike(one: JobHistory, other: JobHistory) -> bool:
    """Whether OFU of two jobs may be compared: of the same GPUs, and of sizes within a factor of two."""
    if one.models and other.models and longest(one.models) != longest(other.models):
        return False
    if one.size is None or other.size is None:
        return True
    small, large = sorted((one.size, other.size))
    return large <= 2 * small


def read_story(
    reader: ChunkReader, time: tuple[float, float], key: ClusterJob, *, is_unnamed: bool = False
) -> JobStory:
    """Everything of one job: of the last user where `key` does not say, and in any cluster, or in that without a name.

    Raises UnknownJobError.
    """
    wanted = matcher("job_id", key.job_id)
    if key.cluster or is_unnamed:
        wanted += "," + matcher("cluster", key.cluster)
    history = read_history(reader, *time, wanted)
    history.jobs = {job.key: job for job in history.jobs.values() if job.had_gpus}
    job = _only(history, key)
    others = [names_of(each)["user"] for each in history.jobs.values() if each is not job]
    history.jobs = {job.key: job}
    answers = HistoryAnswers(reader, history, wanted)
    read_served(history, lambda _: answers)
    _read_earlier(reader, history, job)
    cluster = matcher("cluster", job.key.cluster)
    one = f"{matcher('job_id', job.key.job_id)},{cluster}"
    span = history.clock.span(job.first_hour or 0, job.last_hour or 0)
    step = next((each for each in STEPS if (span.end - span.start) / each <= MOST_POINTS), HOUR)
    points = _points(reader, span, step, expressions(one, cluster))
    return JobStory(job, history, step, points, _gpus(reader, span, one, history.clock), others)


def _only(history: FleetHistory, key: ClusterJob) -> JobHistory:
    if not history.jobs:
        raise UnknownJobError(
            f"no job {key.job_id} held a GPU in this time, as far as is known: check --since and --cluster"
        )
    clusters = sorted({each.cluster or '""' for each in history.jobs})
    if len(clusters) > 1:
        raise UnknownJobError(
            f"job {key.job_id} is in clusters {', '.join(clusters)}: give --cluster"
        )
    ordered = sorted(history.jobs.values(), key=lambda job: job.first_hour or 0)
    jobs = {names_of(job)["user"]: job for job in ordered}
    if key.user and key.user not in jobs:
        raise UnknownJobError(f"job {key.job_id} was never {key.user}'s, but of {', '.join(jobs)}")
    return jobs[key.user] if key.user else [*jobs.values()][-1]


def _read_earlier(reader: ChunkReader, history: FleetHistory, job: JobHistory) -> None:
    """Add the jobs of the same name and user."""
    named = names_of(job)
    if not named["job_name"]:
        return
    same = [matcher("cluster", job.key.cluster)]
    same += [matcher(name, named[name]) for name in ("job_name", "user")]
    earlier = _ids(reader, history.span, ",".join(same)) - {job.key.job_id}
    if earlier:
        # Of two numbers the shorter one is the earlier.
        ids = sorted(earlier, key=lambda each: (len(each), each))
        wanted = f"{any_of('job_id', ids[-10 * MOST_EARLIER :])},{same[0]}"
        others = read_history(reader, *history.span, wanted)
        history.jobs.update({key: each for key, each in others.jobs.items() if key != job.key})


def _ids(reader: ChunkReader, span: TimeSpan, same: str) -> set[str]:
    expression = (
        f"group by (job_id) (job:held_gpu_hours:increase1h{{{same}}}) "
        f"or group by (job_id) (count_over_time(ofu_job_info{{{same}}}{WITHIN}))"
    )
    hourly = f"max_over_time(({expression}){WITHIN})"
    return {one.labels.get("job_id", "") for one in reader.series("earlier jobs", hourly, span)}


def expressions(one: str, cluster: str) -> Mapping[str, str]:
    """What is asked for of the points of a job; `losses` by part, with what was gained, over what was measured.

    No GPUs are 0 where its cluster was seen for five minutes, as matchers select both.
    """

    def rate(name: str, by: str = JOB, time: str = "5m") -> str:
        return over_nodes(f"rate(ofu_job_{name}_seconds_total{{{one}}}[{time}])", by)

    def either(recorded: str, raw: str, by: str = JOB) -> str:
        return f"(max by ({by}) ({recorded}{{{one}}}) or {raw})"

    def either_rate(name: str, by: str = JOB) -> str:
        return either(f"job:ofu_job_{name}_seconds:rate5m", rate(name, by), by)

    mfu = f"{rate('compared_mfu', time='15m')} / ({rate('compared_gpu', time='15m')} > 0)"
    active = activity(cluster, f"topk by ({GPU}) (1, ofu_gpu_info{{{one}}})")
    seen = " and ".join(
        f"count(count_over_time(model:ofu_gpu_share:sum{{{cluster}}}{SHORT_RATE}{earlier})"
        f" or count_over_time(ofu_exporter_build_info{{{cluster}}}{SHORT_RATE}{earlier}))"
        for earlier in ("", " offset 5m")
    )
    gained = f'label_replace({either_rate("gained")}, "part", "{_GAINED}", "", "")'
    parts = f"({either_rate('lost', f'{JOB}, part')} or {gained})"
    return {
        "gpus": f"{either_rate('held_gpu')} or on () 0 * ({seen})",
        "ofu": either("job:ofu:ratio_rate5m", f"{rate('utilization')} / ({rate('gpu')} > 0)"),
        "mfu": either("job:mfu:ratio_rate15m", mfu),
        "activity": either("job:ofu_gpu_tensor_active:avg5m", active),
        "losses": f"{parts} / on ({JOB}) group_left () ({either_rate('gpu')} > 0)",
    }


def _points(
    reader: ChunkReader, span: TimeSpan, step: float, asked: Mapping[str, str]
) -> list[PointRow]:
    nothing: dict[str, Any] = dict.fromkeys(("gpus", "ofu", "mfu", "activity", "clock"))
    numbers = range(1, round((span.end - span.start) / step) + 1)
    ends = (span.start + step * number for number in numbers)
    points = {round(end, 3): PointRow(time=iso(end), **nothing) for end in ends}
    for name, expression in asked.items():
        for series in reader.series(f"{name} of the job", expression, span, step):
            for time, value in series.points:
                point = points.get(round(time, 3))
                if point is not None and name == "losses":
                    _add_loss(point, series.labels.get("part", ""), value)
                elif point is not None:
                    setattr(point, name, value)
    return _alive(list(points.values()), step)


def _add_loss(point: PointRow, part: str, share: float) -> None:
    if part == _GAINED:
        part, share = Loss.CLOCK.value, -share
    if part in set(Loss):  # agents of a later version may know other parts
        point.lost[Loss(part)] = point.lost.get(Loss(part), 0.0) + share


def _alive(points: list[PointRow], step: float) -> list[PointRow]:
    """The points of the job's life, with activity and clock where the same GPUs had all of the five minutes before."""
    gpus_held = [point.gpus or 0.0 for point in points]
    hours = [number for number, gpus in enumerate(gpus_held) if gpus > 0]
    if not hours:
        return []
    back = math.ceil(RATE_SECONDS / step)
    first, last = hours[0], hours[-1]
    while last > max(first, hours[-1] - back) and gpus_held[last] < 0.995 * gpus_held[last - 1]:
        last -= 1  # the rate of five minutes, of which the job had a part
    for number, point in enumerate(points):
        before = gpus_held[max(0, number - back) : number + 1]
        is_steady = number - back >= first and min(before) > 0.99 * max(before)
        if not is_steady:
            point.activity = None
        elif point.ofu is not None and point.activity:
            point.clock = point.ofu / point.activity
    return points[first : last + 1]


def _gpus(reader: ChunkReader, span: TimeSpan, one: str, clock: ServerClock) -> list[GpuHours]:
    """The job's GPUs, hour by hour, of the hours for which it had them."""
    had = f"count_over_time((group by ({GPU}, job_id) (ofu_gpu_info{{{one}}})){WITHIN})"
    mine = f"topk by ({GPU}) (1, {had} >= 12) > bool 0"
    labels = "cluster, instance, gpu, uuid, gpu_instance"
    used, observed = (
        f"max by ({labels}) (increase(ofu_gpu_{name}_seconds_total[1h]))"
        for name in ("utilization", "observed")
    )
    join = f"* on ({GPU}) group_left (job_id) ({mine})"
    ofu = f"avg_over_time(job_gpu:ofu:ratio_rate5m{{{one}}}{WITHIN}) or {used} / ({observed} > 0) {join}"
    hertz = (
        f"avg_over_time(job_gpu:ofu_gpu_sm_clock_hertz:avg15m{{{one}}}{WITHIN}) or "
        f"avg by ({labels}) (avg_over_time(ofu_gpu_sm_clock_hertz{WITHIN})) {join}"
    )
    gpus: dict[tuple[str, str], GpuHours] = {}
    rows = f"group by ({labels}, model) (last_over_time(ofu_gpu_info{{{one}}}[1h]))"
    for name, expression in (("ofu", ofu), ("clock_hz", hertz), ("", rows)):
        for series in reader.series(f"{name or 'rows'} of the job's GPUs", expression, span):
            named = series.labels
            node, uuid, instance = (named[each] for each in ("instance", "uuid", "gpu_instance"))
            index = "/".join(filter(None, (named["gpu"], instance)))
            gpu = gpus.setdefault((node, uuid + instance), GpuHours(node, index, uuid))
            if name:
                hours = {clock.hour_of(time): value for time, value in series.points}
                getattr(gpu, name).update(hours)
            else:  # a GPU that was measured in no whole hour has a row, too
                gpu.model = named.get("model", "")
    return [gpus[place] for place in sorted(gpus)]
