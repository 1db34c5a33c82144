"""Collects what a server knows of a fleet's jobs and GPUs over some weeks, hour by hour.

Hours that the recording rules have kept are read as they are. Hours that only the agents' own series have are computed
from these, which costs the server more. The sums do not depend on how the time was cut into parts.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice

from ofu_exporter.fleet.chunks import Answers, ChunkReader
from ofu_exporter.fleet.history import queries
from ofu_exporter.fleet.history.absent_nodes import AbsentNodeReader
from ofu_exporter.fleet.history.answers import (
    HistoryAnswers,
    add_up,
    cluster_of,
    job_and_loss_of,
    job_of,
    model_of,
    sums_of_hour,
)
from ofu_exporter.fleet.history.fleet_history import (
    ClusterHour,
    ClusterJob,
    FleetHistory,
    JobHistory,
    JobSums,
    MeasuredHours,
)
from ofu_exporter.fleet.history.progress_reader import ProgressReader
from ofu_exporter.fleet.history.queries import NAMES, Quantity
from ofu_exporter.fleet.history.served import read_served
from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan, phase_of
from ofu_exporter.fleet.prometheus import collector_paused
from ofu_exporter.fleet.series import Series


@collector_paused()
def read_history(reader: ChunkReader, start: float, end: float, jobs: str = "") -> FleetHistory:
    """Everything that a report needs, or what is known of the jobs that a matcher selects, and nothing of the others.

    What cannot be read is in the reader's list of missing parts. Where no hour is on record, hours end with the time.
    """
    stamps = _stamps(reader, ServerClock().whole(start, end + HOUR))
    is_young = len({*stamps}) == 1 and _is_first_record(reader, end)
    ends_with_rules = stamps and not is_young
    clock = ServerClock(phase_of(stamps) if ends_with_rules else end // 60 * 60 % HOUR)
    history = FleetHistory(clock, clock.whole(start, end))
    collector = _Collector(reader, history, jobs)
    collector.read_hours(are_on_record=not is_young)
    if not jobs:
        collector.read_installed()
    AbsentNodeReader(reader, history, jobs).read()
    if not jobs:
        collector.read_jobless()
    collector.read_facts_of_jobs()
    collector.read_losses()
    if not jobs:
        read_served(history, collector.about)
        ProgressReader(reader, history).read()
    collector.read_job_models()
    collector.read_simulated()
    return history


def _stamps(reader: ChunkReader, span: TimeSpan) -> list[float]:
    """When the hourly rules were evaluated."""
    answers = reader.recorded("hours on record", [queries.MODEL_HOURS[0].recorded], span)
    return [time for (series,) in answers for one in series for time, _ in one.points]


def _is_first_record(reader: ChunkReader, end: float) -> bool:
    """Whether the agents' own series know more than the one run of the hourly rules in the hours before."""
    if len(set(_stamps(reader, ServerClock().whole(end - 2 * HOUR, end + HOUR)))) > 1:
        return False
    hour = TimeSpan(end - HOUR, end)
    return any(
        reader.read("agents", hour, lambda part: reader.client.instant(queries.AGENTS, part.end))
    )


SHORT_HOURS = 0.19
"""Looks every five minutes at rates of five minutes may see too few GPUs of a job of up to ten minutes."""
SHORTEST_SEEN_HOURS = 0.1
"""Looks every minute, which rules keep, see all of those of longer ones."""
IDS_AT_ONCE = 500
"""Ids of jobs that one query names."""


class _Collector(HistoryAnswers):
    def __init__(self, reader: ChunkReader, history: FleetHistory, jobs: str = "") -> None:
        super().__init__(reader, history, jobs)
        self._held_hours: dict[ClusterJob, tuple[array[int], array[float]]] = {}
        """Hours, and GPU-hours held in them."""

    def read_hours(self, are_on_record: bool) -> None:
        """GPU-hours of models and jobs: those on record, and for the other hours those of the agents' own series."""
        if are_on_record:
            self._read_records()
        self._read_raw()
        targets = list(self.values_at_end("target", queries.TARGET))
        self._history.target = targets[0][1] if targets else None

    def _read_records(self) -> None:
        reader, span = self._reader, self._history.span
        names = [each.recorded for each in queries.MODEL_HOURS]
        for answers in reader.recorded("GPUs by model", names, span):
            self._add_models(answers)
            self._history.recorded.update(self.hours_of(answers))
        names = [each.of_jobs(self._jobs) for each in queries.JOB_HOURS]
        for answers in reader.recorded("jobs", names, span):
            self._name_jobs(answers[0])
            self._add_jobs(answers)
            self._history.recorded.update(self.hours_of(answers))

    def _read_raw(self) -> None:
        """The same of the hours that are not on record, of clusters whose agents' own series are there."""
        history = self._history
        agents = self._reader.series("agents", queries.AGENTS, history.span)
        self._agents = self.hours_of([agents])
        history.raw = self._agents - history.recorded
        wanted = (*queries.JOB_HOURS, *(() if self._jobs else queries.MODEL_HOURS))
        jobs = len(queries.JOB_HOURS)
        for cluster, span in self.raw_spans(history.raw):
            expressions = [each.of_cluster(cluster, self._jobs) for each in wanted]
            names = Quantity("names", "", queries.RAW_NAMES).of_cluster(cluster, self._jobs)
            asked = [*expressions, names]
            for answers in self._reader.stepped("hours without rules", asked, span):
                self._name_jobs(answers[-1])
                self._add_jobs(answers[:jobs])
                if not self._jobs:
                    self._add_models(answers[jobs:-1])

    def read_installed(self) -> None:
        """What GPUs there are, and of how much of the time anything is known."""
        for is_finer in (False, True):  # where an hour is known in part, it is read again
            self._read_covered(is_finer)
        for answer in self.either(queries.INSTALLED):
            for key, hour, value in self.values_of(answer, model_of):
                self._history.add_installed(hour, *key, value)

    def _read_covered(self, is_finer: bool) -> None:
        shares: dict[ClusterHour, float] = {}
        read = self.finer if is_finer else self.together
        for (answer,) in read("covered", [queries.COVERED]):
            for job, hour, value in self.values_of(answer, job_of):
                shares[job.cluster, hour] = min(1.0, value)
        self._history.covered.update(shares)

    def read_jobless(self) -> None:
        """What GPUs did that no job held."""
        for answers in self.together("GPUs outside of jobs", queries.JOBLESS):
            for quantity, answer in zip(queries.JOBLESS, answers, strict=True):
                for key, hour, value in self.values_of(answer, model_of):
                    of_hour = self._history.jobless_hours.setdefault(hour, JobSums())
                    for sums in (self._history.model(hour, *key).jobless, of_hour):
                        sums.add_one(quantity.name, value)

    def read_facts_of_jobs(self) -> None:
        """What is worth knowing of jobs and is no part of a ratio."""
        self._read_sizes()
        self._read_short_sizes()
        for quantity in (queries.VERDICT, queries.CAUSE):
            for labels, values, job in self._of_jobs(quantity):
                add_up(getattr(job, f"{quantity.name}s"), labels.get(quantity.name, ""), values)
        for labels, values, job in self._of_jobs(queries.FINDING):
            name = labels.get("finding", "")
            job.findings[name] = max(job.findings.get(name, 0.0), *values)
        self._read_idle()

    def _read_sizes(self) -> None:
        """Most GPUs of each hour, for as long as the job would have had them to hold what it held in the hour."""
        for answer in self.either(queries.SIZE):
            for key, sizes in self.largest(answer, job_of).items():
                held_hours = dict(zip(*self._held_hours.get(key, ((), ())), strict=True))
                for hour, gpus in sizes.items():
                    job = self._history.jobs.get(self._history.owned(key, hour))
                    if job is not None and gpus > 0:
                        job.add_size(gpus, held_hours.get(hour, 0.0) / gpus)

    def _read_short_sizes(self) -> None:
        """The GPUs of jobs of some minutes: none where they are not known, for a rate shows only a part of them."""
        history, most = self._history, dict[ClusterJob, float]()
        jobs = sorted(history.jobs.items(), key=lambda item: item[1].first_hour or 0)
        short = {key: job for key, job in jobs if sum(job.sizes.values()) < SHORT_HOURS}
        for begin in range(0, len(short), IDS_AT_ONCE):
            some = dict(islice(short.items(), begin, begin + IDS_AT_ONCE))
            hours = {
                (key.cluster, hour)
                for key, job in some.items()
                for hour in range(job.first_hour or 0, (job.last_hour or -1) + 1)
            }
            about = self.about(queries.any_of("job_id", sorted({key.job_id for key in some})))
            for answers in about.of_agents([queries.SIZE_OF_SHORT], hours):
                for key, hour, gpus in self.values_of(answers[0], job_of):
                    owner = history.owned(key, hour)
                    most[owner] = max(gpus, most.get(owner, gpus))
        for key, job in short.items():
            if key in most:
                job.sizes = {most[key]: 1.0}
            elif sum(job.sizes.values()) < SHORTEST_SEEN_HOURS:
                job.sizes = {}

    def read_losses(self) -> None:
        """Where the rest of the peak of the jobs' GPU-hours went, and their energy."""
        names = ("lost", "gained", "joules", "idle_joules")
        wanted = (queries.LOST, queries.GAINED, queries.ENERGY, queries.IDLE_ENERGY)
        for answers in self.together("where the peak went", wanted):
            for name, answer in zip(names, answers, strict=True):
                for (*key, part), hours in sorted(self.largest(answer, job_and_loss_of).items()):
                    self._add_part(ClusterJob(*key), hours, name, part)

    def _add_part(self, key: ClusterJob, hours: Mapping[int, float], name: str, part: str) -> None:
        """Add a job's values of some hours, one by one: so their sum is the same however the time is cut."""
        history, ordered = self._history, sorted(hours)
        is_reused = history.is_reused(key)
        owners = groupby(ordered, partial(history.owned, key)) if is_reused else [(key, ordered)]
        for owner, owned in owners:
            days = history.job_days(owner)
            for day, its in groupby(owned, history.clock.day_of):
                if (of_day := days.get(day)) is not None:
                    of_day.add_each(name, [hours[hour] for hour in its], part)

    def read_simulated(self) -> None:
        """Whether values of any hour are simulated, and whether others are measured. For jobs: in their clusters."""
        clusters = {key.cluster for key in self._history.jobs}
        flags = {
            one.labels.get("simulated")
            for answer in self.either(queries.SIMULATED)
            for one in answer
            if one.points and (not self._jobs or cluster_of(one.labels) in clusters)
        }
        self._history.is_simulated = "1" in flags
        if flags == {"1"} and self._history.recorded:  # that is one agent of each cluster, or more
            reader, span = self._reader, self._history.span
            others = reader.series("agents that measure", queries.MEASURING, span)
            flags |= {"0" for one in others if not self._jobs or cluster_of(one.labels) in clusters}
        self._history.is_partly_measured = "0" in flags

    def _add_jobs(self, answers: Answers) -> None:
        of_jobs = [self.largest(answer, job_of) for answer in answers]
        history = self._history
        for key in sorted(set[ClusterJob]().union(*of_jobs)):
            of_job, job = [each.get(key, {}) for each in of_jobs], history.job(key)
            is_reused = history.is_reused(key)
            hours, values = self._held_hours.setdefault(key, (array("l"), array("d")))
            hours.extend(of_job[0])
            values.extend(of_job[0].values())
            if of_job[1]:
                history.measured.setdefault(key, MeasuredHours()).add(*of_job[1:3])
            for hour in sorted(set[int]().union(*of_job)):
                if is_reused:
                    job = history.job(history.owned(key, hour))
                history.add_hour(job, hour, sums_of_hour([hours.get(hour) for hours in of_job]))

    def _add_models(self, answers: Answers) -> None:
        observed, utilized = (self.largest(answer, model_of) for answer in answers)
        for key in sorted(observed.keys() & utilized.keys()):
            for hour in sorted(observed[key].keys() & utilized[key].keys()):
                sums = self._history.model(hour, *key)
                sums.observed += observed[key][hour]
                sums.utilized += utilized[key][hour]

    def _name_jobs(self, answer: Iterable[Series]) -> None:
        hours_of, named = self._history.clock.hours_of, list(answer)
        for one in named:
            user, hours = one.labels.get("user", ""), hours_of(one.times)
            self._history.note_user(job_of(one.labels), user, hours)
        for one in named:
            for key, values in self._by_record(one):
                names = tuple(one.labels.get(name, "") for name in NAMES)
                if any(names):
                    job = self._history.job(key)
                    job.names[names] = job.names.get(names, 0) + len(values)
                if framework := one.labels.get("framework"):
                    job = self._history.job(key)
                    job.frameworks[framework] = job.frameworks.get(framework, 0.0) + len(values)

    def _by_record(self, one: Series) -> Iterator[tuple[ClusterJob, Sequence[float]]]:
        """The values of a series by the job that they are of: an id may be of several, one after the other."""
        key, history = job_of(one.labels), self._history
        if not history.is_reused(key):
            yield key, one.values
            return
        values: dict[ClusterJob, list[float]] = defaultdict(list)
        for hour, value in zip(history.clock.hours_of(one.times), one.values, strict=True):
            values[history.owned(key, hour)].append(value)
        yield from values.items()

    def _of_jobs(
        self, quantity: Quantity
    ) -> Iterator[tuple[dict[str, str], list[float], JobHistory]]:
        """Labels and values above 0, of jobs whose GPU-hours are known."""
        for answer in self.either(quantity):
            for one in answer:
                for key, hourly in self._by_record(one):
                    job = self._history.jobs.get(key)
                    values = [value for value in hourly if value > 0]
                    if job is not None and values:
                        yield one.labels, values, job

    def _read_idle(self) -> None:
        for answer in self.either(queries.IDLE):
            for key, hour, value in self.values_of(answer, job_of):
                days = self._history.job_days(self._history.owned(key, hour))
                if sums := days.get(self._history.clock.day_of(hour)):
                    sums.idle = min(sums.idle + value, sums.observed)

    def read_job_models(self) -> None:
        """Which GPUs the jobs had; not asked for in clusters of one model."""
        models: dict[str, set[str]] = defaultdict(set)
        if not self._jobs:  # otherwise only those of nodes that were away are known
            for _, cluster, model in self._history.models:
                models[cluster].add(model)
        for job in self._history.jobs.values():
            if len(models[job.key.cluster]) == 1:
                job.models = dict.fromkeys(models[job.key.cluster], 1.0)
        if all(job.models for job in self._history.jobs.values()):
            return
        for labels, values, job in self._of_jobs(queries.JOB_MODELS):
            add_up(job.models, labels.get("model", ""), values)
