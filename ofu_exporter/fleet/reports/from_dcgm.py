"""Collects the same history from what dcgm-exporter has left in a Prometheus, for a fleet without our agent.

OFU is the mean over an hour of activity x SM clock, looked at once a minute, over the tensor clock of the model. The
activity is a mean of dcgm-exporter's own interval (30 s by default) and the clock one instant, so what is known is less
than what an agent knows. No job reports an MFU there.

A clock that follows the load within an interval makes the product wrong. The mean of a product differs from the product
of the means by at most the product of both standard deviations (Cauchy and Schwarz). That holds for what was true and
for what was looked at, so both differ by at most twice as much. An activity between 0 and 1 has a standard deviation of
at most sqrt(mean (1 - mean)); that of the clock is taken over all looks at the working GPUs of a model, because a
clock that changes in step with the looks shows none on a single GPU.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan
from ofu_exporter.fleet.parts import PartReader
from ofu_exporter.fleet.prometheus import PrometheusClient, Series
from ofu_exporter.fleet.reports import dcgm_parts
from ofu_exporter.fleet.reports.fleet_history import FleetHistory, JobKey, JobSums
from ofu_exporter.fleet.reports.queries import NAMES
from ofu_exporter.hardware import mig_shares
from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.support.garbage import collector_paused
from ofu_exporter.values.gpu import LOW_PRECISION, Gpu

ACCURACY = (
    "These numbers are from dcgm-exporter's history: activity is a mean over its interval, and the SM clock is read at "
    "one instant a minute. A clock that follows the load within seconds makes OFU wrong."
)
LOOKS = 60
_WITHIN = "[59m59s999ms:1m]"
_JOB_LABELS = ("hpc_job", "jobid", "exported_pod", "pod", "pod_name")
_LABELS = (
    *("cluster", "job", "modelName", "GPU_I_PROFILE"),
    *_JOB_LABELS,
    *("exported_namespace", "namespace", "pod_namespace"),
)
_BY = ", ".join(_LABELS)
_ACTIVITY = "((DCGM_FI_PROF_PIPE_TENSOR_ACTIVE or DCGM_FI_PROF_TENSOR_UTIL_RATIO) >= 0 <= 1.05)"
_CLOCK = "((DCGM_FI_DEV_SM_CLOCK * 1e6 or DCGM_FI_DEV_SM_CLOCK_HERTZ) > 0 < 5e9)"
"""Old and new names. A blank of DCGM's is far beyond what a clock can be."""


def _sum(inner: str, over: str) -> str:
    return f"sum by ({_BY}) ({over}(({inner}){_WITHIN})) / {LOOKS}"


_QUERIES = (
    _sum(_CLOCK, "count_over_time"),
    _sum(f"{_ACTIVITY} * {_CLOCK}", "count_over_time"),
    _sum(f"{_ACTIVITY} * {_CLOCK}", "sum_over_time"),
    _sum(f"({_ACTIVITY} < 0.001) * {_CLOCK}", "count_over_time"),
    _sum(f"{_ACTIVITY} and {_CLOCK}", "sum_over_time"),
)
"""GPU-hours that there were; of these, measured; activity x clock x hours; GPU-hours without tensor activity; activity
x hours."""
_WORKING = f"({_CLOCK} and {_ACTIVITY} >= 0.001)"
_SPREAD = (
    f"avg_over_time((stdvar by (cluster, modelName) {_WORKING}){_WITHIN})"
    f" + stdvar_over_time((avg by (cluster, modelName) {_WORKING}){_WITHIN})"
)
"""Variance of the clock over all looks of an hour at the working GPUs of a model."""
_EXPORTED = (
    '(DCGM_FI_DEV_SM_CLOCK{exported_pod!=""} or DCGM_FI_DEV_SM_CLOCK_HERTZ{exported_pod!=""})'
)
_LOSSES = dcgm_parts.queries(_sum, f"({_ACTIVITY} and {_CLOCK})")
_SIZE = f"max_over_time((count by ({_BY}) ({_CLOCK}))[59m59s999ms:5m])"


class _LabelledJob(NamedTuple):
    """Whose GPUs a series is of; no job where nobody's."""

    job: JobKey | None
    namespace: str
    name: str


@collector_paused()
def read_dcgm_history(
    client: PrometheusClient, reader: PartReader, start: float, end: float
) -> FleetHistory:
    """What a report needs. GPUs of a model that is not in the table of GPUs are held, and not measured."""
    clock = ServerClock()
    history = FleetHistory(clock, clock.whole(start, end), remark=ACCURACY)
    doubts = _Doubts()

    def fetch(part: TimeSpan) -> list[list[Series]]:
        return [client.steps(each, *part, HOUR) for each in (*_QUERIES, _SPREAD, _SIZE)]

    aside = _pushed_aside(client, reader, history.span)
    for _, answers in reader.read("pages of dcgm-exporter", history.span, fetch):
        doubts.add(history, answers, aside)
        _add(history, answers, aside)
    history.remark = f"{ACCURACY} {doubts.remark(history)}"
    _add_losses(client, reader, history, aside)
    return history


class _Doubts:
    """How far the work of jobs may be from what was looked at, in GPU-hours at the full peak."""

    def __init__(self) -> None:
        self._of_job: dict[JobKey | None, float] = defaultdict(float)

    def add(self, history: FleetHistory, answers: list[list[Series]], aside: set[str]) -> None:
        spread = {
            (hour, *_model_of(series.labels)): math.sqrt(value)
            for hour, series, value in _by_hour(answers[-2], history.clock)
        }
        observed = {_place(*each): each[2] for each in _by_hour(answers[1], history.clock)}
        for hour, series, active in _by_hour(answers[4], history.clock):
            hours = observed.get(_place(hour, series, active), 0.0)
            cluster, model = _model_of(series.labels)
            rated = _rated_hz(model)
            if hours > 0 and rated is not None:
                mean = min(active / hours, 1.0)
                clock = spread.get((hour, cluster, model), 0.0)
                share = _share(model, series.labels.get("GPU_I_PROFILE", ""))
                off = 2 * math.sqrt(mean * (1 - mean)) * clock / rated * hours * share
                self._of_job[owner_of(series.labels, aside).job] += off

    def remark(self, history: FleetHistory) -> str:
        used = sum(sums.utilized for sums in history.models.values())
        off = [
            (self._of_job[key] / job.total.utilized, key.job_id)
            for key, job in history.jobs.items()
            if job.total.utilized > 0
        ]
        if not off or used <= 0:
            return ""
        worst, job = max(off)
        fleet = sum(self._of_job.values()) / used
        return (
            f"By the spread of activity and clocks in this history, by at most {fleet:.1%} of itself over all GPUs, "
            f"and {worst:.1%} for job {job}, of which least is known."
        )


def _place(hour: int, series: Series, _value: float) -> tuple[object, ...]:
    return hour, *sorted(series.labels.items())


def _add_losses(
    client: PrometheusClient, reader: PartReader, history: FleetHistory, aside: set[str]
) -> None:
    """Where the rest of the peak of the jobs' GPU-hours went, as far as the pages tell."""

    def fetch(part: TimeSpan) -> list[list[Series]]:
        expressions = (_QUERIES[1], _QUERIES[2], *_LOSSES)
        return [client.steps(each, *part, HOUR) for each in expressions]

    for _, answers in reader.read("engines on these pages", history.span, fetch):
        sums: list[dict[dcgm_parts.Place, float]] = [defaultdict(float) for _ in answers]
        for place, answer in enumerate(answers):
            for hour, series, value in _by_hour(answer, history.clock):
                owner = owner_of(series.labels, aside).job
                name = "utilized" if place == 1 else "observed"
                gpu_hours = _gpu_hours(name, series.labels, value)
                if gpu_hours is not None and owner is not None:
                    sums[place][hour, owner] += gpu_hours
        dcgm_parts.add(history, sums[0], sums[1], sums[2:])


def _add(history: FleetHistory, answers: list[list[Series]], aside: set[str]) -> None:
    hours: dict[tuple[int, JobKey], JobSums] = defaultdict(JobSums)
    for name, answer in zip(("held", "observed", "utilized", "idle"), answers, strict=False):
        for hour, series, value in _by_hour(answer, history.clock):
            gpu_hours = _gpu_hours(name, series.labels, value)
            if gpu_hours is None:
                continue
            owner = owner_of(series.labels, aside).job
            sums = [hours[hour, owner]] if owner else _jobless(history, hour, series.labels)
            for each in sums:
                each.add_one(name, gpu_hours)
            _add_to_model(history, hour, series.labels, name, gpu_hours)
    for series in answers[0]:
        _name(history, owner_of(series.labels, aside), len(series.points))
    for (hour, key), of_hour in sorted(hours.items()):
        history.add_hour(history.job(key), hour, of_hour)
    _add_sizes(history, answers[-1], aside)


def _gpu_hours(name: str, labels: Mapping[str, str], value: float) -> float | None:
    """An answer in GPU-hours; None of a model whose tensor clock is not known, which is held and not measured."""
    model = labels.get("modelName", "")
    rated_hz, share = _rated_hz(model), _share(model, labels.get("GPU_I_PROFILE", ""))
    if rated_hz is None and name != "held":
        return None
    return value * share / rated_hz if name == "utilized" and rated_hz else value * share


def _add_to_model(
    history: FleetHistory, hour: int, labels: Mapping[str, str], name: str, gpu_hours: float
) -> None:
    cluster, model = _model_of(labels)
    sums = history.model(hour, cluster, model)
    if name == "held":
        sums.installed += gpu_hours
        history.covered[cluster, hour] = 1.0
        history.raw.add((cluster, hour))
    elif name == "observed":
        sums.observed += gpu_hours
    elif name == "utilized":
        sums.utilized += gpu_hours


def _by_hour(answer: list[Series], clock: ServerClock) -> Iterator[tuple[int, Series, float]]:
    """Hour after hour, and in each hour in an order that does not depend on what else was asked."""
    ordered = sorted(answer, key=lambda series: sorted(series.labels.items()))
    answers = [
        (clock.hour_of(time), number, value)
        for number, series in enumerate(ordered)
        for time, value in series.points
    ]
    for hour, number, value in sorted(answers):
        yield hour, ordered[number], value


def _jobless(history: FleetHistory, hour: int, labels: Mapping[str, str]) -> list[JobSums]:
    """Where values count of a GPU that no job has."""
    jobless = history.model(hour, *_model_of(labels)).jobless
    return [jobless, history.jobless_hours.setdefault(hour, JobSums())]


def _model_of(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("cluster", ""), labels.get("modelName", "")


def _name(history: FleetHistory, owner: _LabelledJob, hours: int) -> None:
    if owner.job is not None and hours:
        job = history.job(owner.job)
        named = {"job_name": owner.name, "namespace": owner.namespace}
        key = tuple(named.get(name, "") for name in NAMES)
        job.names[key] = job.names.get(key, 0) + hours


def _add_sizes(history: FleetHistory, answer: list[Series], aside: set[str]) -> None:
    sizes: dict[tuple[JobKey, int], float] = defaultdict(float)
    for series in answer:
        owner = owner_of(series.labels, aside).job
        model = series.labels.get("modelName", "")
        if owner is None or owner not in history.jobs:
            continue
        weight = _share(model, series.labels.get("GPU_I_PROFILE", ""))
        models = history.jobs[owner].models
        for time, value in series.points:
            sizes[owner, history.clock.hour_of(time)] += value * weight
            models[model] = models.get(model, 0.0) + value * weight
    for (key, _), value in sorted(sizes.items()):
        history.jobs[key].sizes.append(value)


def _pushed_aside(client: PrometheusClient, reader: PartReader, span: TimeSpan) -> set[str]:
    """Prometheus' jobs that push the page's own `pod` aside: there `pod` is that of dcgm-exporter itself."""
    expression = f"count by (job) (count_over_time({_EXPORTED}[59m59s999ms:5m]))"
    labels: set[str] = set()
    for _, series in reader.read(
        "labels of pods", span, lambda part: client.steps(expression, *part, HOUR)
    ):
        labels.update(one.labels.get("job", "") for one in series)
    return labels


def owner_of(labels: Mapping[str, str], aside: set[str]) -> _LabelledJob:
    """The job of a series: Slurm's by `hpc_job` or `jobid`, otherwise the pod with its namespace."""
    cluster = labels.get("cluster", "")
    if job := labels.get("hpc_job") or labels.get("jobid"):
        return _LabelledJob(JobKey(cluster, job), "", "")
    if labels.get("job", "") in aside:
        pod, namespace = labels.get("exported_pod", ""), labels.get("exported_namespace", "")
    elif labels.get("pod_name"):
        pod, namespace = labels["pod_name"], labels.get("pod_namespace", "")
    else:
        pod, namespace = labels.get("pod", ""), labels.get("namespace", "")
    if not pod or "dcgm-exporter" in pod:
        return _LabelledJob(None, "", "")
    return _LabelledJob(JobKey(cluster, f"{namespace}/{pod}"), namespace, pod)


@cache
def _rated_hz(model: str) -> float | None:
    """The tensor clock of a model; None where the table has none."""
    rating = rate(Gpu("0", "GPU", name=model))
    return None if rating is None else rating.tensor_clock_hz.get(LOW_PRECISION)


@cache
def _share(model: str, profile: str) -> float:
    """The part of a GPU that a MIG instance of a profile is; 1 of a whole GPU."""
    if not profile:
        return 1.0
    one = Gpu("0", "GPU", instance="1", profile=profile, name=model)
    return mig_shares.shares([one])[one.key].ratio
