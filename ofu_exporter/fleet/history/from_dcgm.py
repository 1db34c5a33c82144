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
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from ofu_exporter.fleet.chunks import Answers, ChunkReader
from ofu_exporter.fleet.history.answers import add_up
from ofu_exporter.fleet.history.dcgm_queries import (
    COVERED,
    CROWDED,
    PUSHED_ASIDE,
    SHARED,
    SPREAD,
    DcgmQueries,
)
from ofu_exporter.fleet.history.fleet_history import ClusterJob, FleetHistory, JobSums
from ofu_exporter.fleet.history.progress_sums import ProgressSums
from ofu_exporter.fleet.history.queries import NAMES
from ofu_exporter.fleet.hours import ServerClock
from ofu_exporter.fleet.prometheus import collector_paused
from ofu_exporter.fleet.series import Series
from ofu_exporter.hardware import mig_shares
from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.values.gpu import LOW_PRECISION, Gpu
from ofu_exporter.values.losses import Loss
from ofu_exporter.values.text import first_names

ACCURACY = (
    "These numbers are from dcgm-exporter's history: activity is a mean over its interval, and the SM clock is read at "
    "one instant a minute. A clock that follows the load within seconds makes OFU wrong."
)
MOST_NAMES = 3
CONTRADICTION = 0.01
"""Where a part is below 0 by more than this share of its hour, the counters contradict each other and are not used."""


class _Gpus(NamedTuple):
    """The GPUs of a series, or instances of GPUs."""

    job: ClusterJob | None
    """Who has them; None where nobody."""
    worker: ClusterJob | None
    """Whose work they do: nobody's where several jobs share them."""
    cluster: str
    model: str
    rated_hz: float | None
    """The tensor clock; None of a model that is not in the table of GPUs."""
    share: float
    """The part of a GPU that each of them is."""
    labels: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, labels: Mapping[str, str], aside: set[str]) -> _Gpus:
        model = labels.get("modelName", "")
        (job, _), share = owner_of(labels, aside), _share(model, labels.get("GPU_I_PROFILE", ""))
        cluster, each = labels.get("cluster", ""), tuple(sorted(labels.items()))
        worker = None if labels.get(SHARED) else job
        return cls(job, worker, cluster, model, _rated_hz(model), share, each)

    def hours(self, name: str, value: float) -> float | None:
        """An answer in GPU-hours; None where the tensor clock is not known: such GPUs are held and not measured."""
        if self.rated_hz is None and name != "held":
            return None
        whole = value * self.share
        return whole / self.rated_hz if name == "utilized" and self.rated_hz else whole


@collector_paused()
def read_dcgm_history(reader: ChunkReader, start: float, end: float) -> FleetHistory:
    """What a report needs. GPUs of a model that is not in the table of GPUs are held, and not measured."""
    clock = ServerClock()
    history = FleetHistory(clock, clock.whole(start, end), remark=ACCURACY)
    pages = _Pages(reader, history)
    pages.read_hours()
    pages.read_losses()
    pages.read_together()
    return history


class _Pages:
    def __init__(self, reader: ChunkReader, history: FleetHistory) -> None:
        self._reader = reader
        self._history = history
        self._partless: set[str] = set()
        """MIG profiles whose part of a GPU is not known: such instances are left out."""
        self._doubts: dict[ClusterJob | None, float] = defaultdict(float)
        """How far the work of jobs may be from what was looked at, in GPU-hours at the full peak."""
        answer = reader.series("labels of pods", PUSHED_ASIDE, history.span)
        self._aside = {one.labels.get("job", "") for one in answer}
        """Prometheus' jobs that push the page's own `pod` aside: there `pod` is that of dcgm-exporter itself."""
        crowded = reader.series("GPUs with several series", CROWDED, history.span)
        self._queries = DcgmQueries(is_crowded=bool([*crowded]))

    def read_hours(self) -> None:
        """GPU-hours of jobs and models, whose they were, and how far to trust them."""
        expressions = [*self._queries.hours, SPREAD, self._queries.size, COVERED]
        for answers in self._stepped("pages of dcgm-exporter", expressions):
            held, observed, utilized, idle, active, spread, sizes, covered = answers
            self._add_doubts(observed, active, spread)
            self._add_hours(
                {"held": held, "observed": observed, "utilized": utilized, "idle": idle}
            )
            self._add_names(held)
            self._add_sizes(sizes)
            for hour, gpus, value in self._of_read_hours(covered):
                self._history.covered[gpus.cluster, hour] = min(1.0, value)
        self._history.remark = f"{ACCURACY} {self._remark()}"
        if self._partless:
            named = first_names(sorted(self._partless), MOST_NAMES)
            self._history.remark += (
                f" Left out are MIG instances of an unknown part of a GPU: {named}."
            )

    def _stepped(self, what: str, expressions: Sequence[str]) -> Iterator[Answers]:
        """Answers without MIG instances whose part of a GPU is not known."""
        for answers in self._reader.stepped(what, expressions, self._history.span):
            yield [[*filter(self._has_part, answer)] for answer in answers]

    def _has_part(self, series: Series) -> bool:
        model, profile = (series.labels.get(name, "") for name in ("modelName", "GPU_I_PROFILE"))
        if not _share(model, profile):
            self._partless.add(f"{profile} of {model}")
        return bool(_share(model, profile))

    def read_together(self) -> None:
        """What of jobs' hours was none in which all of their GPUs worked; starts are not told apart there."""
        together = self._queries.together
        for answers in self._stepped("engines of dcgm-exporter", [*together.values()]):
            for reason, answer in zip(together, answers, strict=True):
                for _, gpus, value in self._of_read_hours(answer):
                    if gpus.worker:
                        sums = self._history.progress.setdefault(gpus.worker, ProgressSums())
                        sums.add(reason, value * gpus.share)

    def _by_hour(self, answer: list[Series]) -> Iterator[tuple[int, _Gpus, float]]:
        """Hour after hour, and in each hour in an order that does not depend on what else was asked."""
        ordered = sorted(answer, key=lambda series: sorted(series.labels.items()))
        gpus = [_Gpus.of(series.labels, self._aside) for series in ordered]
        for hour, number, value in sorted(
            (self._history.clock.hour_of(time), number, value)
            for number, series in enumerate(ordered)
            for time, value in series.points
        ):
            yield hour, gpus[number], value

    def _of_read_hours(self, answer: list[Series]) -> Iterator[tuple[int, _Gpus, float]]:
        """The same of hours whose GPU-hours could be read: what is a part of them is of no others."""
        read = self._history.raw
        return (each for each in self._by_hour(answer) if (each[1].cluster, each[0]) in read)

    def _add_doubts(
        self, observed: list[Series], active: list[Series], spread: list[Series]
    ) -> None:
        clocks = {
            (hour, gpus.cluster, gpus.model): math.sqrt(max(value, 0.0))
            for hour, gpus, value in self._by_hour(spread)
        }
        observed_hours = {(hour, gpus): value for hour, gpus, value in self._by_hour(observed)}
        for hour, gpus, active_hours in self._by_hour(active):
            hours = observed_hours.get((hour, gpus), 0.0)
            if hours > 0 and gpus.rated_hz is not None:
                mean = min(active_hours / hours, 1.0)
                clock = clocks.get((hour, gpus.cluster, gpus.model), 0.0)
                off = 2 * math.sqrt(mean * (1 - mean)) * clock / gpus.rated_hz * hours * gpus.share
                self._doubts[gpus.worker] += off

    def _remark(self) -> str:
        used = sum(sums.utilized for sums in self._history.models.values())
        off = [
            (self._doubts[key] / job.total.utilized, key.job_id)
            for key, job in self._history.jobs.items()
            if job.total.utilized > 0
        ]
        if not off or used <= 0:
            return ""
        worst, job = max(off)
        fleet = sum(self._doubts.values()) / used
        return (
            f"By the spread of activity and clocks in this history, by at most {fleet:.1%} of itself over all GPUs, "
            f"and {worst:.1%} for job {job}, of which least is known."
        )

    def _add_hours(self, answers: Mapping[str, list[Series]]) -> None:
        hours: dict[tuple[int, ClusterJob], JobSums] = defaultdict(JobSums)
        for name, answer in answers.items():
            for hour, gpus, value in self._by_hour(answer):
                if (gpu_hours := gpus.hours(name, value)) is None:
                    continue
                if job := gpus.job if name == "held" else gpus.worker:
                    hours[hour, job].add_one(name, gpu_hours)
                self._add_to_model(hour, gpus, name, gpu_hours)
        for (hour, key), of_hour in sorted(hours.items()):
            self._history.add_hour(self._history.job(key), hour, of_hour)

    def _add_to_model(self, hour: int, gpus: _Gpus, name: str, gpu_hours: float) -> None:
        sums = self._history.model(hour, gpus.cluster, gpus.model)
        if not gpus.job:
            sums.jobless.add_one(name, gpu_hours)
            self._history.jobless_hours.setdefault(hour, JobSums()).add_one(name, gpu_hours)
        if name == "held":
            self._history.add_installed(hour, gpus.cluster, gpus.model, gpu_hours)
            self._history.raw.add((gpus.cluster, hour))
        elif name != "idle":
            setattr(sums, name, getattr(sums, name) + gpu_hours)

    def _add_names(self, answer: list[Series]) -> None:
        for series in answer:
            job, named = owner_of(series.labels, self._aside)
            if job is not None and series.points:
                key = tuple(named.get(name, "") for name in NAMES)
                names = self._history.job(job).names
                names[key] = names.get(key, 0) + len(series.points)

    def _add_sizes(self, answer: list[Series]) -> None:
        sizes: dict[tuple[ClusterJob, int], float] = defaultdict(float)
        for series in answer:
            gpus = _Gpus.of(series.labels, self._aside)
            key = gpus.job
            if key is not None and key in self._history.jobs:
                values = [value * gpus.share for _, value in series.points]
                add_up(self._history.jobs[key].models, gpus.model, values)
                for (time, _), value in zip(series.points, values, strict=True):
                    sizes[key, self._history.clock.hour_of(time)] += value
        for (key, _), value in sorted(sizes.items()):
            self._history.jobs[key].add_size(value, 1.0)

    def read_losses(self) -> None:
        """Where the rest of the peak of the jobs' GPU-hours went, as far as the pages tell."""
        losses = self._queries.losses
        for answers in self._stepped("engines on these pages", losses):
            sums: dict[tuple[int, ClusterJob], list[float]] = defaultdict(
                lambda: [0.0] * len(losses)
            )
            for number, answer in enumerate(answers):
                for hour, gpus, value in self._of_read_hours(answer):
                    gpu_hours = gpus.hours("utilized" if number == 1 else "observed", value)
                    if gpu_hours is not None and gpus.worker is not None:
                        sums[hour, gpus.worker][number] += gpu_hours
            for (hour, key), values in sorted(sums.items()):
                of_day = self._history.job_days(key).get(self._history.clock.day_of(hour))
                if values[0] > 0 and of_day is not None:
                    of_day.add(JobSums(lost=_parts(_Looks(*values))))


class _Looks(NamedTuple):
    """The answers to `losses` for a job and an hour, in their order. `_e` are those where the engine is known, `_s`
    those where the SMs are known too."""

    observed: float
    utilized: float
    tensor: float
    with_engine: float
    engine: float
    tensor_e: float
    sms: float
    engine_s: float
    tensor_s: float


def _parts(of: _Looks) -> dict[str, float]:
    """What a job lost in an hour, by part: what was observed and not used.

    Each quantity is a sum over looks. Looks that lack a counter have two or three parts in one, so that the parts add
    up in any case, and a history in which a counter comes and goes is right.
    """
    clock = {Loss.CLOCK: of.tensor - of.utilized}
    parts = {
        Loss.NO_TENSOR: of.sms - of.tensor_s,
        Loss.EMPTY_SMS: of.engine_s - of.sms,
        Loss.ENGINE_WITHOUT_TENSOR: (of.engine - of.engine_s) - (of.tensor_e - of.tensor_s),
        Loss.IDLE: of.with_engine - of.engine,
        Loss.WITHOUT_TENSOR: (of.observed - of.with_engine) - (of.tensor - of.tensor_e),
    }
    if min(parts.values()) < -CONTRADICTION * of.observed:
        parts = {Loss.WITHOUT_TENSOR: of.observed - of.tensor}
    unmeasured = [] if of.engine_s else [Loss.NO_TENSOR, Loss.EMPTY_SMS]
    unmeasured += [] if of.with_engine else [Loss.IDLE]
    measured = {loss: hours for loss, hours in parts.items() if loss not in unmeasured}
    merged = (Loss.ENGINE_WITHOUT_TENSOR, Loss.WITHOUT_TENSOR)
    return {
        loss.value: hours
        for loss, hours in {**clock, **measured}.items()
        if loss not in merged or abs(hours) > 1e-9 * of.observed
    }


def owner_of(
    labels: Mapping[str, str], aside: set[str]
) -> tuple[ClusterJob | None, Mapping[str, str]]:
    """The job of a series, and its NAMES: Slurm's by `hpc_job` or `jobid`, otherwise the pod with its namespace."""
    cluster = labels.get("cluster", "")
    if job := labels.get("hpc_job") or labels.get("jobid"):
        return ClusterJob(cluster, job), {}
    if labels.get("job", "") in aside:
        pod, namespace = labels.get("exported_pod", ""), labels.get("exported_namespace", "")
    elif labels.get("pod_name"):
        pod, namespace = labels["pod_name"], labels.get("pod_namespace", "")
    else:
        pod, namespace = labels.get("pod", ""), labels.get("namespace", "")
    if not pod or "dcgm-exporter" in pod:
        return None, {}
    return ClusterJob(cluster, f"{namespace}/{pod}"), {"job_name": pod, "namespace": namespace}


@cache
def _rated_hz(model: str) -> float | None:
    """The tensor clock of a model; None where the table has none."""
    rating = rate(Gpu("0", "GPU", name=model))
    return None if rating is None else rating.tensor_clock_hz.get(LOW_PRECISION)


@cache
def _share(model: str, profile: str) -> float:
    """The part of a GPU that a MIG instance of a profile is; 1 of a whole GPU, 0 where it is not known."""
    if not profile:
        return 1.0
    one = Gpu("0", "GPU", instance="1", profile=profile, name=model)
    share = mig_shares.shares([one])[one.key]
    return share.ratio if share.basis == "slices" else 0.0
