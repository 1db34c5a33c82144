"""Holds what was read of a fleet: its jobs and its GPUs by model, in sums of numerators and denominators."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ofu_exporter.fleet.history.progress_sums import ProgressSums, beyond_rounding
from ofu_exporter.fleet.history.served_sums import ServedSums
from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan
from ofu_exporter.support.percent import ratio
from ofu_exporter.values.losses import Loss

SPLIT_TOLERANCE = 0.005
"""Increases of counters are extrapolated to the ends of the hour, so their sums differ by a little."""


HourSums = tuple[float, float, float, float, float, float]
"""GPU-hours held, observed and utilized, and those compared with their MFU and what they utilized."""


@dataclass(slots=True)
class JobSums:
    """GPU-hours of a job. OFU and MFU are quotients of two of them."""

    held: float = 0.0
    observed: float = 0.0
    """Measured."""
    utilized: float = 0.0
    """Measured GPU-hours x OFU."""
    compared: float = 0.0
    """Covered by reports and by OFU."""
    compared_mfu: float = 0.0
    compared_utilized: float = 0.0
    idle: float = 0.0
    """Measured, and no tensor pipe was used."""
    gained: float = 0.0
    """What the tensor pipes gained above the tensor clock."""
    joules: float = 0.0
    idle_joules: float = 0.0
    """Of these, in windows in which no kernel ran, as far as one job had the GPU for the whole hour."""
    lost: dict[str, float] = field(default_factory=dict)
    """Where the rest of the peak went, by loss: utilized + lost - gained = observed, where all of it is known."""

    def add(self, other: JobSums) -> None:
        """Add each of them, by name: a loop over names takes three times as long, for each hour of each job."""
        self.held += other.held
        self.observed += other.observed
        self.utilized += other.utilized
        self.compared += other.compared
        self.compared_mfu += other.compared_mfu
        self.compared_utilized += other.compared_utilized
        self.idle += other.idle
        self.gained += other.gained
        self.joules += other.joules
        self.idle_joules += other.idle_joules
        for loss, hours in other.lost.items():
            self.lost[loss] = self.lost.get(loss, 0.0) + hours

    def add_hour(self, hour: HourSums) -> None:
        held, observed, utilized, compared, compared_mfu, compared_utilized = hour
        self.held += held
        self.observed += observed
        self.utilized += utilized
        self.compared += compared
        self.compared_mfu += compared_mfu
        self.compared_utilized += compared_utilized

    def add_one(self, name: str, value: float) -> None:
        self.add_each(name, [value])

    def add_each(self, name: str, values: Iterable[float], loss: str = "") -> None:
        """Add values, one by one, to one of the sums; to what was lost, by its loss."""
        total: float = self.lost.get(loss, 0.0) if name == "lost" else getattr(self, name)
        for value in values:
            total += value
        if name == "lost":
            self.lost[loss] = total
        else:
            setattr(self, name, total)

    def scaled(self, share: float) -> JobSums:
        """This share of the hours held, observed, utilized and idle."""
        sums = JobSums(share * self.held, share * self.observed, share * self.utilized)
        sums.idle = share * self.idle
        return sums

    @property
    def net_losses(self) -> dict[str, float]:
        """What was lost by loss, the clock's without the gain; what no counter split is `unsplit`."""
        names = [str(loss.value) for loss in Loss]
        net = {name: self.lost[name] for name in names if name in self.lost}
        if self.gained:
            net[Loss.CLOCK.value] = net.get(Loss.CLOCK.value, 0.0) - self.gained
        rest = self.observed - self.utilized - sum(net.values())
        if abs(rest) > SPLIT_TOLERANCE * self.observed:
            net[Loss.UNSPLIT.value] = net.get(Loss.UNSPLIT.value, 0.0) + rest
        return {name: beyond_rounding(hours, self.observed) for name, hours in net.items()}

    @property
    def ofu(self) -> float | None:
        return ratio(self.utilized, self.observed)

    @property
    def mfu(self) -> float | None:
        return ratio(self.compared_mfu, self.compared)

    @property
    def ofu_compared(self) -> float | None:
        """OFU over the time that reports cover, to hold against the MFU."""
        return ratio(self.compared_utilized, self.compared)


@dataclass(slots=True)
class MeasuredHours:
    """The hours in which a job was measured, in columns: as objects they would take eight times as much memory."""

    hours: array[int] = field(default_factory=lambda: array("l"))
    observed: array[float] = field(default_factory=lambda: array("d"))
    utilized: array[float] = field(default_factory=lambda: array("d"))
    """NaN where it is not known."""

    def add(self, observed: Mapping[int, float], utilized: Mapping[int, float]) -> None:
        """Add other hours than those before, in any order."""
        self.hours.extend(observed)
        self.observed.extend(observed.values())
        self.utilized.extend(utilized.get(hour, math.nan) for hour in observed)

    def in_order(self) -> list[tuple[int, float, float]]:
        """Hours with GPU-hours observed and utilized."""
        return sorted(zip(self.hours, self.observed, self.utilized, strict=True))


@dataclass(slots=True)
class ModelSums:
    """GPU-hours of all GPUs of a model, held by a job or not."""

    installed: float = 0.0
    observed: float = 0.0
    utilized: float = 0.0
    jobless: JobSums = field(default_factory=JobSums)
    """Of these, what is known of GPUs that no job held."""


class ClusterJob(NamedTuple):
    """A job: ids are unique within a cluster, until a scheduler begins to count anew."""

    cluster: str
    job_id: str
    user: str = ""
    """Of a job whose id another user's job had before; empty of the first one."""


@dataclass(slots=True)
class JobHistory:
    key: ClusterJob
    names: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Names that it had, in the order of NAMES, by the hours for which it had them."""
    days: dict[int, JobSums] = field(default_factory=dict)
    """By day since 1970."""
    sizes: dict[float, float] = field(default_factory=dict)
    """GPUs that it had at once, by the hours for which it had them."""
    verdicts: dict[str, float] = field(default_factory=dict)
    """Node-hours."""
    causes: dict[str, float] = field(default_factory=dict)
    findings: dict[str, float] = field(default_factory=dict)
    """Shares of the time of its traced ranks."""
    frameworks: dict[str, float] = field(default_factory=dict)
    """By the hours for which it had told them."""
    models: dict[str, float] = field(default_factory=dict)
    served: ServedSums | None = None
    first_hour: int | None = None
    last_hour: int | None = None
    away: float = 0.0
    """GPU-hours that it may have held beyond what is known, while its nodes were away."""

    def note_hour(self, hour: int) -> None:
        if self.first_hour is None or hour < self.first_hour:
            self.first_hour = hour
        if self.last_hour is None or hour > self.last_hour:
            self.last_hour = hour

    def add_size(self, gpus: float, hours: float) -> None:
        self.sizes[gpus] = self.sizes.get(gpus, 0.0) + hours

    @property
    def size(self) -> float | None:
        """The GPUs that it had for most of its time, the median: of an hour in which it had few of them briefly, no
        more than that counts."""
        half, so_far = sum(self.sizes.values()) / 2, 0.0
        for gpus in sorted(self.sizes, reverse=True):
            so_far += self.sizes[gpus]
            if so_far >= half:
                return gpus
        return None

    @property
    def had_gpus(self) -> bool:
        return any(sums.held > 0 or sums.observed > 0 for sums in self.days.values())

    @property
    def total(self) -> JobSums:
        sums = JobSums()
        for day in sorted(self.days):
            sums.add(self.days[day])
        return sums


ClusterHour = tuple[str, int]


class AbsentNode(NamedTuple):
    cluster: str
    node: str
    shares: Mapping[int, float]
    """The share of each hour in which it was away."""
    gpus: float
    """That it had before; 0 where that is not known."""
    is_back: bool

    @property
    def gpu_hours(self) -> float:
        return self.gpus * sum(self.shares.values())


@dataclass(slots=True)
class FleetHistory:
    clock: ServerClock
    span: TimeSpan
    jobs: dict[ClusterJob, JobHistory] = field(default_factory=dict)
    models: dict[tuple[int, str, str], ModelSums] = field(default_factory=dict)
    """By day, cluster and model."""
    gpus: dict[ClusterHour, float] = field(default_factory=dict)
    """Installed GPU-hours of an hour, by cluster."""
    covered: dict[ClusterHour, float] = field(default_factory=dict)
    """Share of the hour of which anything is known, by cluster."""
    recorded: set[ClusterHour] = field(default_factory=set)
    """Hours that the recording rules kept."""
    raw: set[ClusterHour] = field(default_factory=set)
    """Hours that were computed from the agents' own series."""
    absent: list[AbsentNode] = field(default_factory=list)
    measured: dict[ClusterJob, MeasuredHours] = field(default_factory=dict)
    """By cluster and id, whose job that ever was."""
    progress: dict[ClusterJob, ProgressSums] = field(default_factory=dict)
    hours: dict[int, JobSums] = field(default_factory=dict)
    """The sums of all jobs, by hour; what was lost is known by day alone."""
    jobless_hours: dict[int, JobSums] = field(default_factory=dict)
    """The sums of GPUs that no job held, by hour."""
    users: dict[ClusterJob, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """The first and last hour for which each user had an id."""
    target: float | None = None
    """The OFU that the recording rules aim at."""
    is_simulated: bool = False
    """Whether an agent said in any hour that its values are simulated."""
    is_partly_measured: bool = False
    """Whether another one did not."""
    elsewhere: str = ""
    """What is to be known of GPUs that another exporter tells of."""
    remark: str = ""
    """What is to be known of all numbers, where they are not from our agents."""

    @property
    def mark(self) -> str:
        """What stands before everything else that is said of simulated values."""
        if self.is_simulated and self.is_partly_measured:
            return "SIMULATED in part: one agent or more measured no GPU. "
        return "SIMULATED, no GPU was measured. " if self.is_simulated else ""

    @property
    def clusters(self) -> list[str]:
        names = {cluster for cluster, _ in self.recorded | self.raw | set(self.covered)}
        return sorted(names | {key.cluster for key in self.jobs})

    def last(self, gpu_hours: float) -> FleetHistory:
        """The same for as many of its last hours as have this many GPU-hours, an hour at least."""
        installed = sum(sums.installed for sums in self.models.values())
        hours = self.span.hours
        if installed > gpu_hours:
            hours = max(1, math.floor(hours * gpu_hours / installed))
        span = TimeSpan(self.span.end - hours * HOUR, self.span.end)
        raw = {place for place in self.raw if place[1] > self.clock.hour_of(span.start)}
        return replace(self, span=span, raw=raw)

    def job(self, key: ClusterJob) -> JobHistory:
        return self.jobs.get(key) or self.jobs.setdefault(key, JobHistory(key))

    def note_user(self, key: ClusterJob, user: str, hours: Sequence[int]) -> None:
        """Note whose an id is in some hours."""
        if user and hours:
            first, last = self.users.setdefault(key, {}).get(user, (hours[0], hours[-1]))
            self.users[key][user] = (min(first, *hours), max(last, *hours))

    def is_reused(self, key: ClusterJob) -> bool:
        return len(self.users.get(key, ())) > 1

    def owned(self, key: ClusterJob, hour: int) -> ClusterJob:
        """Which of the jobs of an id an hour is of. While two users have it at once, nodes merely disagree."""
        if not self.is_reused(key):
            return key
        owner, until = key, None
        for user, (first, last) in sorted(self.users[key].items(), key=lambda each: each[1]):
            if until is not None and until < first <= hour:
                owner = key._replace(user=user)
            until = last if until is None else max(last, until)
        return owner

    def job_days(self, key: ClusterJob) -> Mapping[int, JobSums]:
        """The sums of a job by day; none of one that is not known."""
        job = self.jobs.get(key)
        return {} if job is None else job.days

    def add_hour(self, job: JobHistory, hour: int, sums: HourSums | JobSums) -> None:
        job.note_hour(hour)
        for there, place in ((job.days, self.clock.day_of(hour)), (self.hours, hour)):
            if (of_place := there.get(place)) is None:
                of_place = there[place] = JobSums()
            if isinstance(sums, JobSums):
                of_place.add(sums)
            else:
                of_place.add_hour(sums)

    def model(self, hour: int, cluster: str, model: str) -> ModelSums:
        key = (self.clock.day_of(hour), cluster, model)
        return self.models.get(key) or self.models.setdefault(key, ModelSums())

    def add_installed(self, hour: int, cluster: str, model: str, gpu_hours: float) -> None:
        self.model(hour, cluster, model).installed += gpu_hours
        self.gpus[cluster, hour] = self.gpus.get((cluster, hour), 0.0) + gpu_hours

    def away(self, hour: int, cluster: str, share: float) -> float:
        """Of the share of an hour in which a node was not seen, the part in which anything of its cluster was."""
        covered = self.covered.get((cluster, hour), 0.0) if self.covered else 1.0
        return max(0.0, share + covered - 1.0)

    def add_absent(self, hour: int, cluster: str, model: str, gpus: float, share: float) -> None:
        """GPUs that were there and not seen: what `gpus` has of an hour is of the covered part alone."""
        away = self.away(hour, cluster, share)
        self.add_installed(hour, cluster, model, gpus * away)
        self.model(hour, cluster, model).installed += gpus * (share - away)
